// Removes old rows, records hourly and counts daily, by one of the processes on a database; nothing is lost if two do it at
// once. In small batches, so that nobody waits: records by the statements of each table (tables.ts), counts holder by holder.

import { repeat } from '../ground/background.ts';
import type { FeedPage } from '../ground/change-feed.ts';
import { type Clock, MS_PER_DAY, MS_PER_HOUR, sleep } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { type Database, firstOf, type Statement } from './database.ts';
import { BATCH_ROWS, CHANGES_KEPT_MAX, NOW_S, OLDEST_S, parameter, type Removal, type Run, TABLES } from './tables.ts';

/** The first run is soon after the start, but not part of it. */
const FIRST_AFTER_MS = 2000;
const EVERY_MS = 0.75 * MS_PER_HOUR;
/** Shortens or lengthens the pause by up to this part: to half an hour at least, and an hour at most. */
const JITTER = 1 / 3;

/**
 * When a poll shows too many changes, a run begins at once, but not sooner than this after the one before. "Too many" is a
 * random multiple of the limit, different in each process, so that usually only one of them does it.
 */
const OVERDUE_AGAIN_AFTER_MS = 10_000;
const OVERDUE_FROM = 1.02;
const OVERDUE_TO = 1.1;

/** How long events and uses are kept. */
export interface KeptDays {
  readonly eventDays: number;
  readonly usageDays: number;
}

interface UpkeepOptions extends KeptDays {
  readonly clock: Clock;
  readonly log: Log;
}

/** What one process at a time does for a database, and how often. */
const TASKS = {
  records: { everyMs: EVERY_MS * (1 - JITTER), remove: removeRecords },
  // Rare, because nearly nothing is old, and the keys are many.
  counts: { everyMs: MS_PER_DAY, remove: removeCounts },
} as const;

type Task = keyof typeof TASKS;

export async function removeOld(
  db: Database,
  { clock, eventDays, usageDays }: Omit<UpkeepOptions, 'log'>,
  tasks: readonly Task[] = ['records', 'counts'],
) {
  for (const task of tasks) await TASKS[task].remove(db, { nowMs: clock.nowMs(), eventDays, usageDays, after: 0 });
}

// Only one of the processes that find it due gets it, also when the statement is sent again. A time in the future comes from
// a clock that was ahead.
const TAKE = 'UPDATE upkeep SET at_ms = ?2 WHERE task = ?1 AND NOT ?2 - at_ms BETWEEN 1 AND ?3';

/** Returns the due tasks that this process has claimed, so that no other does them meanwhile. */
async function takeDue(db: Database, nowMs: number): Promise<readonly Task[]> {
  const taken: Task[] = [];
  for (const task of Object.keys(TASKS) as Task[]) {
    const { changed } = await db.write({ sql: TAKE, args: [task, nowMs, TASKS[task].everyMs], unsynced: true });
    if (changed > 0) taken.push(task);
  }
  return taken;
}

export type Upkeep = ReturnType<typeof createUpkeep>;

export function createUpkeep(db: Database, options: UpkeepOptions) {
  const { clock, log } = options;
  const overdueAt = CHANGES_KEPT_MAX * (OVERDUE_FROM + Math.random() * (OVERDUE_TO - OVERDUE_FROM));
  let overdueAgainAtMs = Number.NEGATIVE_INFINITY;
  let isOverdue = false;
  const runs = repeat(
    { everyMs: EVERY_MS, firstMs: FIRST_AFTER_MS, jitter: JITTER, clock, log, event: 'old changes not removed' },
    async () => {
      await removeOld(db, options, isOverdue ? [] : await takeDue(db, clock.nowMs()));
      // Also changes reported meanwhile: there may have been nothing to delete when this run looked.
      while (isOverdue) {
        isOverdue = false;
        await removeOld(db, options, ['records']);
      }
    },
  );
  return {
    /** Begins a run at once if the page shows too many changes. */
    onPage({ newestSeq, prunedSeq }: FeedPage): void {
      const nowMs = clock.monotonicMs();
      if (newestSeq - prunedSeq <= overdueAt || nowMs < overdueAgainAtMs) return;
      overdueAgainAtMs = nowMs + OVERDUE_AGAIN_AFTER_MS;
      isOverdue = true;
      runs.runNow();
    },
    stop: runs.stop,
  };
}

