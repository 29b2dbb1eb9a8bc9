// The sentence about a bad setting, whichever room finds it.

/** `got`: the value as it may be shown; without it the sentence shows nothing of the value. */
export const expected = (name: string, what: string, got?: string): string =>
  `${name}: expected ${what}${got === undefined ? '' : `, got ${JSON.stringify(got)}`}`;

/** The arguments are those of `expected`. */
export type NoteFault = (...fault: Parameters<typeof expected>) => void;
