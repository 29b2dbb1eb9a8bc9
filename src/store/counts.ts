// Stores last uses and counts, to which all processes add. A holder is a key, by its row number, or an owner, by the
// negative of the number in `holders` (db/README.md, key_counts).

import { DAY_S, dayAt, monthOf } from '../ground/limits/rates.ts';
import type { CountsAsOf, Days, KeyCounts, UsesStore } from '../uses/store.ts';
import { type Database, listIn, type Value } from './database.ts';

/** Sums a holder's units in windows. */
const sum = (holder: string, windowS: string, first: string, last: string) =>
  `(SELECT sum(uses) FROM key_counts WHERE row = ${holder} AND window_s = ${windowS} AND number BETWEEN ${first} AND ${last})`;

// ?2: the second, ?3: the window of keys without their own, ?4: the month's first day, ?5: the day, ?6: whether keys
// without a quota have a monthly one. CAST, because drivers may send an integer as a float.
const WINDOW_S = 'coalesce(k.limit_window_s, ?3)';
const NUMBER = `CAST(?2 / ${WINDOW_S} AS INTEGER)`;
const HAS_MONTH = "coalesce(k.quota_period = 'month', ?6)";
export const COUNTS = `json_array(${sum('k.row', WINDOW_S, NUMBER, NUMBER)}, ${sum('k.row', `${DAY_S}`, '?5', '?5')},
CASE WHEN ${HAS_MONTH} THEN ${sum('k.row', `${DAY_S}`, '?4', '?5')} END) AS counts`;

// For the owner `o` of key `k`, if all keys together have a limit or quota. ?7: 1 if owners without settings have one, else
// NULL; ?8, ?9: like ?3 and ?6, for owners.
const OWNER_WINDOW_S = 'coalesce(o.limit_window_s, ?8)';
const OWNER_NUMBER = `CAST(?2 / ${OWNER_WINDOW_S} AS INTEGER)`;
export const OWNER_COUNTS = `CASE WHEN coalesce(o.limit_requests, o.quota_requests, ?7) IS NOT NULL THEN coalesce((
SELECT json_array(${sum('-n.row', OWNER_WINDOW_S, OWNER_NUMBER, OWNER_NUMBER)}, ${sum('-n.row', `${DAY_S}`, '?5', '?5')},
CASE WHEN coalesce(o.quota_period = 'month', ?9) THEN ${sum('-n.row', `${DAY_S}`, '?4', '?5')} END)
FROM holders n WHERE n.owner = k.user_id), '[0,0,0]') END AS owner_counts`;

/** Returns the arguments ?2 to ?9 of COUNTS and OWNER_COUNTS. */
export function countArgs({ nowMs, key, owner }: CountsAsOf): (number | null)[] {
  const day = dayAt(nowMs);
  const ofKey = [Math.floor(nowMs / 1000), key.windowS, monthOf(day).first, day, Number(key.hasMonth)];
  return [...ofKey, owner && 1, owner?.windowS ?? 0, Number(owner?.hasMonth ?? false)];
}

/** Returns null if nothing is counted. The sum of no rows is NULL. */
export function countsOf(counts: Value | undefined): KeyCounts | null {
  if (counts == null) return null;
  const [window, day, month] = listIn(counts) as (number | null)[];
  return { window: window ?? 0, day: day ?? 0, month: month ?? 0 };
}

/** The elements of the tuple `w` (WindowUses in uses/store.ts). */
const W = {
  keyId: 'w.value ->> 0',
  owner: 'w.value ->> 1',
  windowS: 'w.value ->> 2',
  first: 'w.value ->> 3',
  last: 'w.value ->> 4',
  added: 'w.value ->> 5',
  usedAtMs: 'w.value ->> 6',
} as const;

/** The number of the holder in the tuple `w`; NULL: it is gone. */
const HOLDER = `coalesce((SELECT row FROM api_keys WHERE id = ${W.keyId}), -(SELECT row FROM holders WHERE owner = ${W.owner}))`;

// Inserts an owner's number with his first counts, unless he was removed meanwhile.
const MAKE_HOLDERS = `INSERT INTO holders (owner) SELECT DISTINCT ${W.owner} FROM json_each(?1) AS w WHERE ${W.owner} IS NOT NULL
AND (EXISTS (SELECT 1 FROM api_keys WHERE user_id = ${W.owner}) OR EXISTS (SELECT 1 FROM owners WHERE owner = ${W.owner}))
ON CONFLICT DO NOTHING`;

// Drops counts of deleted holders, and keeps the later of two last uses.
const ADD = `INSERT INTO key_counts (row, window_s, number, uses, last_used_at_ms)
SELECT holder, window_s, first, added, used_at_ms FROM (
SELECT ${HOLDER} AS holder, ${W.windowS} AS window_s, ${W.first} AS first, ${W.added} AS added, ${W.usedAtMs} AS used_at_ms
FROM json_each(?1) AS w WHERE ${W.added} > 0 OR ${W.usedAtMs} IS NOT NULL)
WHERE holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM exchanges WHERE instance = ?2 AND number >= ?3)
ON CONFLICT (row, window_s, number) DO UPDATE SET uses = uses + excluded.uses,
last_used_at_ms = nullif(max(coalesce(last_used_at_ms, 0), coalesce(excluded.last_used_at_ms, 0)), 0)`;

