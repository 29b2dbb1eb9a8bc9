// Last uses and counts of uses, which all processes add to.

import { DAY_S, dayAt, monthOf } from '../ground/limits/rates.ts';
import type { CountsAsOf, KeyCounts, UsesStore } from '../uses/store.ts';
import type { Database, Row } from './database.ts';

/** Of all processes, in windows of the key `k`. Versions before had a row for each process; those count too. */
const sum = (windowS: string, first: string, last: string) =>
  `(SELECT sum(uses) FROM key_counts WHERE row = k.row AND window_s = ${windowS} AND number BETWEEN ${first} AND ${last})`;

// ?2: the second, ?3: the window of keys without one, ?4: the month's first day, ?5: the day. CAST, because drivers may
// send a whole number as a fraction.
const WINDOW_S = 'coalesce(k.limit_window_s, ?3)';
const NUMBER = `CAST(?2 / ${WINDOW_S} AS INTEGER)`;
export const COUNTS = `json_array(${sum(WINDOW_S, NUMBER, NUMBER)}, ${sum('86400', '?5', '?5')}, ${sum('86400', '?4', '?5')}) AS counts`;

/** ?2 to ?5 of COUNTS. */
export function countArgs({ nowMs, windowS }: CountsAsOf = { nowMs: 0, windowS: 0 }): number[] {
  const day = dayAt(nowMs);
  return [Math.floor(nowMs / 1000), windowS, monthOf(day).first, day];
}

/** The sum of no counts is NULL. */
export function countsOf({ counts }: Row): KeyCounts {
  const [window, day, month] = JSON.parse(String(counts)) as (number | null)[];
  return { window: window ?? 0, day: day ?? 0, month: month ?? 0 };
}

// A deleted key gets no row, and a later time from another process stays. CROSS JOIN: each use looks up its key.
const RECORD_LAST_USES = `INSERT INTO key_uses (row, last_used_at_ms)
SELECT k.row, use.value ->> 1 FROM json_each(?1) AS use CROSS JOIN api_keys k WHERE k.id = use.value ->> 0
ON CONFLICT (row) DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms WHERE last_used_at_ms < excluded.last_used_at_ms`;

const ADD = `INSERT INTO key_counts (row, window_s, number, instance, uses)
SELECT k.row, w.value ->> 1, w.value ->> 2, 0, w.value ->> 4 FROM json_each(?1) AS w CROSS JOIN api_keys k
WHERE k.id = w.value ->> 0 AND w.value ->> 4 > 0
AND NOT EXISTS (SELECT 1 FROM exchanges WHERE instance = ?2 AND number >= ?3)
ON CONFLICT (row, window_s, number, instance) DO UPDATE SET uses = uses + excluded.uses`;

const NOTE_NUMBER = `INSERT INTO exchanges (instance, number) VALUES (?1, ?2)
ON CONFLICT (instance) DO UPDATE SET number = excluded.number, at_ms = excluded.at_ms WHERE number < excluded.number`;

const TOTALS = `SELECT w.key AS at, coalesce(${sum('w.value ->> 1', 'w.value ->> 2', 'w.value ->> 3')}, 0) AS uses
FROM json_each(?1) AS w CROSS JOIN api_keys k WHERE k.id = w.value ->> 0`;

// Key by key, each in the order of the table.
const USES_BY_DAY = `SELECT k.id, (SELECT json_group_array(json_array(number, uses)) FROM (
SELECT number, sum(uses) AS uses FROM key_counts WHERE row = k.row AND window_s = ${DAY_S} AND number >= ?2 GROUP BY number)) AS days
FROM json_each(?1) AS i CROSS JOIN api_keys k WHERE k.id = i.value`;

/** Exchanges wait for each other alone, at a remote database. */
const WHOSE = 'exchanges of uses';

export const countsStore = (db: Database): Omit<UsesStore, 'usesPerWrite'> => ({
  async addUses({ instance, number, lastUses, windows }) {
    const statements = [
      { sql: RECORD_LAST_USES, args: [JSON.stringify(lastUses)] },
      { sql: ADD, args: [JSON.stringify(windows), instance, number] },
      { sql: NOTE_NUMBER, args: [instance, number] },
    ];
    await db.writeAll(statements.map((statement) => ({ ...statement, whose: WHOSE, unsynced: true })));
  },

  async totalsOf(windows) {
    const rows = await db.read({ sql: TOTALS, args: [JSON.stringify(windows)], whose: WHOSE });
    const totals = new Map(rows.map(({ at, uses }) => [Number(at), Number(uses)]));
    return windows.map((_, at) => totals.get(at));
  },

  async usesByDay(keyIds, firstDay) {
    const rows = await db.read({ sql: USES_BY_DAY, args: [JSON.stringify(keyIds), firstDay] });
    return new Map(rows.map(({ id, days }) => [String(id), new Map(JSON.parse(String(days)) as [number, number][])]));
  },
});
