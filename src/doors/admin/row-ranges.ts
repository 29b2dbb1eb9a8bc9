// Splits the rows of all keys into ranges, for searches that no index serves: one statement per range, short enough for a
// remote database, however many keys there are.

import { type Database, firstOf } from '../../store/database.ts';

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

/** Which rows, and in which order: by default all, oldest first. */
interface Rows {
  readonly after?: number;
  readonly before?: number;
  readonly newestFirst?: boolean;
  /** The most rows of a range, for what returns nearly all of them. */
  readonly rowsMax?: number;
}

/** Yields ranges of rows. `whole`: as one range, because an index finds the rows. */
export async function* rangesOf(
  db: Database,
  { after = FIRST_ROW, before = Number.POSITIVE_INFINITY, newestFirst = false, rowsMax = RANGE_ROWS }: Rows,
  whole: boolean,
  onRange?: OnRange,
): AsyncGenerator<Range> {
  const newest = whole ? LAST_ROW : Number(firstOf(await db.read(NEWEST_ROW)).row ?? 0);
  const last = Math.min(newest, before - 1);
  const rows = whole ? newest : rowsMax;
  const ranges: Range[] = [];
  for (let from = after; from < last; from += rows) ranges.push({ after: from, to: Math.min(last, from + rows) });
  for (const range of newestFirst ? ranges.reverse() : ranges) {
    yield range;
    if (!whole) onRange?.(newestFirst ? newest - range.after : range.to, newest);
  }
}