const NOTE_NUMBER = `INSERT INTO exchanges (instance, number) VALUES (?1, ?2)
ON CONFLICT (instance) DO UPDATE SET number = excluded.number, at_ms = excluded.at_ms WHERE number < excluded.number`;

// `of_window_s`, because within sum() `window_s` is the column of key_counts.
const TOTALS = `SELECT at, coalesce(${sum('holder', 'of_window_s', 'first', 'last')}, 0) AS uses FROM (
SELECT w.key AS at, ${HOLDER} AS holder, ${W.windowS} AS of_window_s, ${W.first} AS first, ${W.last} AS last
FROM json_each(?1) AS w) WHERE holder IS NOT NULL`;

/** The days that are shown, or count against a quota: those of the longest month. */
const DAYS = 31;
const OF_DAYS = `c.window_s = ${DAY_S} AND c.number BETWEEN ?3 AND ?3 + ${DAYS - 1}`;

/** Selects the units of each day from ?3 on, as a JSON list of pairs. */
const daysOf = (row: string) =>
  `(SELECT json_group_array(json_array(c.number, c.uses)) FROM key_counts c WHERE c.row = ${row} AND ${OF_DAYS})`;

/** Selects the same of all keys of an owner. Doesn't group by day, which would read each row twice. */
const sumOfDay = (at: number) => `json_array(?3 + ${at}, sum(c.uses) FILTER (WHERE c.number = ?3 + ${at}))`;
const sumsOf = (owner: string) => `(SELECT json_array(${Array.from({ length: DAYS }, (_, at) => sumOfDay(at))})
FROM api_keys k CROSS JOIN key_counts c WHERE k.user_id = ${owner} AND c.row = k.row AND ${OF_DAYS})`;

// All in one statement, so that what is shown together is of one moment.
const USES_BY_DAY = `SELECT 'key' AS of, k.id AS holder, ${daysOf('k.row')} AS days
FROM json_each(?1) i CROSS JOIN api_keys k WHERE k.id = i.value
UNION ALL SELECT 'keys', n.value, ${sumsOf('n.value')} FROM json_each(?2) n
UNION ALL SELECT 'owner', h.owner, ${daysOf('-h.row')} FROM json_each(?2) n CROSS JOIN holders h WHERE h.owner = n.value`;

/** Keys whose days are summed in the event loop: some 5,000 counts, in 2 ms. */
const SUMMED_MAX = 200;

/** The last use of key `k`, from the row of its newest day. */
export const COUNTED_USE = `(SELECT last_used_at_ms FROM key_counts WHERE row = k.row AND window_s = ${DAY_S} ORDER BY number DESC LIMIT 1)`;

/** Returns units by day, without the days that have none. */
const daysIn = (days: readonly (readonly [day: number, units: number | null])[]): Days =>
  new Map(days.filter((day): day is [number, number] => day[1] !== null && day[1] > 0));

type DaysOf = Readonly<Record<'key' | 'keys' | 'owner', Map<string, Days>>>;

/** So many windows take less than 3 ms in a file of 10^6 keys. More are written in the background. */
const AT_ONCE_MAX = 16;
/** At a remote database exchanges only wait for each other. */
const FAIRNESS_KEY = 'exchanges of uses';

export const countsStore = (db: Database, usesPerWrite: number): UsesStore => ({
  usesPerWrite,

  async addUses({ instance, number, windows }) {
    const json = JSON.stringify(windows);
    const background = windows.length > AT_ONCE_MAX ? ({ background: true } as const) : {};
    const statements = [
      ...(windows.some(([, owner]) => owner !== null) ? [{ sql: MAKE_HOLDERS, args: [json] }] : []),
      { sql: ADD, args: [json, instance, number] },
      { sql: NOTE_NUMBER, args: [instance, number] },
    ];
    await db.writeAll(
      statements.map((statement) => ({ ...statement, ...background, fairnessKey: FAIRNESS_KEY, unsynced: true })),
    );
  },

  async totalsOf(windows) {
    const rows = await db.read({ sql: TOTALS, args: [JSON.stringify(windows)], fairnessKey: FAIRNESS_KEY });
    const totals = new Map(rows.map(({ at, uses }) => [Number(at), Number(uses)]));
    return windows.map((_, at) => totals.get(at));
  },

  async usesByDay({ keyIds = [], owners = [], ownersKeys = 0 }, firstDay) {
    const background = ownersKeys > SUMMED_MAX ? ({ background: true } as const) : {};
    const args = [JSON.stringify(keyIds), JSON.stringify(owners), firstDay];
    const found: DaysOf = { key: new Map(), keys: new Map(), owner: new Map() };
    for (const { of, holder, days } of await db.read({ sql: USES_BY_DAY, args, ...background }))
      found[of as keyof DaysOf].set(String(holder), daysIn(listIn(days)));
    return found;
  },
});
