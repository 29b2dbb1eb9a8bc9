// Sums what owners and keys have used, by UTC days, for bills: the days of keys, and what deleted keys used before. Reads keys
// in ranges, however many there are.

import { DAY_S } from '../../ground/limits/rates.ts';
import { MS_PER_DAY } from '../../ground/runtime.ts';
import { DAY_COLUMNS, dayOfMonth, WHOLE } from '../../store/counts.ts';
import { type Database, firstOf, type Row } from '../../store/database.ts';
import { type OnRange, rangesOf } from './row-ranges.ts';

/** UTC days since 1970, both included. */
export interface Days {
  readonly from: number;
  readonly to: number;
}

export interface UsageQuery extends Days {
  readonly by: 'owner' | 'key';
  readonly owner?: string | undefined;
}

/** What was used. `keyId`: null by owner, and for keys of the owner that were deleted. */
export interface Used {
  readonly owner: string;
  readonly keyId: string | null;
  readonly units: number;
}

/** Selects the units of key `k` from one day to another, both included; NULL: it was never used. */
function unitsBetween(from: number, to: number): string {
  const [first, last] = [dayOfMonth(from), dayOfMonth(to)];
  const some = (start: number, end?: number) => DAY_COLUMNS.slice(start, end).join(' + ');
  const units =
    first.month === last.month
      ? some(first.date - 1, last.date)
      : `CASE month WHEN ${first.month} THEN ${some(first.date - 1)} WHEN ${last.month} THEN ${some(0, last.date)} ELSE ${WHOLE} END`;
  return `(SELECT sum(${units}) FROM key_months WHERE row = k.row AND month BETWEEN ${first.month} AND ${last.month})`;
}

const SUMS = {
  owner: (where: string, units: string) => `SELECT owner, NULL AS id, sum(units) AS units
FROM (SELECT k.user_id AS owner, ${units} AS units FROM api_keys k WHERE ${where}) GROUP BY owner HAVING sum(units) > 0`,
  key: (
    where: string,
    units: string,
  ) => `SELECT * FROM (SELECT k.user_id AS owner, k.id, ${units} AS units FROM api_keys k WHERE ${where})
WHERE units > 0`,
};
/** The most sums that one statement returns: 2 MB with long names, of the 10 that a remote database may send. */
const SUMS_MAX = 10_000;
// `+`: by owner, so that each page reads on where the one before has ended. By the index of days it would read all.
const endedBy = (owner: string) => `SELECT owner, NULL AS id, sum(units) AS units FROM ended_uses
WHERE ${owner} AND +day BETWEEN ?1 AND ?2 GROUP BY owner HAVING sum(units) > 0 ORDER BY owner LIMIT ${SUMS_MAX}`;
const ENDED = { of: endedBy('owner = ?3'), after: endedBy('owner > ?3') };
const ALL_ENDED = 'SELECT count(*) AS days, total(units) AS units FROM ended_uses';
/** A key that is deleted while keys are read is seen twice or never: then all is read again, but not for ever. */
const TRIES_MAX = 5;

/** Returns the units of each owner, or key, that has used any, the most first. */
export async function usageOf(db: Database, query: UsageQuery, onRange: OnRange): Promise<readonly Used[]> {
  const ended = async () => JSON.stringify(firstOf(await db.read({ sql: ALL_ENDED })));
  for (let tries = 1; ; tries += 1) {
    const before = await ended();
    const found = await usedIn(db, query, onRange);
    if ((await ended()) === before || tries === TRIES_MAX) return found.sort((a, b) => b.units - a.units);
  }
}

async function usedIn(db: Database, { by, owner, from, to }: UsageQuery, onRange: OnRange): Promise<Used[]> {
  const isOfOne = owner !== undefined;
  const sql = SUMS[by](`k.row > ?1 AND k.row <= ?2${isOfOne ? ' AND k.user_id = ?3' : ''}`, unitsBetween(from, to));
  const rows = await endedIn(db, from, to, owner);
  for await (const { after, to: last } of rangesOf(db, { rowsMax: SUMS_MAX }, isOfOne, onRange))
    rows.push(...(await db.read({ sql, args: [after, last, ...(isOfOne ? [owner] : [])] })));
  const used = rows.map((row) => ({
    owner: String(row.owner),
    keyId: row.id as string | null,
    units: Number(row.units),
  }));
  return by === 'key' ? used : summed(used);
}

async function endedIn(db: Database, from: number, to: number, owner: string | undefined): Promise<Row[]> {
  const sql = ENDED[owner === undefined ? 'after' : 'of'];
  const ended: Row[] = [];
  for (;;) {
    const page = await db.read({ sql, args: [from, to, owner ?? String(ended.at(-1)?.owner ?? '')] });
    ended.push(...page);
    if (page.length < SUMS_MAX) return ended;
  }
}

function summed(used: readonly Used[]): Used[] {
  const units = new Map<string, number>();
  for (const one of used) units.set(one.owner, (units.get(one.owner) ?? 0) + one.units);
  return [...units].map(([owner, sum]) => ({ owner, keyId: null, units: sum }));
}

const FIRST_DATE = `CASE ${DAY_COLUMNS.map((column, at) => `WHEN ${column} > 0 THEN ${at + 1}`).join(' ')} END`;

/** Selects the first day on which a holder has used anything, as `dayIn` reads it; NULL: there is none. */
const firstDayOf = (row: string): string =>
  `(SELECT min(month * 32 + ${FIRST_DATE}) FROM key_months WHERE row = ${row})`;

/** Returns the day that `firstDayOf` has selected. */
function dayIn(selected: number): number {
  const month = Math.floor(selected / 32);
  return Date.UTC(Math.floor(month / 12), month % 12, selected % 32) / MS_PER_DAY;
}

const FIRST = `SELECT min(applied_at_ms) / (${DAY_S} * 1000) AS first FROM schema_migrations`;
const OLDEST_OF_KEYS = `SELECT min(${firstDayOf('k.row')}) AS oldest FROM api_keys k WHERE k.row > ?1 AND k.row <= ?2`;
const OLDEST_OF_OWNERS = `SELECT min(${firstDayOf('-h.row')}) AS oldest FROM holders h`;
const OLDEST_ENDED = 'SELECT min(day) AS oldest FROM ended_uses';

/** Returns the first day of the database, and the oldest of which any holder still has uses; Infinity: none has. */
export async function keptDays(db: Database) {
  const oldestIn = async (sql: string, args: readonly number[] = []) =>
    firstOf(await db.read({ sql, args })).oldest ?? null;
  const first = Number(firstOf(await db.read({ sql: FIRST })).first);
  const ended = await oldestIn(OLDEST_ENDED);
  const found = [await oldestIn(OLDEST_OF_OWNERS)];
  for await (const { after, to } of rangesOf(db, {}, false)) found.push(await oldestIn(OLDEST_OF_KEYS, [after, to]));
  const days = found.flatMap((day) => (day === null ? [] : dayIn(Number(day))));
  return { first, oldest: Math.min(...days, ...(ended === null ? [] : [Number(ended)])) };
}
