// Names for the rows of a table of tests: short, whatever the values are.

const CHARS_MAX = 60;

/** A value as a test's name shows it. */
export function label(value: unknown): string {
  const text = value instanceof RegExp ? String(value) : JSON.stringify(value);
  return text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX)}…` : text;
}

/** Each value behind its label: for `test.each(labelled(values))('%s is refused', (_label, value) => …)`. */
export const labelled = <T>(values: readonly T[]): [string, T][] => values.map((value) => [label(value), value]);
