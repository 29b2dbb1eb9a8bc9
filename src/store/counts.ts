// The counts of uses, and their upkeep: what is long over is removed, what each process counted days ago is summed.

import { type Database, type DbResult, mapped, type Row, type Statement } from '../database/database.ts';
import { ok } from '../lib/result.ts';
import { sleep } from '../lib/timeout.ts';
import {
  type CountsAsOf,
  type DayUses,
  INSTANCES,
  type KeyCounts,
  type Shares,
  type UsesStore,
} from '../uses/store.ts';
import { dayAt, monthOf } from '../uses/windows.ts';

/** The instance that a process counts as: another one each day, so that what is days old can be summed. */
const onDay = (instance: string, day: string) => `${instance} + ${day} * ${INSTANCES}`;

// ?2: the process that asks, ?3: the second, ?4: the window of keys without one, ?5: the month's first day, ?6: the
// day. CAST, because drivers may send a whole number as a fraction.
const WINDOW_S = 'coalesce(k.limit_window_s, ?4)';
const OWN = onDay('?2', '?6');
export const COUNTS = `(SELECT json_array(sum(uses) FILTER (WHERE instance = ${OWN}), sum(uses) FILTER (WHERE instance <> ${OWN}))
FROM key_counts c WHERE c.row = k.row AND c.window_s = ${WINDOW_S} AND c.number = CAST(?3 / ${WINDOW_S} AS INTEGER)) AS window_counts,
(SELECT json_array(sum(uses) FILTER (WHERE number = ?6 AND instance = ${OWN}),
sum(uses) FILTER (WHERE number = ?6 AND instance <> ${OWN}), sum(uses) FILTER (WHERE number < ?6))
FROM key_counts c WHERE c.row = k.row AND c.window_s = 86400 AND c.number BETWEEN ?5 AND ?6) AS day_counts`;

/** ?2 to ?6 of COUNTS. */
export function countArgs({ instance, nowMs, windowS }: CountsAsOf = NOBODY): number[] {
  const day = dayAt(nowMs);
  return [instance, Math.floor(nowMs / 1000), windowS, monthOf(day).firstDay, day];
}

const NOBODY: CountsAsOf = { instance: 0, nowMs: 0, windowS: 0 };

export function countsOf(row: Row): KeyCounts {
  const [own, others, before] = JSON.parse(String(row.day_counts)) as (number | null)[];
  return { window: sharesOf(row.window_counts), day: { own: own ?? 0, others: others ?? 0 }, before: before ?? 0 };
}

/** The sum of no counts is NULL. */
function sharesOf(json: unknown): Shares {
  const [own, others] = JSON.parse(String(json)) as (number | null)[];
  return { own: own ?? 0, others: others ?? 0 };
}

const RECORD_COUNTS = `INSERT INTO key_counts (row, window_s, number, instance, uses)
SELECT k.row, c.value ->> 1, c.value ->> 2, ${onDay('?2', '(c.value ->> 3)')}, c.value ->> 4
FROM json_each(?1) AS c CROSS JOIN api_keys k WHERE k.id = c.value ->> 0
ON CONFLICT (row, window_s, number, instance) DO UPDATE SET uses = excluded.uses WHERE uses < excluded.uses`;

const OWN_OF_WINDOW = onDay('?2', '(w.value ->> 3)');
const COUNTS_OF = `SELECT w.key AS at,
(SELECT json_array(sum(uses) FILTER (WHERE instance = ${OWN_OF_WINDOW}), sum(uses) FILTER (WHERE instance <> ${OWN_OF_WINDOW}))
FROM key_counts c WHERE c.row = k.row AND c.window_s = w.value ->> 1 AND c.number = w.value ->> 2) AS counts,
(SELECT sum(uses) FROM key_counts c WHERE c.row = k.row AND c.window_s = 86400
AND c.number >= w.value ->> 4 AND c.number < w.value ->> 2) AS before
FROM json_each(?1) AS w CROSS JOIN api_keys k WHERE k.id = w.value ->> 0`;

// Key by key, each in the order of the table: sorted all together, the days would take twice as long.
const USES_BY_DAY = `SELECT k.id, (SELECT json_group_array(json_array(number, uses, own)) FROM (
SELECT number, sum(uses) AS uses,
coalesce(sum(uses) FILTER (WHERE instance = ${onDay('?3', 'number')}), 0) AS own FROM key_counts
WHERE row = k.row AND window_s = 86400 AND number >= ?2 GROUP BY number)) AS days
FROM json_each(?1) AS i CROSS JOIN api_keys k WHERE k.id = i.value`;

// A deleted key gets no row, and a later time from another process stays. CROSS JOIN: each use looks up its key.
const RECORD_LAST_USES = `INSERT INTO key_uses (row, last_used_at_ms)
SELECT k.row, use.value ->> 1 FROM json_each(?1) AS use CROSS JOIN api_keys k WHERE k.id = use.value ->> 0
ON CONFLICT (row) DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms WHERE last_used_at_ms < excluded.last_used_at_ms`;

export const countsStore = (db: Database): Omit<UsesStore, 'usesPerWrite'> => ({
  recordLastUses: (uses) =>
    mapped(db.write({ sql: RECORD_LAST_USES, args: [JSON.stringify(uses)], unsynced: true }), () => undefined),

  recordCounts: (instance, counts) =>
    mapped(db.write({ sql: RECORD_COUNTS, args: [JSON.stringify(counts), instance], unsynced: true }), () => undefined),

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
