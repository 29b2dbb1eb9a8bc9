// Looks for keys that may be trouble: those that expire soon or never, or that nobody uses. Each request looks at the next
// keys of an order, however few of them fit, so that none takes long.

import { MS_PER_DAY } from '../../ground/runtime.ts';
import { type Database, firstOf, safeInteger } from '../../store/database.ts';
import { IS_BLOCKED, USED_AT } from '../../store/rows.ts';
import type { Place } from './cursor.ts';
import { FIRST_ROW, LAST_ROW } from './row-ranges.ts';

export const CHOICES = ['expiring', 'never_expires', 'unused'] as const;
export type Choice = (typeof CHOICES)[number];

/** The most keys that one request looks at, and brings. */
const LOOKED_MAX = 10_000;
const FITTING_MAX = 100;

const EXPIRING_WITHIN_MS = 7 * MS_PER_DAY;
const UNUSED_FOR_MS = 90 * MS_PER_DAY;

/** Selects the next keys after place ?1, ?2 by `at` and row; ?3: the time; ?4: the owner, NULL: any. */
interface Order {
  readonly at: string;
  readonly next: string;
  readonly by: string;
  /** The place before the first key. */
  readonly start: Place;
}

const SOONEST_FIRST: Order = {
  at: safeInteger('expires_at_ms'),
  next: `active = 1 AND expires_at_ms IS NOT NULL AND expires_at_ms BETWEEN max(?1, ?3) AND ?3 + ${EXPIRING_WITHIN_MS}
AND (expires_at_ms, row) > (?1, ?2)`,
  by: 'expires_at_ms, row',
  start: { at: 0, row: FIRST_ROW },
};
const NEWEST_FIRST: Order = { at: '0', next: '?1 = 0 AND row < ?2', by: 'row DESC', start: { at: 0, row: LAST_ROW } };

const FITS: Readonly<Record<Choice, readonly [order: Order, fits: string]>> = {
  expiring: [SOONEST_FIRST, '1'],
  never_expires: [NEWEST_FIRST, 'k.expires_at_ms IS NULL'],
  unused: [NEWEST_FIRST, `coalesce(${USED_AT}, k.created_at_ms) < ?3 - ${UNUSED_FOR_MS}`],
};

/**
 * Returns the statement. One key more than may be looked at shows whether there are more. The join reads keys in their
 * order, and ends with the last that fits on the page.
 */
function statementOf(choice: Choice, ofOwner: boolean): string {
  const [{ at, next, by }, fits] = FITS[choice];
  const where = ofOwner ? 'user_id = ?4' : '?4 IS NULL'; // so that an index of the owner's keys serves
  return `WITH looked AS MATERIALIZED (SELECT row, at, row_number() OVER () AS nth FROM (
SELECT row, ${at} AS at FROM api_keys WHERE ${where} AND ${next} ORDER BY ${by} LIMIT ${LOOKED_MAX + 1}))
SELECT n.there, l.at AS last_at, l.row AS last_row, f.nth, f.at, f.row
FROM (SELECT count(*) AS there FROM looked) n LEFT JOIN looked l ON l.nth = min(n.there, ${LOOKED_MAX}) LEFT JOIN (
SELECT o.nth, o.at, o.row, ${IS_BLOCKED} FROM looked o CROSS JOIN api_keys k ON k.row = o.row
WHERE o.nth <= ${LOOKED_MAX} AND k.active = 1 AND (k.expires_at_ms IS NULL OR k.expires_at_ms >= ?3)
AND NOT blocked AND ${fits} LIMIT ${FITTING_MAX}) f ORDER BY f.nth`;
}

/**
 * Looks at the next keys after a position (null: at the first), of an owner or of all. Returns the rows of those that fit, in
 * their order, how many keys it looked at, and the last of them (null: there is none after it).
 */
export async function lookAt(
  db: Database,
  choice: Choice,
  owner: string | undefined,
  nowMs: number,
  after: Place | null,
) {
  const { at, row } = after ?? FITS[choice][0].start;
  const found = await db.read({
    sql: statementOf(choice, owner !== undefined),
    args: [at, row, nowMs, owner ?? null],
    background: true,
  });
  const fitting = found.filter((one) => one.row !== null);
  const rows = fitting.map((one) => Number(one.row));
  const there = Number(firstOf(found).there);
  const last = fitting.length < FITTING_MAX ? undefined : fitting.at(-1);
  const looked = last === undefined ? Math.min(there, LOOKED_MAX) : Number(last.nth);
  const [endAt, endRow] = last === undefined ? [found[0]?.last_at, found[0]?.last_row] : [last.at, last.row];
  return { rows, looked, next: looked < there ? { at: Number(endAt), row: Number(endRow) } : null };
}

// Before keys are revoked because nobody uses them.

const EXCHANGED = `SELECT 1 FROM exchanges WHERE at_ms >= unixepoch('subsec') * 1000 - ${MS_PER_DAY} LIMIT 1`;
const RESTORED =
  "SELECT 1 FROM key_events WHERE key_id IS NULL AND owner = '' AND kind = 'restored' AND at_ms >= ? LIMIT 1";

/** Returns why nobody knows which keys were unused since a time; null: the database knows. */
export async function whyUnknown({ read }: Database, sinceMs: number): Promise<string | null> {
  if ((await read({ sql: EXCHANGED })).length === 0)
    return 'the database has seen no exchange of uses for a day, so keys that are in use would look unused; none was revoked';
  if ((await read({ sql: RESTORED, args: [sinceMs] })).length > 0)
    return 'the database was restored within this time, so uses are missing; none was revoked';
  return null;
}
