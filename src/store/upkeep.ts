// Upkeep: what is old is removed, as one table says: records every hour, counts once a day, by one of the processes on a
// database. Nothing is lost where two do it at once.

import { repeat } from '../ground/background.ts';
import type { FeedPage } from '../ground/change-feed.ts';
import { DAY_S } from '../ground/limits/rates.ts';
import { type Clock, MS_PER_DAY, MS_PER_HOUR, sleep } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Database, Statement } from './database.ts';

/** The first run is soon after start-up, off its critical path. */
const FIRST_AFTER_MS = 2000;
const EVERY_MS = MS_PER_HOUR;
/** So much earlier or later, as a part of the pause. */
const JITTER = 0.5;

/** Rows that one transaction removes, which blocks a local file's process for some 10 ms. */
const SLICE_ROWS = 250;
/** Keys whose counts are looked through at once, which takes a few milliseconds of a local file's process. */
const SLICE_KEYS = 100;
/** Between two slices, for everybody else. */
const PAUSE_MS = 10;

/** So long after its end a code is known to have ended, also to a server whose clock is behind. */
const CODES_KEPT_MS = MS_PER_HOUR;
/** Far longer than a statement can be under way. */
const EXCHANGES_KEPT_MS = 7 * MS_PER_DAY;
/** A window that is over is of no use; so much longer for clocks that disagree. */
const WINDOW_KEPT_S = 600;
/** A process that polls again in this time need not forget what it knows. */
const CHANGES_KEPT_MS = MS_PER_DAY;
/**
 * 100 MB: a hundred times what a process reads rather than forget all. At 5,000 changes a second it takes 100 s: no
 * creation that was given up still arrives then (INSERT in store/key-changes.ts).
 */
const CHANGES_KEPT_MAX = 500_000;

/**
 * When a poll shows that there are too many changes, a run begins at once, no sooner than this after the one before.
 * "Too many" is a multiple of the limit: each process draws its own, so that usually one of a cluster does it.
 */
const OVERDUE_AGAIN_AFTER_MS = 10_000;
const OVERDUE_FROM = 1.02;
const OVERDUE_TO = 1.1;

/** What a statement may ask for. */
interface Run {
  readonly nowMs: number;
  readonly eventDays: number;
  readonly usageDays: number;
  /** Of a slice of keys: the row before it. */
  readonly after: number;
}

/** All of a run is one argument. */
const of = (name: keyof Run) => `(?1 ->> '${name}')`;

/** In one transaction, and again as long as there was a full slice. */
type Removal = readonly string[];

const DB_NOW_MS = "unixepoch('subsec') * 1000";

// Of the clocks of this process and of the database the one that is behind: a wrong one removes nothing too early.
const NOW_S = `CAST(min(${of('nowMs')} / 1000, unixepoch()) AS INTEGER)`;

const SLICE = `(SELECT row FROM api_keys WHERE row > ${of('after')} ORDER BY row LIMIT ${SLICE_KEYS})`;
const IS_OVER = `(c.number + 1) * c.window_s + ${WINDOW_KEPT_S} < ${NOW_S}`;
/** Of the key `k` a search for its old days, which passes over the others, and its windows, which are few. */
const OLD_COUNTS = [
  `c.window_s = ${DAY_S} AND c.number < ${NOW_S} / ${DAY_S} - ${of('usageDays')}`,
  `c.window_s < ${DAY_S} AND ${IS_OVER}`,
  `c.window_s > ${DAY_S} AND ${IS_OVER}`,
].map((isOld) => `c.row = k.row AND ${isOld}`);

const REMOVALS: readonly Removal[] = [
  [
    `DELETE FROM codes WHERE hash IN (
SELECT hash FROM codes WHERE ends_at_ms < ${of('nowMs')} - ${CODES_KEPT_MS} ORDER BY ends_at_ms LIMIT ${SLICE_ROWS})`,
  ],
  // Of the version before: its codes, and what they were sealed with, are of no use to anybody.
  [`DELETE FROM redeemed_codes WHERE redeemed_at_ms < ${DB_NOW_MS} - ${MS_PER_HOUR}`],
  ['DELETE FROM code_secrets WHERE hour < unixepoch() / 3600 - 2'],
  [`DELETE FROM exchanges WHERE at_ms < ${DB_NOW_MS} - ${EXCHANGES_KEPT_MS}`],
  [
    // The newest stays, whatever its age, so that its number is not given again. Each by its own age: one that was
    // written while a clock was behind takes none with it.
    `DELETE FROM key_events WHERE seq IN (
SELECT seq FROM (SELECT seq, at_ms FROM key_events ORDER BY seq LIMIT ${SLICE_ROWS})
WHERE at_ms < ${DB_NOW_MS} - ${of('eventDays')} * ${MS_PER_DAY}) AND seq < (SELECT max(seq) FROM key_events)`,
  ],
  [
    // The mark tells readers who have not come that far that changes are missing.
    `UPDATE feed SET pruned_seq = old.seq FROM (
SELECT max(seq) AS seq FROM (SELECT seq, changed_at_ms FROM changes ORDER BY seq LIMIT ${SLICE_ROWS})
WHERE changed_at_ms < ${DB_NOW_MS} - ${CHANGES_KEPT_MS} OR seq <= (SELECT max(seq) FROM changes) - ${CHANGES_KEPT_MAX}) AS old
WHERE old.seq > pruned_seq`,
    'DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed)',
  ],
];

