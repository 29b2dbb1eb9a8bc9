// Schedules the removal of old rows: records hourly, counts daily, by one of the processes on a database. Nothing is lost
// if two do it at once.

import { repeat } from '../ground/background.ts';
import type { FeedPage } from '../ground/change-feed.ts';
import { type Clock, MS_PER_DAY, MS_PER_HOUR } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Database, Statement } from './database.ts';
import { type Run, removeAll, removeCounts } from './removals.ts';
import { CHANGES_KEPT_MAX, TABLES } from './tables.ts';

/** The first run is soon after the start, but not part of it. */
const FIRST_AFTER_MS = 2000;
const EVERY_MS = MS_PER_HOUR;
/** Shortens or lengthens the pause by up to this part. */
const JITTER = 0.5;

/**
 * When a poll shows too many changes, a run begins at once, but not sooner than this after the one before. "Too many" is a
 * random multiple of the limit, different in each process, so that usually only one of them does it.
 */
const OVERDUE_AGAIN_AFTER_MS = 10_000;
const OVERDUE_FROM = 1.02;
const OVERDUE_TO = 1.1;

export interface UpkeepOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly eventDays: number;
  readonly usageDays: number;
}

const REMOVALS = TABLES.flatMap(({ removals }) => removals);

/** What one process at a time does for a database, and how often. */
const TASKS = {
  records: {
    everyMs: EVERY_MS * (1 - JITTER),
    remove: (db: Database, run: Run) => removeAll(db, REMOVALS, run),
  },
  // Rare, because nearly nothing is old, and the keys are many.
  counts: { everyMs: MS_PER_DAY, remove: removeCounts },
} as const;

type Task = keyof typeof TASKS;

type Kept = Omit<UpkeepOptions, 'log'>;

/** Deletes everything old. */
export async function removeOld(db: Database, kept: Kept, tasks: readonly Task[] = ['records', 'counts']) {
  for (const task of tasks) await TASKS[task].remove(db, runOf(kept));
}

const runOf = ({ clock, eventDays, usageDays }: Kept): Run => ({
  nowMs: clock.nowMs(),
  eventDays,
  usageDays,
  after: 0,
});

const LAST_RUNS: Statement = { sql: 'SELECT task, at_ms FROM upkeep' };

// Only one of the processes that find it due gets it. A time in the future comes from a clock that was ahead.
const TAKE = 'UPDATE upkeep SET at_ms = ?2 WHERE task = ?1 AND NOT ?2 - at_ms BETWEEN 0 AND ?3 RETURNING task';

/** Returns the due tasks that this process has claimed, so that no other does them meanwhile. */
async function takeDue(db: Database, nowMs: number): Promise<readonly Task[]> {
  const lastRuns = new Map((await db.read(LAST_RUNS)).map(({ task, at_ms }) => [task, Number(at_ms)]));
  const taken: Task[] = [];
  for (const task of Object.keys(TASKS) as Task[]) {
    const { everyMs } = TASKS[task];
    const agoMs = nowMs - (lastRuns.get(task) ?? nowMs);
    if (agoMs >= 0 && agoMs <= everyMs) continue;
    const { rows, repeated } = await db.write({ sql: TAKE, args: [task, nowMs, everyMs], unsynced: true });
    if (rows.length > 0 || repeated) taken.push(task);
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
    stop(): void {
      overdueAgainAtMs = Number.POSITIVE_INFINITY;
      runs.stop();
    },
  };
}
