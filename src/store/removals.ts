// Deletes old rows in small batches, so that nobody waits: by the statements of each table (tables.ts), and counts holder by
// holder. upkeep.ts says when, and by which process.

import { DAY_S } from '../ground/limits/rates.ts';
import { sleep } from '../ground/runtime.ts';
import type { Database, Statement } from './database.ts';

/** Rows that one transaction deletes, which blocks a local file's process for some 10 ms. */
export const BATCH_ROWS = 250;
/** Holders whose counts are scanned at once, which takes a few milliseconds of a local file's process. */
const BATCH_HOLDERS = 100;
/** Between two batches, for everybody else. */
const PAUSE_MS = 10;

/** How long ended windows are kept, for clocks that disagree. */
const WINDOW_KEPT_S = 600;

/** The parameters of a statement. */
export interface Run {
  readonly nowMs: number;
  readonly eventDays: number;
  readonly usageDays: number;
  /** The last row before the batch of holders. */
  readonly after: number;
}

/** Returns the expression for one parameter; all are one argument. */
export const of = (name: keyof Run) => `(?1 ->> '${name}')`;

/** Statements that run in one transaction, repeated while a batch was full. */
export type Removal = readonly string[];

// The earlier of this process's and the database's clock, so that a wrong one deletes nothing too early. By nothing else.
export const NOW_MS = `CAST(min(${of('nowMs')}, unixepoch('subsec') * 1000) AS INTEGER)`;
const NOW_S = `${NOW_MS} / 1000`;

const OLDEST_S = `${NOW_S} - ${of('usageDays')} * ${DAY_S}`;
/** The first day that is kept: days are removed by the month. */
export const OLDEST_DAY = `unixepoch(${OLDEST_S}, 'unixepoch', 'start of month') / ${DAY_S}`;
const OLDEST_MONTH = `strftime('%Y', ${OLDEST_S}, 'unixepoch') * 12 + strftime('%m', ${OLDEST_S}, 'unixepoch') - 1`;

/** The tables of counts, with the rest of their keys, and when a row `c` is old. */
const COUNTS = [
  { table: 'key_months', key: 'month', isOld: `c.month < ${OLDEST_MONTH}` },
  {
    table: 'key_counts',
    key: 'window_s, c.number',
    isOld: `(c.number + 1) * c.window_s + ${WINDOW_KEPT_S} < ${NOW_S}`,
  },
];

/** Statements for the holders of counts, one batch at a time. */
interface Holders {
  /** Selects the last row of the batch, null after all of them, and whether it has `old` counts. */
  readonly batch: string;
  readonly remove: Removal;
}

/** Returns the statements for a batch of holders. `row`: the row number of holder `h` in the tables of counts. */
function holdersIn(table: 'api_keys' | 'holders', row: string): Holders {
  const batch = `(SELECT row FROM ${table} WHERE row > ${of('after')} ORDER BY row LIMIT ${BATCH_HOLDERS}) h`;
  const old = COUNTS.map(({ isOld, ...of }) => ({ ...of, isOld: `c.row = ${row} AND ${isOld}` }));
  const isAnyOld = old.map(({ table, isOld }) => `EXISTS (SELECT 1 FROM ${table} c WHERE ${isOld})`).join(' OR ');
  return {
    batch: `SELECT max(h.row) AS last, max(${isAnyOld}) AS old FROM ${batch}`,
    remove: old.map(
      ({ table, key, isOld }) => `DELETE FROM ${table} WHERE (row, ${key.replaceAll('c.', '')}) IN (
SELECT c.row, c.${key} FROM ${batch} CROSS JOIN ${table} c WHERE ${isOld})`,
    ),
  };
}

const HOLDERS = [holdersIn('api_keys', 'h.row'), holdersIn('holders', '-h.row')];

/** Deletes everything that these removals find. */
export async function removeAll(db: Database, removals: readonly Removal[], run: Run): Promise<void> {
  for (const removal of removals) while (await removed(db, removal, run)) await sleep(PAUSE_MS);
}

/** Runs a removal once. Returns whether there may be more. */
async function removed(db: Database, removal: Removal, run: Run): Promise<boolean> {
  const written = await db.writeAll(statementsOf(removal, run).map((statement) => ({ ...statement, unsynced: true })));
  return written.some(({ changed, repeated }) => changed >= BATCH_ROWS || repeated);
}

/** Deletes all old counts. */
export async function removeCounts(db: Database, run: Run): Promise<void> {
  for (const holders of HOLDERS) await removeCountsOf(db, holders, run);
}

async function removeCountsOf(db: Database, { batch, remove }: Holders, run: Run): Promise<void> {
  for (let after = 0; ; ) {
    const [found] = await db.read(statementOf(batch, { ...run, after }));
    const { last = null, old } = found ?? {};
    if (typeof last !== 'number') return;
    if (old === 1) await removed(db, remove, { ...run, after });
    after = last;
    await sleep(PAUSE_MS);
  }
}

/** Returns the statements of one batch. */
export const statementsOf = (removal: Removal, run: Run): Statement[] => removal.map((sql) => statementOf(sql, run));

/** Returns a statement, with an argument only if it has parameters. */
const statementOf = (sql: string, run: Run): Statement => ({
  sql,
  args: sql.includes('?1') ? [JSON.stringify(run)] : [],
});
