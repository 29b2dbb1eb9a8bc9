// Memoizes: a value made once, and decisions over texts that come again.

import { createRecent } from './lru-cache.ts';

const REMEMBERED_MAX = 1000;

/** A longer text is not worth keeping. */
const CHARS_MAX = 255;

export function remembering<Decision>(decide: (text: string) => Decision): (text: string) => Decision {
  const decided = createRecent<Decision>({ entries: REMEMBERED_MAX });
  return (text) => {
    const known = decided.get(text);
    if (known !== undefined) return known;
    const decision = decide(text);
    if (text.length <= CHARS_MAX) decided.set(text, decision);
    return decision;
  };
}

export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
