// Memoizes values that are made once, and decisions over texts that come again.

import { createLruCache } from './lru-cache.ts';

const ENTRIES_MAX = 1000;
/** A longer text is not worth keeping. */
const CHARS_MAX = 255;

/** Memoizes a decision over texts, in an LRU cache. */
export function memoize<Decision>(decide: (text: string) => Decision): (text: string) => Decision {
  const decided = createLruCache<Decision>({ entries: ENTRIES_MAX });
  return (text) => {
    const known = decided.get(text);
    if (known !== undefined) return known;
    const decision = decide(text);
    if (text.length <= CHARS_MAX) decided.set(text, decision);
    return decision;
  };
}

/** Makes a value when it is first asked for, and keeps it. */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
