// The sentence about a setting that can't be used.

/** `got` is what was found, as it may be shown; without it the sentence shows nothing of the value. */
export const expected = (name: string, what: string, got?: string): string =>
  `${name}: expected ${what}${got === undefined ? '' : `, got ${JSON.stringify(got)}`}`;

/** Notes that a setting can't be used; the arguments are those of `expected`. */
export type NoteFault = (...fault: Parameters<typeof expected>) => void;
