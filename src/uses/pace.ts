// Decides when counts are exchanged, and in which batches: soon while few keys wait, and as rarely as promised while many
// do, so that the writes per second grow little with the keys in use.

/** The wait after a first use. 5 s are promised, which leaves time for the batches. */
const EXCHANGE_AFTER_MS = 3000;
/** If more wait than this, their last uses may take 60 s. */
const FEW = 1000;
/** The longest wait. 60 s are promised, which leaves time for 100,000 in batches. */
const WAIT_MS_MAX = 30_000;

/** The least time between two early exchanges. */
export const EARLY_EVERY_MS = 250;

/** The time over which the batches are spread: for few this, for many a third of their wait. */
const SPREAD_MS = 1000;
const SPREAD_PART = 1 / 3;
/** The longest pause between batches of few keys, which need not use all of that time. */
const PAUSE_MS_MAX = 5;

/** Returns how long holders wait, from the first of them. `count`: how many wait. */
export const waitMsOf = (count: number): number =>
  count <= FEW ? EXCHANGE_AFTER_MS : Math.min(WAIT_MS_MAX, (EXCHANGE_AFTER_MS * count) / FEW);

/** Returns the pause between two batches, in which everything else has a turn. */
export function pauseMsOf(count: number, perBatch: number): number {
  const batches = Math.ceil(count / perBatch);
  return count <= FEW
    ? Math.min(PAUSE_MS_MAX, SPREAD_MS / batches)
    : Math.max(1, (waitMsOf(count) * SPREAD_PART) / batches);
}

/** Keys sorted at once, in a millisecond: sorting 10,000 would block the event loop for 12. */
const SORTED_MAX = 2000;

/** Yields batches, oldest first within each SORTED_MAX: keys of one age share database pages, so a write touches few. */
export function* batchesOf<Key>(
  keys: IteratorObject<Key>,
  size: number,
  createdAtMs: (key: Key) => number,
): Generator<Key[]> {
  const oldestFirst = () => [...keys.take(SORTED_MAX)].sort((a, b) => createdAtMs(a) - createdAtMs(b));
  for (let sorted = oldestFirst(); sorted.length > 0; sorted = oldestFirst()) {
    for (let from = 0; from < sorted.length; from += size) yield sorted.slice(from, from + size);
  }
}
