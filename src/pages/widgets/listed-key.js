// The keys of list_api_keys, or of admin_list_keys, read with care: a host may hand a widget anything.

const SOON_MS = 7 * 86_400_000;
const DAYS = 30; // of uses

/** True for a number of milliseconds that `Date` can hold. */
export const isTime = (value) => typeof value === 'number' && Math.abs(value) <= 8.64e15;
const textOrNull = (value) => (typeof value === 'string' ? value : null);
const timeOrNull = (value) => (isTime(value) ? value : null);
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

/** Calls by day, today first, with the zeros at the end that a list leaves out; null: none in 30 days. */
function readUses(uses) {
  const days = uses?.last30Days;
  if (!isCount(uses?.today) || !Array.isArray(days) || !days.every(isCount) || days.length > DAYS) return null;
  return { today: uses.today, days: [...days, ...Array(DAYS - days.length).fill(0)] };
}

const readQuota = (quota) => (isCount(quota?.requests) && ['day', 'month'].includes(quota.period) ? quota : null);

const readLimit = (limit) =>
  isCount(limit?.requests) && /^[1-9]\d{0,8}[smhd]$/.test(limit.window)
    ? { requests: limit.requests, window: limit.window }
    : null;

/** `rotation` of a listed key, or null if there is none that can be read. */
export function readRotation(rotation) {
  const { state, previousUntil, otherFingerprint } = rotation ?? {};
  if (state !== 'until_first_use' && (state !== 'overlapping' || !isTime(previousUntil))) return null;
  return { state, previousUntil, otherFingerprint: textOrNull(otherFingerprint) };
}

/** A list of the one key, with the text it is searched by; an empty list if the item is not a key. */
export function readKey(item) {
  if (typeof item?.id !== 'string') return [];
  const { id, owner, name, scopes, active, fingerprint, createdAt, expiresAt, lastUsedAt } = item;
  const read = {
    id,
    owner: textOrNull(owner), // of admin_list_keys alone
    name: String(name),
    scopes: Array.isArray(scopes) ? scopes.map(String) : [],
    active: active === true,
    resource: textOrNull(item.resource), // the one server that it is for
    fingerprint: textOrNull(fingerprint),
    createdAt: timeOrNull(createdAt),
    expiresAt: timeOrNull(expiresAt),
    lastUsedAt: timeOrNull(lastUsedAt),
    rotation: readRotation(item.rotation),
    uses: readUses(item.uses),
    quota: readQuota(item.quota),
    limit: readLimit(item.rateLimit),
  };
  const others = [read.name, read.owner, read.resource, id, read.fingerprint, read.rotation?.otherFingerprint];
  return [{ ...read, text: [...others, ...read.scopes].join('\n').toLowerCase() }];
}

/** Which of the four states a key is in. */
export function stateOf({ active, expiresAt }, nowMs) {
  if (!active) return 'revoked';
  if (expiresAt === null || expiresAt - nowMs > SOON_MS) return 'active';
  return expiresAt < nowMs ? 'expired' : 'soon';
}

export const isEnded = ({ state }) => state === 'expired' || state === 'revoked';

/** The key's rotation while it is under way, else null. */
export function rotationOf({ state, rotation }) {
  if (rotation === null || isEnded({ state })) return null;
  return rotation.state === 'until_first_use' || rotation.previousUntil > Date.now() ? rotation : null;
}
