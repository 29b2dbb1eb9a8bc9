// Slices of many keys, for writes that nobody else should wait for.

/** Keys sorted at once, in a millisecond: 10,000 would hold up the event loop for 12. */
const SORTED_MAX = 2000;

/** Of each SORTED_MAX, oldest first: keys of one age are neighbours in the database, so a write touches few pages. */
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
