// Sample results of the tools with widgets. None of these keys exists.

const DAY_MS = 86_400_000;
const idOf = (index) => index.toString(16).padStart(4, '0').repeat(8);

/** A sample of each kind of key: name, scopes, and the days since creation, to its end, and since its last use. */
const KINDS = [
  ['billing export', ['read:orders', 'read:products'], 0.01, 30, null],
  ['CI pipeline', ['read', 'write'], 24, 341, 0.002],
  ['nightly backup', ['read'], 83, 4, 0.4],
  ['partner integration', ['read:orders', 'write:orders', 'read:products', 'write:products', 'admin'], 200, null, 3],
  ['old laptop', ['read'], 400, -35, 36],
  ['leaked in a screenshot', ['admin', 'admin:users'], 500, null, 120],
];

const usesOf = (index) => Array.from({ length: 30 }, (_, ago) => ((ago + index + 1) * 37) % 144);

export function samplesAt(nowMs) {
  const keys = KINDS.map(([name, scopes, created, expires, used], index) => ({
    id: idOf(index),
    name,
    scopes,
    active: index !== 5,
    fingerprint: idOf(index).slice(0, 12),
    createdAt: Math.round(nowMs - created * DAY_MS),
    expiresAt: expires === null ? null : nowMs + expires * DAY_MS,
    ...(used !== null && {
      lastUsedAt: Math.round(nowMs - used * DAY_MS),
      uses: { today: usesOf(index)[0], last30Days: usesOf(index) },
    }),
  }));
  keys[2].rotation = { state: 'until_first_use', otherFingerprint: 'c0ffee5a3b1e' };
  keys[3].rotation = { state: 'overlapping', previousUntil: nowMs + DAY_MS / 5, otherFingerprint: 'b1ec05a3b1ec' };
  const [{ id, name, scopes, expiresAt }] = keys;
  const warning = 'Save this key now - it will not be shown again';
  const created = { id, key: `sk_test_${'5a3b1ec0'.repeat(8)}`, name, scopes, expiresAt, warning };
  return { 'api-key-created': created, 'api-keys-list': { keys } };
}
