// Stores last uses and counts, to which all processes add. A holder is a key, by its row number, or an owner, by the
// negative of the number in `holders` (db/README.md, key_counts and key_months).

import { memoize } from '../ground/cache.ts';
import { DAY_S, dayAt } from '../ground/limits/rates.ts';
import { MS_PER_DAY } from '../ground/runtime.ts';
import type { CountsAsOf, Days, KeyCounts, UsesStore, WindowUses } from '../uses/store.ts';
import { type Database, listIn, type Statement, type Value } from './database.ts';

// A row of key_months has a month of a holder, with a column for each day (UTC). A month has a number, by which months are
// ordered: 12 for each year, and one for each month before it in the year.

/** The columns of the days of a month. */
export const DAY_COLUMNS = Array.from({ length: 31 }, (_, at) => `d${at + 1}`);

/** A day as its month has it. */
interface DayOfMonth {
  readonly month: number;
  /** 1 to 31. */
  readonly date: number;
}

/** Returns the month of a day that is counted from 1970. */
export function dayOfMonth(day: number): DayOfMonth {
  const date = new Date(day * MS_PER_DAY);
  return { month: date.getUTCFullYear() * 12 + date.getUTCMonth(), date: date.getUTCDate() };
}

const columnOf = ({ date }: DayOfMonth): string => `d${date}`;

/** All days of a row together. */
export const WHOLE = DAY_COLUMNS.join(' + ');

/** Selects the units of a row's day with this date; `otherwise`: without a date. */
const unitsOn = (date: string, otherwise = 'NULL'): string =>
  `CASE ${date} ${DAY_COLUMNS.map((column, at) => `WHEN ${at + 1} THEN ${column}`).join(' ')} ELSE ${otherwise} END`;

/** Returns consecutive days, as a statement selects them. */
function selectedDays(first: number, count: number) {
  const days = Array.from({ length: count }, (_, at) => dayOfMonth(first + at));
  const months = [...new Set(days.map(({ month }) => month))];
  return {
    /** A column for each day. */
    columns: days.map((day) => `m${day.month}.${columnOf(day)}`),
    /** The condition that there is any of these months. */
    isUsed: months.map((at) => `m${at}.row IS NOT NULL`).join(' OR '),
    /** Joins the months of the holder with this row: one row for each. */
    join: (row: string): string =>
      months.map((at) => `LEFT JOIN key_months m${at} ON m${at}.row = ${row} AND m${at}.month = ${at}`).join('\n'),
  };
}

/** Selects a holder's units in a window that is no day. */
const inWindow = (holder: string, windowS: string, number: string) =>
  `(SELECT uses FROM key_counts WHERE row = ${holder} AND window_s = ${windowS} AND number = ${number})`;

/** Selects a holder's units in a month: `units` of its row. */
const inMonth = (holder: string, month: string, units: string) =>
  `(SELECT ${units} FROM key_months WHERE row = ${holder} AND month = ${month})`;

// ?2: the second, ?3: the window of keys without their own, ?4: the month, ?5: the date in it, ?6: whether keys without a
// quota have a monthly one. CAST, because drivers may send an integer as a float.
const WINDOW_S = 'coalesce(k.limit_window_s, ?3)';
const NUMBER = `CAST(?2 / ${WINDOW_S} AS INTEGER)`;
const HAS_MONTH = "coalesce(k.quota_period = 'month', ?6)";
export const COUNTS = `json_array(${inWindow('k.row', WINDOW_S, NUMBER)}, ${inMonth('k.row', '?4', unitsOn('?5'))},
CASE WHEN ${HAS_MONTH} THEN ${inMonth('k.row', '?4', WHOLE)} END) AS counts`;

// For the owner `o` of key `k`, if all keys together have a limit or quota. ?7: 1 if owners without settings have one, else
// NULL; ?8, ?9: like ?3 and ?6, for owners.
const OWNER_WINDOW_S = 'coalesce(o.limit_window_s, ?8)';
const OWNER_NUMBER = `CAST(?2 / ${OWNER_WINDOW_S} AS INTEGER)`;
export const OWNER_COUNTS = `CASE WHEN coalesce(o.limit_requests, o.quota_requests, ?7) IS NOT NULL THEN coalesce((
SELECT json_array(${inWindow('-n.row', OWNER_WINDOW_S, OWNER_NUMBER)}, ${inMonth('-n.row', '?4', unitsOn('?5'))},
CASE WHEN coalesce(o.quota_period = 'month', ?9) THEN ${inMonth('-n.row', '?4', WHOLE)} END)
FROM holders n WHERE n.owner = k.user_id), '[0,0,0]') END AS owner_counts`;