/** For each slice of keys: the row that ends it, null after all of them, and whether there is `old` in it. */
const COUNTS_IN_SLICE = `SELECT max(k.row) AS last,
max(${OLD_COUNTS.map((isOld) => `EXISTS (SELECT 1 FROM key_counts c WHERE ${isOld})`).join(' OR ')}) AS old FROM ${SLICE} k`;

const REMOVE_COUNTS: Removal = OLD_COUNTS.map(
  (isOld) => `DELETE FROM key_counts WHERE (row, window_s, number, instance) IN (
SELECT c.row, c.window_s, c.number, c.instance FROM ${SLICE} k CROSS JOIN key_counts c WHERE ${isOld})`,
);

// With this the names of the tables begin that backup/restore.ts sends ahead. The one of this very name says since when.
// The underscore: they are not taken for ours (schema.ts).
export const RESTORING = '_restoring';
/** Far longer than a restore takes: one that is under way must not lose what it has sent ahead. */
const LEFT_BEHIND_S = 24 * 3600;

/** Drops what was sent ahead by a restore that was killed: it takes as much room as the keys, in each backup too. */
async function dropLeftBehind(db: Database): Promise<void> {
  const ahead = await db.read({ sql: `SELECT name FROM sqlite_master WHERE name GLOB '${RESTORING}*'` });
  if (!ahead.some(({ name }) => name === RESTORING)) return;
  const old = await db.read({ sql: `SELECT 1 FROM ${RESTORING} WHERE begun_s < unixepoch() - ${LEFT_BEHIND_S}` });
  if (old.length > 0) await db.writeAll(ahead.map(({ name }) => ({ sql: `DROP TABLE IF EXISTS ${name}` })));
}

export interface UpkeepOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly eventDays: number;
  readonly usageDays: number;
}

/** What one process at a time does for a database, and how often. */
const TASKS = {
  records: { everyMs: EVERY_MS * (1 - JITTER), remove: removeRecords },
  // Nearly nothing is old, and the keys are many.
  counts: { everyMs: MS_PER_DAY, remove: removeCounts },
} as const;

type Task = keyof typeof TASKS;

type Kept = Omit<UpkeepOptions, 'log'>;

/** Removes all that is old. */
export async function removeOld(db: Database, kept: Kept, tasks: readonly Task[] = ['records', 'counts']) {
  for (const task of tasks) await TASKS[task].remove(db, runOf(kept));
}

const runOf = ({ clock, eventDays, usageDays }: Kept): Run => ({
  nowMs: clock.nowMs(),
  eventDays,
  usageDays,
  after: 0,
});

async function removeRecords(db: Database, run: Run): Promise<void> {
  for (const removal of REMOVALS) while (await removed(db, removal, run)) await sleep(PAUSE_MS);
  await dropLeftBehind(db);
}

/** Whether there may be more. */
async function removed(db: Database, removal: Removal, run: Run): Promise<boolean> {
  const written = await db.writeAll(removal.map((sql) => ({ ...statementOf(sql, run), unsynced: true })));
  return written.some(({ changed, repeated }) => changed >= SLICE_ROWS || repeated);
}

async function removeCounts(db: Database, run: Run): Promise<void> {
  for (let after = 0; ; ) {
    const [found] = await db.read(statementOf(COUNTS_IN_SLICE, { ...run, after }));
    const { last = null, old } = found ?? {};
    if (typeof last !== 'number') return;
    if (old === 1) await removed(db, REMOVE_COUNTS, { ...run, after });
    after = last;
    await sleep(PAUSE_MS);
  }
}

const LAST_RUNS: Statement = { sql: 'SELECT task, at_ms FROM upkeep' };

// One of many processes that see that it is due. A time in the future is of a clock that was set back, or is wrong.
const TAKE = 'UPDATE upkeep SET at_ms = ?2 WHERE task = ?1 AND NOT ?2 - at_ms BETWEEN 0 AND ?3 RETURNING task';

/** The tasks that are due, and that this process has taken: no other does them meanwhile. */
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

/** Only a statement that asks for something has an argument. */
const statementOf = (sql: string, run: Run): Statement => ({
  sql,
  args: sql.includes('?1') ? [JSON.stringify(run)] : [],
});

export type Upkeep = ReturnType<typeof createUpkeep>;

export function createUpkeep(db: Database, options: UpkeepOptions) {
  const { clock, log } = options;
  const overdueAt = CHANGES_KEPT_MAX * (OVERDUE_FROM + Math.random() * (OVERDUE_TO - OVERDUE_FROM));
  let overdueAgainAtMs = Number.NEGATIVE_INFINITY;
  let isOverdue = false;
  const runs = repeat(
    { everyMs: EVERY_MS, firstMs: FIRST_AFTER_MS, jitter: JITTER, clock, log, event: 'old changes not removed' },
    async () => {
      const tasks: readonly Task[] = isOverdue ? ['records'] : await takeDue(db, clock.nowMs());
      isOverdue = false;
      await removeOld(db, options, tasks);
    },
  );
  return {
    /** Begins a run at once if the page shows too many changes. */
    saw({ newestSeq, prunedSeq }: FeedPage): void {
      const nowMs = clock.monotonicMs();
      if (newestSeq - prunedSeq <= overdueAt || nowMs < overdueAgainAtMs) return;
      overdueAgainAtMs = nowMs + OVERDUE_AGAIN_AFTER_MS;
      isOverdue = true;
      runs.hasten();
    },
    stop(): void {
      overdueAgainAtMs = Number.POSITIVE_INFINITY;
      runs.stop();
    },
  };
}
