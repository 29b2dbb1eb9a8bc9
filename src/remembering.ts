// Memoizes a decision over texts that come again and again, for those seen lately.

import { createRecent } from './recent.ts';

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
