// Data for the lab: made-up results of the tools with widgets. None of these keys exists.

/** Under what name a host hands a widget what the model must not see. */
const WIDGET_DATA = 'mcp-key-server/widget';

/** `widget`: another delivery of a new key. `rotated`: one that was rotated. */
export const DATA_SETS = ['few', 'empty', '1000', 'hostile', 'error', 'widget', 'rotated'] as const;
export type DataSet = (typeof DATA_SETS)[number];

/** What a host hands to a widget: the arguments of the call, and its result. */
export interface Sample {
  readonly input: Readonly<Record<string, unknown>>;
  readonly result: {
    readonly content: readonly { readonly type: 'text'; readonly text: string }[];
    readonly structuredContent?: object;
    readonly isError?: true;
    readonly _meta?: object;
  };
}

export interface SampleKey {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly active: boolean;
  readonly fingerprint: string;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly lastUsedAt?: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MANY = 1000; // what one user may hold

// Names that mislead people or break pages.
const HOSTILE_NAMES = [
  '<script>alert("name")</script>',
  '<img src=x onerror="alert(1)">',
  '</template></script><script>alert(1)</script>',
  'javascript:alert(1)',
  'invoice \u202efdp.exe',
  '\u2067\u202eright to left, never closed',
  '\u200b\u200b\u200b',
  'ad\u200bmin',
  '🔑'.repeat(200),
  'W'.repeat(200),
  'Z\u0351\u0343\u0300\u0334a\u0300\u0301\u0302\u0303\u0304\u0305l\u0316\u0317\u0318\u0319go',
  'مفتاح الفواتير',
  '&lt;b&gt; {{7*7}} %3Cscript%3E',
];
const HOSTILE_SCOPES = [
  '<script>alert(1)</script>',
  '<img/src=x/onerror=alert(1)>',
  'javascript:alert(1)',
  ...Array.from({ length: 97 }, (_, index) => `${index}:${'x'.repeat(90)}`),
];

const NAMES = [
  'billing export',
  'CI',
  'nightly backup',
  'search indexer',
  'mobile app',
  'status page',
  'data warehouse',
];
const SCOPES = [['read'], ['read', 'write'], ['read:products', 'read:orders'], ['admin:users'], []];

type Widget = 'api-key-created' | 'api-keys-list';

/** `few`: the keys of that data set. */
export function sampleOf(widget: Widget, data: DataSet, few: readonly SampleKey[] = []): Sample {
  const input = widget === 'api-key-created' ? inputOf(data) : {};
  if (data === 'error') {
    const text = 'The key store is out of reach; try again';
    return { input, result: { content: [{ type: 'text', text }], isError: true } };
  }
  const output = widget === 'api-key-created' ? created(data) : { keys: keysOf(data, few) };
  const content = [{ type: 'text' as const, text: JSON.stringify(output) }];
  const forWidget = widget === 'api-key-created' && data === 'widget' && { _meta: { [WIDGET_DATA]: SHOWN } };
  return { input, result: { content, structuredContent: output, ...forWidget } };
}

const newName = (data: DataSet) => (data === 'hostile' ? HOSTILE_NAMES.slice(0, 5).join(' ') : 'billing export');
const newScopes = (data: DataSet) =>
  data === 'hostile' ? HOSTILE_SCOPES : data === 'empty' ? [] : ['read:orders', 'read:products'];

const OVERLAP_HOURS = 24;

const inputOf = (data: DataSet) =>
  data === 'rotated' ? { keyId: sampleId(0), overlapHours: OVERLAP_HOURS } : newKey(data);

const newKey = (data: DataSet) => ({
  name: newName(data),
  scopes: newScopes(data),
  expiresInDays: 30,
});

const SHOWN = {
  key: `sk_test_${'5a3b1ec0'.repeat(8)}`,
  warning: 'Save this key now - it will not be shown again',
};

function keyPart(data: DataSet): { key?: string; warning: string } {
  if (data !== 'widget') return SHOWN;
  return { warning: 'The widget shows the key to the user, once. It is not in this result, and you cannot read it' };
}

function created(data: DataSet) {
  const { warning, ...how } = keyPart(data);
  return {
    id: sampleId(0),
    ...how,
    name: newName(data),
    scopes: newScopes(data),
    expiresAt: data === 'empty' ? null : Date.now() + 30 * DAY_MS,
    warning,
    ...(data === 'rotated' && { previous: { state: 'until_first_use', overlapHours: OVERLAP_HOURS } }),
  };
}

function keysOf(data: DataSet, few: readonly SampleKey[]): readonly SampleKey[] {
  if (data === 'empty') return [];
  const nowMs = Date.now();
  if (data === '1000') return Array.from({ length: MANY }, (_, index) => numbered(index, nowMs));
  if (data === 'hostile') {
    return HOSTILE_NAMES.map((name, index) => ({
      ...numbered(index, nowMs),
      name,
      scopes: index === 0 ? HOSTILE_SCOPES : HOSTILE_SCOPES.slice(0, index % 4),
    }));
  }
  return few;
}

// Every state and column varies with the index, each at its own pace.
function numbered(index: number, nowMs: number): SampleKey {
  const createdAt = nowMs - (index + 1) * 9 * HOUR_MS;
  return {
    id: sampleId(index),
    name: `${NAMES[index % NAMES.length]} ${index + 1}`,
    scopes: SCOPES[index % SCOPES.length] ?? [],
    active: index % 6 !== 5,
    fingerprint: sampleFingerprint(index),
    createdAt,
    expiresAt: index % 3 === 0 ? null : nowMs + ((index % 41) - 8) * 3 * DAY_MS,
    ...(index % 4 !== 3 && { lastUsedAt: Math.max(createdAt, nowMs - (index % 97) * 2 * HOUR_MS) }),
  };
}

const sampleId = (index: number) => index.toString(16).padStart(4, '0').repeat(8);

const sampleFingerprint = (index: number) => `f${index.toString(16).padStart(11, '0')}`;
