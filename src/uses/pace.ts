// When uses are exchanged, and in which slices: soon while few keys wait, and as seldom as is promised while many do, so
// that what is written in a second grows little with the keys in use.

/** After a first use. 5 s are promised: that leaves time for the slices. */
const EXCHANGE_AFTER_MS = 3000;
/** While more wait than this, their last uses may take 60 s. */
const FEW = 1000;
/** The longest wait. 60 s are promised: that leaves time for 100,000 in slices. */
const WAIT_MS_MAX = 30_000;

/** Between two exchanges of holders that have used a part of their limit. */
export const EARLY_EVERY_MS = 250;

/** Few that wait are written within this time, and many within a third of what they have waited. */
const SPREAD_MS = 1000;
const SPREAD_PART = 1 / 3;
/** Between two slices: a few need not be spread over all of that time. */
const PAUSE_MS_MAX = 5;

/** Returns how long holders wait after the first of them; `count`: how many wait. */
export const waitMsOf = (count: number): number =>
  count <= FEW ? EXCHANGE_AFTER_MS : Math.min(WAIT_MS_MAX, (EXCHANGE_AFTER_MS * count) / FEW);

/** Returns the time between two slices, in which everybody else has a turn. */
export function pauseMsOf(count: number, perSlice: number): number {
  const slices = Math.ceil(count / perSlice);
  return count <= FEW
    ? Math.min(PAUSE_MS_MAX, SPREAD_MS / slices)
    : Math.max(1, (waitMsOf(count) * SPREAD_PART) / slices);
}

/** Keys sorted at once, in a millisecond: 10,000 would hold up the event loop for 12. */
const SORTED_MAX = 2000;

/** Yields slices, of each SORTED_MAX oldest first: keys of one age are neighbours in the database, so a write touches few pages. */
export function* slicesOf<Key>(
  keys: IteratorObject<Key>,
  size: number,
  createdAtMs: (key: Key) => number,
): Generator<Key[]> {
  const oldestFirst = () => [...keys.take(SORTED_MAX)].sort((a, b) => createdAtMs(a) - createdAtMs(b));
  for (let sorted = oldestFirst(); sorted.length > 0; sorted = oldestFirst()) {
    for (let from = 0; from < sorted.length; from += size) yield sorted.slice(from, from + size);
  }
}
