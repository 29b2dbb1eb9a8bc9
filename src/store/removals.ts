// Deletes old rows, by one table of statements, in small batches, so that nobody waits. upkeep.ts says when, and by which
// process.

import { DAY_S } from '../ground/limits/rates.ts';
import { MS_PER_DAY, MS_PER_HOUR, sleep } from '../ground/runtime.ts';
import type { Database, Statement } from './database.ts';

/** Rows that one transaction deletes, which blocks a local file's process for some 10 ms. */
const BATCH_ROWS = 250;
/** Holders whose counts are scanned at once, which takes a few milliseconds of a local file's process. */
const BATCH_HOLDERS = 100;
/** Between two batches, for everybody else. */
const PAUSE_MS = 10;

/** How long an ended code is kept, so that even a server with a slow clock knows that it has ended. */
const CODES_KEPT_MS = MS_PER_HOUR;
/** How long an ended child is kept, for servers with a slow clock that still list it. */
const CHILDREN_KEPT_MS = MS_PER_DAY;
/** Far longer than a statement can be in transit. */
const EXCHANGES_KEPT_MS = 7 * MS_PER_DAY;
/** How long ended windows are kept, for clocks that disagree. */
const WINDOW_KEPT_S = 600;
/** A process that polls again within this time need not drop its caches. */
const CHANGES_KEPT_MS = MS_PER_DAY;
/**
 * 100 MB: a hundred times what a process reads rather than dropping its caches. At 5,000 changes a second it lasts 100 s,
 * after which no abandoned creation can still arrive (INSERT in store/key-changes.ts).
 */
export const CHANGES_KEPT_MAX = 500_000;

/** The parameters of a statement. */
export interface Run {
  readonly nowMs: number;
  readonly eventDays: number;
  readonly usageDays: number;
  /** The last row before the batch of holders. */
  readonly after: number;
}

/** Returns the expression for one parameter; all are one argument. */
const of = (name: keyof Run) => `(?1 ->> '${name}')`;

/** Statements that run in one transaction, repeated while a batch was full. */
type Removal = readonly string[];

// The earlier of this process's and the database's clock, so that a wrong one deletes nothing too early. By nothing else.
const NOW_MS = `CAST(min(${of('nowMs')}, unixepoch('subsec') * 1000) AS INTEGER)`;
const NOW_S = `${NOW_MS} / 1000`;

/** Returns the removal of long-ended children. It isn't announced, because they are refused already. */
function oldChildren(endsAtMs: 'ended_at_ms' | 'expires_at_ms'): Removal {
  const old = `row IN (SELECT row FROM children
WHERE ${endsAtMs} < ${NOW_MS} - ${CHILDREN_KEPT_MS} ORDER BY ${endsAtMs} LIMIT ${BATCH_ROWS})`;
  return [`UPDATE children SET changed_by = 'upkeep' WHERE ${old}`, `DELETE FROM children WHERE ${old}`];
}

const REMOVALS: readonly Removal[] = [
  oldChildren('ended_at_ms'),
  oldChildren('expires_at_ms'),
  [
    `DELETE FROM codes WHERE hash IN (
SELECT hash FROM codes WHERE ends_at_ms < ${NOW_MS} - ${CODES_KEPT_MS} ORDER BY ends_at_ms LIMIT ${BATCH_ROWS})`,
  ],
  [`DELETE FROM exchanges WHERE at_ms < ${NOW_MS} - ${EXCHANGES_KEPT_MS}`],
  [
    // Keeps the newest, whatever its age, so that its number is not reused. Each by its own age, so that one written
    // while a clock was slow takes no others with it.
    `DELETE FROM key_events WHERE seq IN (
SELECT seq FROM (SELECT seq, at_ms FROM key_events ORDER BY seq LIMIT ${BATCH_ROWS})
WHERE at_ms < ${NOW_MS} - ${of('eventDays')} * ${MS_PER_DAY}) AND seq < (SELECT max(seq) FROM key_events)`,
  ],
  [
    // pruned_seq tells readers that have not come that far that changes are missing.
    `UPDATE feed SET pruned_seq = old.seq FROM (
SELECT max(seq) AS seq FROM (SELECT seq, changed_at_ms FROM changes ORDER BY seq LIMIT ${BATCH_ROWS})
WHERE changed_at_ms < ${NOW_MS} - ${CHANGES_KEPT_MS} OR seq <= (SELECT max(seq) FROM changes) - ${CHANGES_KEPT_MAX}) AS old
WHERE old.seq > pruned_seq`,
    'DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed)',
  ],
];

const IS_OVER = `(c.number + 1) * c.window_s + ${WINDOW_KEPT_S} < ${NOW_S}`;
/** A holder's old days, found by an index search, and its ended windows, which are few. */
const IS_OLD = [
  `c.window_s = ${DAY_S} AND c.number < (${NOW_S}) / ${DAY_S} - ${of('usageDays')}`,
  `c.window_s < ${DAY_S} AND ${IS_OVER}`,
  `c.window_s > ${DAY_S} AND ${IS_OVER}`,
];

/** Statements for the holders of counts, one batch at a time. */
interface Holders {
  /** Selects the last row of the batch, null after all of them, and whether it has `old` counts. */
  readonly batch: string;
  readonly remove: Removal;
}

/** Returns the statements for a batch of holders. `row`: the row number in key_counts of holder `h`. */
function holdersIn(table: 'api_keys' | 'holders', row: string): Holders {
  const batch = `(SELECT row FROM ${table} WHERE row > ${of('after')} ORDER BY row LIMIT ${BATCH_HOLDERS}) h`;
  const old = IS_OLD.map((isOld) => `c.row = ${row} AND ${isOld}`);
  const isAnyOld = old.map((isOld) => `EXISTS (SELECT 1 FROM key_counts c WHERE ${isOld})`).join(' OR ');
  return {
    batch: `SELECT max(h.row) AS last, max(${isAnyOld}) AS old FROM ${batch}`,
    remove: old.map(
      (isOld) => `DELETE FROM key_counts WHERE (row, window_s, number) IN (
SELECT c.row, c.window_s, c.number FROM ${batch} CROSS JOIN key_counts c WHERE ${isOld})`,
    ),
  };
}

const HOLDERS = [holdersIn('api_keys', 'h.row'), holdersIn('holders', '-h.row')];

/** Deletes all old records: children, codes, exchanges, events and changes. */
export async function removeRecords(db: Database, run: Run): Promise<void> {
  for (const removal of REMOVALS) while (await removed(db, removal, run)) await sleep(PAUSE_MS);
}

/** Runs a removal once. Returns whether there may be more. */
async function removed(db: Database, removal: Removal, run: Run): Promise<boolean> {
  const written = await db.writeAll(removal.map((sql) => ({ ...statementOf(sql, run), unsynced: true })));
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

/** Returns a statement, with an argument only if it has parameters. */
const statementOf = (sql: string, run: Run): Statement => ({
  sql,
  args: sql.includes('?1') ? [JSON.stringify(run)] : [],
});