// How a task deletes what is old.

/** Holders whose counts are scanned at once, which takes a few milliseconds of a local file's process. */
const BATCH_HOLDERS = 100;
/** Between two batches, for everybody else. */
const PAUSE_MS = 10;

/** How long ended windows are kept, for clocks that disagree. */
const WINDOW_KEPT_S = 600;

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

const batchOf = (table: 'api_keys' | 'holders') =>
  `(SELECT row FROM ${table} WHERE row > ${parameter('after')} ORDER BY row LIMIT ${BATCH_HOLDERS}) h`;

/** Returns the statements for a batch of holders. `row`: the row number of holder `h` in the tables of counts. */
function holdersIn(table: 'api_keys' | 'holders', row: string) {
  const batch = batchOf(table);
  const old = COUNTS.map((counts) => ({ ...counts, isOld: `c.row = ${row} AND ${counts.isOld}` }));
  const isAnyOld = old.map(({ table, isOld }) => `EXISTS (SELECT 1 FROM ${table} c WHERE ${isOld})`).join(' OR ');
  return {
    /** Selects the last row of the batch, null after all of them, and whether it has `old` counts. */
    batch: `SELECT max(h.row) AS last, max(${isAnyOld}) AS old FROM ${batch}`,
    remove: old.map(
      ({ table, key, isOld }) => `DELETE FROM ${table} WHERE (row, ${key.replaceAll('c.', '')}) IN (
SELECT c.row, c.${key} FROM ${batch} CROSS JOIN ${table} c WHERE ${isOld})`,
    ),
  };
}

const KEYS = holdersIn('api_keys', 'h.row');
const OWNERS = holdersIn('holders', '-h.row');

/** Removes each owner who has no counts left: he would stay for ever. His next ones insert him again. */
const REMOVE_SPENT = `DELETE FROM holders WHERE row IN (SELECT h.row FROM ${batchOf('holders')}
WHERE ${COUNTS.map(({ table }) => `NOT EXISTS (SELECT 1 FROM ${table} WHERE row = -h.row)`).join(' AND ')})`;

const HOLDERS = [KEYS, { ...OWNERS, remove: [...OWNERS.remove, REMOVE_SPENT] }];

const REMOVALS = TABLES.flatMap(({ removals }) => removals);

async function removeRecords(db: Database, run: Run): Promise<void> {
  for (const removal of REMOVALS) while (await removed(db, removal, run)) await sleep(PAUSE_MS);
}

/** Runs a removal once. Returns whether there may be more: of a batch that is full, some may be too young. */
async function removed(db: Database, removal: Removal, run: Run): Promise<boolean> {
  const written = await db.writeAll(statementsOf(removal, run).map((statement) => ({ ...statement, unsynced: true })));
  return written.some(({ changed, repeated }) => changed >= BATCH_ROWS / 2 || repeated);
}

async function removeCounts(db: Database, run: Run): Promise<void> {
  for (const { batch, remove } of HOLDERS) {
    for (let after = 0; ; ) {
      const { last, old } = firstOf(await db.read(statementOf(batch, { ...run, after })));
      if (typeof last !== 'number') break;
      if (old === 1) await removed(db, remove, { ...run, after });
      after = last;
      await sleep(PAUSE_MS);
    }
  }
}

export const statementsOf = (removal: Removal, run: Run): Statement[] => removal.map((sql) => statementOf(sql, run));

/** Returns a statement, with an argument only if it has parameters. */
const statementOf = (sql: string, run: Run): Statement => ({
  sql,
  args: sql.includes('?1') ? [JSON.stringify(run)] : [],
});
