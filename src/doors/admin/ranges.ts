// Splits the rows of all keys into ranges, for searches that no index serves: one statement per range, short enough for a
// remote database, however many keys there are.

import type { Database } from '../../store/database.ts';

/** The most rows that one statement scans: some 150 ms of a database. */
const RANGE_ROWS = 100_000;

/** Row numbers before all keys, and after all of them. */
export const FIRST_ROW = 0;
export const LAST_ROW = Number.MAX_SAFE_INTEGER;

/** Rows after `after`, up to and including `to`. */
interface Range {
  readonly after: number;
  readonly to: number;
}

/** Takes the progress: rows read so far, and in total. */
export type OnRange = (done: number, total: number) => void;

const NEWEST_ROW = { sql: 'SELECT max(row) AS row FROM api_keys' };

async function newestRow(db: Database): Promise<number> {
  return Number((await db.read(NEWEST_ROW))[0]?.row ?? 0);
}

/**
 * Yields ranges of rows after `after`, oldest first. `whole`: as one range, because an index finds the rows. `rowsMax`: for
 * what returns nearly all of them.
 */
export async function* rangesAfter(
  db: Database,
  after: number,
  whole: boolean,
  onRange?: OnRange,
  rowsMax = RANGE_ROWS,
): AsyncGenerator<Range> {
  const newest = whole ? Number.MAX_SAFE_INTEGER : await newestRow(db);
  const rows = whole ? newest : rowsMax;
  for (let from = after; from < newest; from += rows) {
    const to = Math.min(newest, from + rows);
    yield { after: from, to };
    if (!whole) onRange?.(to, newest);
  }
}

/** Yields ranges of rows before `before`, newest first. */
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
