// Rows of tests that only `bun run test:rest` runs (other places, repetition), beside those of `bun run test` and
// `bun run test:slow`. A file that is run by itself has all.

const { TEST_ROWS } = process.env;

export const everything = TEST_ROWS !== 'usual';

/** Returns all rows; the first `count` where TEST_ROWS is `usual`, the others where it is `more`. */
export const rows = <T>(all: readonly T[], count: number): readonly T[] =>
  all.slice(TEST_ROWS === 'more' ? count : 0, everything ? undefined : count);

/** Returns what defines a test, or several, only where all rows run: `inRest(test)('…', () => …)`. */
export const inRest =
  <A extends unknown[]>(define: (...test: A) => void) =>
  (...test: A): void => {
    if (everything) define(...test);
  };
