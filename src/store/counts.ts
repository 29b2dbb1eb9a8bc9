// The counts of uses, and their upkeep: what is long over is removed, and what each process counted on days that are over,
// of those days and of windows that go on, is summed.

import { type Database, type DbResult, mapped, type Row, type Statement } from '../database/database.ts';
import { ok } from '../lib/result.ts';
import { sleep } from '../lib/timeout.ts';
import { type DayUses, INSTANCES, type UsesStore } from '../uses/store.ts';
import { COUNTS_OF, RECORD_COUNTS, USES_BY_DAY } from './queries.ts';
import { sharesOf } from './rows.ts';

export const countsStore = (db: Database): Pick<UsesStore, 'recordCounts' | 'countsOf' | 'usesByDay'> => ({
  recordCounts: (instance, counts) =>
    mapped(db.writeUnsynced({ sql: RECORD_COUNTS, args: [JSON.stringify(counts), instance] }), () => undefined),

  countsOf: (instance, windows) =>
    mapped(db.read({ sql: COUNTS_OF, args: [JSON.stringify(windows), instance] }), (rows) => {
      const found = new Map(rows.map((row) => [Number(row.at), row]));
      return windows.map((_, at) => {
        const row = found.get(at);
        return row === undefined ? null : { ...sharesOf(row.counts), before: Number(row.before ?? 0) };
      });
    }),

  usesByDay: (keyIds, firstDay, instance) =>
    mapped(
      db.read({ sql: USES_BY_DAY, args: [JSON.stringify(keyIds), firstDay, instance] }),
      (rows) => new Map(rows.map((row) => [String(row.id), daysOf(row)])),
    ),
});

const daysOf = ({ days }: Row) => JSON.parse(String(days)) as DayUses[];

/** Keys in one slice, which takes a few milliseconds of a local file's process. */
const SLICE_KEYS = 100;
/** Between two slices, for everybody else. */
const PAUSE_MS = 10;

/** What was counted so many days ago is summed: no process writes it any more (uses/exchange.ts). */
const SUMMED_AFTER_DAYS = 3;
/** A window that is over is of no use; so much longer for clocks that disagree. */
const WINDOW_KEPT_S = 600;

const NEXT_SLICE = `SELECT max(row) AS last FROM (SELECT row FROM api_keys WHERE row > ?1 ORDER BY row LIMIT ${SLICE_KEYS})`;

const OF_SLICE = 'row > ?1 AND row <= ?2';
// Of the clocks of this process and of the database the one that is behind: a wrong one removes nothing too early.
const NOW_S = "CAST(min(?3, CAST(strftime('%s', 'now') AS INTEGER)) AS INTEGER)";
const TODAY = `${NOW_S} / 86400`;
const IS_DAY = 'window_s = 86400';
const IS_OLD = `(${IS_DAY} AND number < ${TODAY} - ?4 OR NOT ${IS_DAY} AND
(number + 1) * window_s + ${WINDOW_KEPT_S} < ${NOW_S})`;
const IS_SUMMABLE = `instance <> 0 AND instance / ${INSTANCES} < ${TODAY} - ${SUMMED_AFTER_DAYS}`;

const IS_THERE_ANY = `SELECT EXISTS (SELECT 1 FROM key_counts WHERE ${OF_SLICE} AND (${IS_OLD} OR ${IS_SUMMABLE})) AS any`;
const REMOVE = `DELETE FROM key_counts WHERE ${OF_SLICE} AND ${IS_OLD}`;
// In one transaction, so that it may be sent twice: the second time there is nothing left to add.
const SUM = `INSERT INTO key_counts (row, window_s, number, instance, uses)
SELECT row, window_s, number, 0, sum(uses) FROM key_counts WHERE ${OF_SLICE} AND ${IS_SUMMABLE} GROUP BY row, window_s, number
ON CONFLICT (row, window_s, number, instance) DO UPDATE SET uses = uses + excluded.uses`;
const REMOVE_SUMMED = `DELETE FROM key_counts WHERE ${OF_SLICE} AND ${IS_SUMMABLE}`;

/** Removes and sums, a slice of the keys at a time. */
export async function pruneCounts(db: Database, nowMs: number, daysKept: number): DbResult<void> {
  const nowS = Math.floor(nowMs / 1000);
  for (let after = 0; ; ) {
    const next = await db.read({ sql: NEXT_SLICE, args: [after] });
    if (!next.ok) return next;
    const last = next.value[0]?.last;
    if (typeof last !== 'number') return ok(undefined);
    const slice = [after, last];
    const found = await db.read({ sql: IS_THERE_ANY, args: [...slice, nowS, daysKept] });
    if (!found.ok) return found;
    if (found.value[0]?.any === 1) {
      const statements: Statement[] = [
        { sql: REMOVE, args: [...slice, nowS, daysKept] },
        { sql: SUM, args: [...slice, nowS] },
        { sql: REMOVE_SUMMED, args: [...slice, nowS] },
      ];
      const written = await db.writeAll(statements);
      if (!written.ok) return written;
    }
    after = last;
    await sleep(PAUSE_MS);
  }
}
