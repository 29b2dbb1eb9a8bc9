// The rows of all keys by ranges: what no index finds is looked for in one range after another, each by a statement
// that a remote database ends in time, however many keys there are.

import type { Database } from './database.ts';

/** Rows that one statement reads at most: some 150 ms of a database. */
const RANGE_ROWS = 100_000;

/** Rows after `after`, up to `to`. */
export interface Range {
  readonly after: number;
  readonly to: number;
}

/** How many of how many rows were read. */
export type OnRange = (done: number, total: number) => void;

const NEWEST_ROW = { sql: 'SELECT max(row) AS row FROM api_keys' };

async function newestRow(db: Database): Promise<number> {
  return Number((await db.read(NEWEST_ROW))[0]?.row ?? 0);
}

/** Yields the ranges of rows after `after`, the oldest first. `whole`: one range will do, an index finds the rows. */
export async function* rangesAfter(
  db: Database,
  after: number,
  whole: boolean,
  onRange?: OnRange,
): AsyncGenerator<Range> {
  const newest = whole ? Number.MAX_SAFE_INTEGER : await newestRow(db);
  const rows = whole ? newest : RANGE_ROWS;
  for (let from = after; from < newest; from += rows) {
    const to = Math.min(newest, from + rows);
    yield { after: from, to };
    if (!whole) onRange?.(to, newest);
  }
}

/** Yields the ranges of rows before `before`, the newest first. */
export async function* rangesBefore(
  db: Database,
  before: number,
  whole: boolean,
  onRange?: OnRange,
): AsyncGenerator<Range> {
  const newest = whole ? Number.MAX_SAFE_INTEGER : await newestRow(db);
  const rows = whole ? newest : RANGE_ROWS;
  for (let to = Math.min(newest, before - 1); to > 0; to -= rows) {
    const after = Math.max(0, to - rows);
    yield { after, to };
    if (!whole) onRange?.(newest - after, newest);
  }
}
