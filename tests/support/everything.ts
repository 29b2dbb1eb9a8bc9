// Rows of tests that only `bun run test:all` runs (other places, repetition), beside those of `bun run test`. A file that is
// run by itself has all.

const { TEST_ROWS } = process.env;

export const everything = TEST_ROWS !== 'usual';

/** Returns the first `count` rows in `bun run test`, the others in `bun run test:slow`, and else all. */
export const rows = <T>(all: readonly T[], count: number): readonly T[] =>
  all.slice(TEST_ROWS === 'more' ? count : 0, everything ? undefined : count);
