// Which part of src/ a file belongs to: a door (a capability that a server could do without), what stands beside the core, or
// the core. By path, as files lie now and as they lay before they moved to src/doors/<door>/.

export interface Part {
  readonly name: string;
  readonly files: RegExp;
}

export interface Door extends Part {
  /** Words that name this door; a line outside all doors with one of them is about the door. */
  readonly words: RegExp;
}

/** The first that fits decides, below what lies in src/doors/. */
export const DOORS: readonly Door[] = [
  {
    name: 'children',
    files:
      /^keys\/child(ren)?\.ts|^store\/children\.ts|^signin\/token-exchange\.ts|^pages\/keys\/(own|key)-children\.js/,
    words: /child|delegat|parent/i,
  },
  {
    name: 'services',
    files:
      /^api\/(changes|held|lease|told|introspect|service)\.ts|^keys\/(recent-changes|older-changes|marks|told)\.ts|^start\/package\/verifier\.ts/,
    words: /lease|\bmarks?\b|\btold\b|(recent|older)-?changes|introspect/i,
  },
  {
    name: 'owners',
    files:
      /^keys\/owners\.ts|^store\/(owners|owner-settings)\.ts|^ground\/metadata\.ts|^tools\/(owner-fields|admin-list-owners|admin-update-owner)\.ts|^commands\/keys\/(owner|owners|shown-owner)\.ts|^commands\/(metadata|meta-option)\.ts/,
    words:
      /owners?[-_ ]?(settings|limits?|quota|rate|holders?|uses|plans?|keys|fields|line)\b|of an? owner|all owners|OWNER_|keysMax|\b(plans?|allowances?)\b/i,
  },
  {
    name: 'admin',
    files:
      /^keys\/admin\.ts|^store\/(admin-store|ranges|imports)\.ts|^tools\/admin-(list-keys|revoke-keys|update-key)\.ts/,
    words: /admin/i,
  },
  {
    name: 'signin',
    files:
      /^signin\/|^config\/(client-ids|redirects)\.ts|^store\/(codes|open-requests)\.ts|^ground\/(documents|fetching|signed-text)\.ts/,
    words: /oauth|\bconnect\b|device|sign-?in\b|authorize|redirect_?uri|client-?documents?\b/i,
  },
  {
    name: 'page',
    files:
      /^pages\/(keys\/|document|inline)|^api\/(pages|own-keys)\.ts|^keys\/(own-edits|history)\.ts|^tools\/own-edit\.ts|^calls\/person(-requests)?\.ts|^ground\/(inline|html|minify)\.ts/,
    words: /keys_?page|own-?(keys|edits?)\b|the page\b|\bhistory\b/i,
  },
  {
    name: 'copies',
    files:
      /^store\/(backup|replica)\/|^store\/(copying|left-behind|embedded\/alone)\.ts|^commands\/keys\/(backup|restore|export)\.ts/,
    words: /backup|restore|replica/i,
  },
  { name: 'sse', files: /^mcp\/(sse|sessions)\.ts/, words: /\bsse\b|sessions?\b/i },
  { name: 'metrics', files: /^api\/metrics\/|^watch\/series\.ts/, words: /metrics?\b/i },
  { name: 'rules', files: /^doors\/rules\//, words: /\brules?\b|workload/i },
  { name: 'traces', files: /^doors\/traces\//, words: /\bspans?\b|\btraces\b|otel|otlp/i },
];

/** Neither doors nor core: what a reader of the core can leave aside. */
export const BESIDE: readonly Part[] = [
  { name: 'commands', files: /^commands\/|^cli\.ts/ },
  { name: 'widgets', files: /^pages\/widgets\// },
  {
    name: 'own tools',
    files:
      /^tools\/folder\/|^calls\/(untyped|definition-checks|settings|failure)\.ts|^start\/(reload|watch-tools|loop-watch)\.ts|^start\/package\//,
  },
  { name: 'asking and prompts', files: /^calls\/(ask|questions|prompt|content)\.ts|^mcp\/(client|request-states)\.ts/ },
  { name: 'limits', files: /^uses\/|^store\/counts\.ts/ },
  { name: 'remote', files: /^store\/remote\// },
  { name: 'rotation', files: /^keys\/(rotating|first-uses)\.ts|^tools\/rotate-api-key\.ts/ },
  { name: 'issuer', files: /^users\/(discovery|jwks|sign-in)\.ts/ },
  { name: 'shown', files: /^api\/(access-log|about|openapi|verify|revoke)\.ts/ },
];

/** The name of the part that a file of src/ belongs to, `core` if none; the path is relative to src/. */
export function partOf(file: string): string {
  const door = /^doors\/([^/]+)\//.exec(file)?.[1];
  if (door !== undefined) return door;
  return [...DOORS, ...BESIDE].find(({ files }) => files.test(file))?.name ?? 'core';
}
