// Rows of tests that only `bun run test:all` runs, beside those of `bun run test`. A file that is run by itself has all.

export const everything = process.env.TEST_ROWS !== 'usual';

/** The first `count` of `rows`, or all. */
export const rows = <T>(all: readonly T[], count: number): readonly T[] => (everything ? all : all.slice(0, count));