/** Returns the arguments ?2 to ?9 of COUNTS and OWNER_COUNTS. */
export function countArgs({ nowMs, key, owner }: CountsAsOf): (number | null)[] {
  const { month, date } = dayOfMonth(dayAt(nowMs));
  const ofKey = [Math.floor(nowMs / 1000), key.windowS, month, date, Number(key.hasMonth)];
  return [...ofKey, owner && 1, owner?.windowS ?? 0, Number(owner?.hasMonth ?? false)];
}

/** Returns null if nothing is counted. What has no row is NULL. */
export function countsOf(counts: Value | undefined): KeyCounts | null {
  if (counts == null) return null;
  const [window, day, month] = listIn<(number | null)[]>(counts);
  return { window: window ?? 0, day: day ?? 0, month: month ?? 0 };
}

/** The elements of the tuple `w` (WindowUses in uses/store.ts). */
const W = {
  keyId: 'w.value ->> 0',
  owner: 'w.value ->> 1',
  windowS: 'w.value ->> 2',
  first: 'w.value ->> 3',
  added: 'w.value ->> 5',
  usedAtMs: 'w.value ->> 6',
} as const;

/** The number of the holder in the tuple `w`; NULL: it is gone. */
const HOLDER = `coalesce((SELECT row FROM api_keys WHERE id = ${W.keyId}), -(SELECT row FROM holders WHERE owner = ${W.owner}))`;

// Inserts an owner's number with his first counts, unless he was removed meanwhile.
const MAKE_HOLDERS = `INSERT INTO holders (owner) SELECT ${W.owner} FROM json_each(?1) AS w
WHERE EXISTS (SELECT 1 FROM api_keys WHERE user_id = ${W.owner}) OR EXISTS (SELECT 1 FROM owners WHERE owner = ${W.owner})
ON CONFLICT DO NOTHING`;

/** Selects from the tuples that fit. Drops counts of deleted holders, and an exchange that was applied before. */
const added = (fits: string) => `FROM (
SELECT ${HOLDER} AS holder, ${W.windowS} AS window_s, ${W.first} AS first, ${W.added} AS added, ${W.usedAtMs} AS used_at_ms
FROM json_each(?1) AS w WHERE ${fits} AND (${W.added} > 0 OR ${W.usedAtMs} IS NOT NULL))
WHERE holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM exchanges WHERE instance = ?2 AND number >= ?3)`;

const ADD_WINDOWS = `INSERT INTO key_counts (row, window_s, number, uses)
SELECT holder, window_s, first, added ${added(`${W.windowS} <> ${DAY_S}`)}
ON CONFLICT (row, window_s, number) DO UPDATE SET uses = uses + excluded.uses`;

// ?4: the day, ?5: its month. Keeps the later of two last uses.
const addDay = (column: string) => `INSERT INTO key_months (row, month, ${column}, last_used_at_ms)
SELECT holder, ?5, added, used_at_ms ${added(`${W.windowS} = ${DAY_S} AND ${W.first} = ?4`)}
ON CONFLICT (row, month) DO UPDATE SET ${column} = ${column} + excluded.${column},
last_used_at_ms = nullif(max(coalesce(last_used_at_ms, 0), coalesce(excluded.last_used_at_ms, 0)), 0)`;

const NOTE_NUMBER = `INSERT INTO exchanges (instance, number) VALUES (?1, ?2)
ON CONFLICT (instance) DO UPDATE SET number = excluded.number, at_ms = excluded.at_ms WHERE number < excluded.number`;

// Of each tuple also the month and the date of its day; without a date it is about a whole month.
const TOTALS = `SELECT at, coalesce(CASE WHEN of_month IS NULL THEN ${inWindow('holder', 'of_window_s', 'of_number')}
ELSE ${inMonth('holder', 'of_month', unitsOn('date', WHOLE))} END, 0) AS uses FROM (
SELECT w.key AS at, ${HOLDER} AS holder, ${W.windowS} AS of_window_s, ${W.first} AS of_number,
w.value ->> 7 AS of_month, w.value ->> 8 AS date FROM json_each(?1) AS w) WHERE holder IS NOT NULL`;

