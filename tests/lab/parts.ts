// Which part of src/ a file belongs to: a door (a capability that a server could do without), what stands beside the core, or
// the core.

export interface Part {
  readonly name: string;
  readonly files: RegExp;
}

export interface Door {
  readonly name: string;
  /** Files of this door outside src/doors/<door>/. */
  readonly files?: RegExp;
  /** Words that name this door; a line outside all doors with one of them is about the door. */
  readonly words: RegExp;
}

/** The first that fits decides. */
export const DOORS: readonly Door[] = [
  { name: 'children', words: /child|delegat|parent/i },
  { name: 'services', words: /lease|\bmarks?\b|\btold\b|(recent|older)-?changes|introspect/i },
  {
    name: 'owners',
    files:
      /^store\/owner-settings\.ts|^ground\/metadata\.ts|^commands\/(keys\/(owner|owners|shown-owner)|metadata)\.ts/,
    words:
      /owners?[-_ ]?(settings|limits?|quota|rate|holders?|uses|plans?|keys|fields|line)\b|of an? owner|all owners|OWNER_|keysMax|\bplans?\b/i,
  },
  { name: 'admin', words: /admin/i },
  {
    name: 'signin',
    files: /^config\/(client-ids|redirects)\.ts|^ground\/(documents|signed-text)\.ts/,
    words: /oauth|\bconnect\b|device|sign-?in\b|authorize|redirect_?uri|client-?documents?\b/i,
  },
  {
    name: 'page',
    files: /^pages\/document|^keys\/history\.ts|^calls\/person\.ts|^ground\/(inline|html)\.ts/,
    words: /keys_?page|own-?(keys|edits?)\b|the page\b|\bhistory\b/i,
  },
  { name: 'copies', files: /^commands\/keys\/(backup|restore|export)\.ts/, words: /backup|restore|replica/i },
  { name: 'sse', words: /\bsse\b|sessions?\b/i },
  { name: 'metrics', words: /metrics?\b/i },
  { name: 'rules', words: /\brules?\b|workload/i },
  { name: 'traces', words: /\bspans?\b|\btraces\b|otel|otlp/i },
];

/** Neither doors nor core: what a reader of the core can leave aside. */
export const BESIDE: readonly Part[] = [
  { name: 'commands', files: /^commands\/|^cli\.ts/ },
  { name: 'widgets', files: /^pages\/widgets\// },
  {
    name: 'own tools',
    files:
      /^tools\/folder\/|^calls\/(untyped|settings|failure)\.ts|^start\/(reload|watch-tools|loop-watch)\.ts|^start\/package\//,
  },
  { name: 'asking and prompts', files: /^calls\/(ask|questions|prompt|content)\.ts|^mcp\/client\.ts/ },
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
  return [...DOORS, ...BESIDE].find(({ files }) => files?.test(file))?.name ?? 'core';
}