/** Returns a tuple with the month and the date of its day, if it has one. */
const withMonth = (window: WindowUses) => {
  const [, , windowS, first, last] = window;
  if (windowS !== DAY_S) return window;
  const { month, date } = dayOfMonth(first);
  return [...window, month, first === last ? date : null];
};

/** The days that are shown, or count against a quota: those of the longest month. */
const DAYS = 31;

/**
 * Returns the statement for the days from one on. All in one, so that what is shown together is of one moment. It is the
 * same text all day: it is made once, which takes longer than to run it, and SQLite compiles it once.
 */
const usesByDay = memoize((firstDay): Statement['sql'] => {
  const { columns, join, isUsed } = selectedDays(Number(firstDay), DAYS);
  const sums = columns.map((column) => `sum(${column})`);
  return `SELECT 'key' AS of, k.id AS holder, iif(${isUsed}, json_array(${columns}), '[]') AS days
FROM json_each(?1) i CROSS JOIN api_keys k ${join('k.row')} WHERE k.id = i.value
UNION ALL SELECT 'keys', n.value, (SELECT json_array(${sums}) FROM api_keys k ${join('k.row')} WHERE k.user_id = n.value)
FROM json_each(?2) n
UNION ALL SELECT 'owner', h.owner, json_array(${columns})
FROM json_each(?2) n CROSS JOIN holders h ${join('-h.row')} WHERE h.owner = n.value`;
});

/** Keys whose days are summed in the event loop: some 500 months, in 2 ms. */
const SUMMED_MAX = 200;

/** The last use of key `k`, from the row of its newest month. */
export const COUNTED_USE = '(SELECT last_used_at_ms FROM key_months WHERE row = k.row ORDER BY month DESC LIMIT 1)';

/** Returns units by day, without the days that have none. */
const daysIn = (units: readonly (number | null)[], firstDay: number): Days =>
  new Map(units.flatMap((count, at) => (count !== null && count > 0 ? [[firstDay + at, count] as const] : [])));

/** Returns the days that tuples are about. A tuple of a month adds nothing: it is the sum of its days. */
const daysOf = (windows: readonly WindowUses[]): readonly number[] => [
  ...new Set(windows.flatMap(([, , windowS, first, last]) => (windowS === DAY_S && first === last ? first : []))),
];

/** So many windows take less than 3 ms in a file of 10^6 keys. More are written in the background. */
const AT_ONCE_MAX = 16;
/** At a remote database exchanges only wait for each other. */
const FAIRNESS_KEY = 'exchanges of uses';

export const countsStore = (db: Database, usesPerWrite: number): UsesStore => ({
  usesPerWrite,

  async addUses({ instance, number, windows }) {
    const json = JSON.stringify(windows);
    const background = windows.length > AT_ONCE_MAX;
    const statements = [
      ...(windows.some(([, owner]) => owner !== null) ? [{ sql: MAKE_HOLDERS, args: [json] }] : []),
      ...(windows.some(([, , windowS]) => windowS !== DAY_S)
        ? [{ sql: ADD_WINDOWS, args: [json, instance, number] }]
        : []),
      ...daysOf(windows).map((day) => {
        const at = dayOfMonth(day);
        return { sql: addDay(columnOf(at)), args: [json, instance, number, day, at.month] };
      }),
      { sql: NOTE_NUMBER, args: [instance, number] },
    ];
    await db.writeAll(
      statements.map((statement) => ({ ...statement, background, fairnessKey: FAIRNESS_KEY, unsynced: true })),
    );
  },

  async totalsOf(windows) {
    const rows = await db.read({
      sql: TOTALS,
      args: [JSON.stringify(windows.map(withMonth))],
      fairnessKey: FAIRNESS_KEY,
    });
    const totals = new Map(rows.map(({ at, uses }) => [Number(at), Number(uses)]));
    return windows.map((_, at) => totals.get(at));
  },

  async usesByDay({ keyIds = [], owners = [], ownersKeys = 0 }, firstDay) {
    const args = [JSON.stringify(keyIds), JSON.stringify(owners)];
    const background = ownersKeys > SUMMED_MAX;
    const found = { key: new Map<string, Days>(), keys: new Map<string, Days>(), owner: new Map<string, Days>() };
    for (const { of, holder, days } of await db.read({ sql: usesByDay(`${firstDay}`), args, background })) {
      found[of as keyof typeof found].set(String(holder), daysIn(listIn(days), firstDay));
    }
    return found;
  },
});
