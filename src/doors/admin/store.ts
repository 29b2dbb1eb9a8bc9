// What operators read and write of anybody's keys. Filters may match any key, so they scan the table in insertion order, in
// ranges and batches.

import type { Origin } from '../../keys/actor.ts';
import type { ListedKey } from '../../keys/record.ts';
import { type Database, firstOf, nowMsOf, type Row, type Statement } from '../../store/database.ts';
import { IS_BLOCKED, LISTED_COLUMNS, listedOf, USED_AT } from '../../store/rows.ts';
import type { Place } from './cursor.ts';
import { type OnRange, rangesOf } from './row-ranges.ts';
import { type Choice, lookAt } from './troubled-keys.ts';

/** Selects the keys that match every field given. */
export interface KeyFilter {
  readonly owner?: string | undefined;
  readonly ids?: readonly string[] | undefined;
  readonly scope?: string | undefined;
  readonly createdFromMs?: number | undefined;
  /** Only usable keys neither created nor used since then. */
  readonly unusedSinceMs?: number | undefined;
  /** Only usable keys that expire by then. */
  readonly expiresByMs?: number | undefined;
}

export interface PlacedKey extends ListedKey {
  readonly row: number;
  /** Whether all keys of the owner are refused. */
  readonly blocked: boolean;
}

/** A hash or fingerprint may be that of any of the key's secrets. */
export type KeyName = { readonly id: string } | { readonly fingerprint: string } | { readonly keyHash: string };

export type AdminStore = ReturnType<typeof createAdminStore>;

type Args = NonNullable<Statement['args']>;

/** Keys that one statement revokes: it delays other writers by milliseconds. */
const BATCH_ROWS = 200;

const KEYS = 'FROM api_keys k';
const LISTED = `SELECT ${LISTED_COLUMNS}, ${IS_BLOCKED} ${KEYS}`;
const USABLE = 'k.active = 1 AND (k.expires_at_ms IS NULL OR k.expires_at_ms >= ?)';

/** Neither made nor used since, nor is any event of it younger; an owner who is blocked can't use it. */
const IS_UNUSED = `max(coalesce(${USED_AT}, 0), k.created_at_ms) < ?
AND NOT EXISTS (SELECT 1 FROM key_events e WHERE e.key_id = k.id AND e.at_ms >= ?)
AND NOT EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id)`;

function conditionOf(filter: KeyFilter, nowMs: number): { readonly sql: string; readonly args: Args } {
  const parts: (readonly [sql: string, ...args: Args])[] = [['1']];
  const { owner, ids, scope, createdFromMs, unusedSinceMs, expiresByMs } = filter;
  if (owner !== undefined) parts.push(['k.user_id = ?', owner]);
  if (ids !== undefined) parts.push(['k.id IN (SELECT value FROM json_each(?))', JSON.stringify(ids)]);
  if (scope !== undefined) parts.push(['EXISTS (SELECT 1 FROM json_each(k.scopes) WHERE value = ?)', scope]);
  if (createdFromMs !== undefined) parts.push(['k.created_at_ms >= ?', createdFromMs]);
  if (unusedSinceMs !== undefined) {
    parts.push([`${USABLE} AND ${IS_UNUSED}`, nowMs, unusedSinceMs, unusedSinceMs]);
  }
  if (expiresByMs !== undefined) parts.push([`${USABLE} AND k.expires_at_ms <= ?`, nowMs, expiresByMs]);
  return { sql: parts.map(([sql]) => sql).join(' AND '), args: parts.flatMap(([, ...args]) => args) };
}

/** Returns whether an index finds the keys, so that few rows are read. */
const isIndexed = ({ owner, ids }: KeyFilter): boolean => owner !== undefined || ids !== undefined;

/** Returns whether many rows may have to be read to fill a page. */
const isSparse = (filter: KeyFilter): boolean =>
  !isIndexed(filter) && Object.values(filter).some((part) => part !== undefined);

export const createAdminStore = (db: Database) => ({ ...createReads(db), ...createChanges(db) });

function createReads(db: Database) {
  async function listed(sql: string, args: Args): Promise<readonly PlacedKey[]> {
    const rows = await db.read({ sql, args });
    return rows.map((row) => ({ ...listedOf(row), row: Number(row.row), blocked: row.blocked === 1 }));
  }

  return {
    /** Returns the newest keys inserted before row `before`, newest first. */
    async page(filter: KeyFilter, nowMs: number, before: number, limit: number, onRange?: OnRange) {
      const { sql, args } = conditionOf(filter, nowMs);
      const found = `${LISTED} WHERE k.row > ? AND k.row <= ? AND ${sql} ORDER BY k.row DESC LIMIT ${limit}`;
      const keys: PlacedKey[] = [];
      for await (const { after, to } of rangesOf(db, { before, newestFirst: true }, !isSparse(filter), onRange)) {
        keys.push(...(await listed(found, [after, to, ...args])));
        if (keys.length >= limit) break;
      }
      return keys.slice(0, limit);
    },

    find(name: KeyName) {
      const [sql, ...args] = namedBy(name);
      return listed(`${LISTED} WHERE ${sql} LIMIT 10`, args);
    },

    /** Looks for keys that may be trouble, after a position (null: from the first). */
    async look(choice: Choice, owner: string | undefined, nowMs: number, after: Place | null) {
      const { rows, ...how } = await lookAt(db, choice, owner, nowMs, after);
      const sql = `${LISTED} WHERE k.row IN (SELECT value FROM json_each(?))`;
      const byRow = new Map((await listed(sql, [JSON.stringify(rows)])).map((key) => [key.row, key]));
      return { keys: rows.flatMap((row) => byRow.get(row) ?? []), ...how };
    },

    async countActive(filter: KeyFilter, nowMs: number, onRange?: OnRange) {
      const { sql, args } = conditionOf(filter, nowMs);
      const counted = `SELECT count(*) AS count ${KEYS} WHERE k.row > ? AND k.row <= ? AND k.active = 1 AND ${sql}`;
      let count = 0;
      for await (const { after, to } of rangesOf(db, {}, isIndexed(filter), onRange)) {
        count += Number(firstOf(await db.read({ sql: counted, args: [after, to, ...args] })).count);
      }
      return count;
    },

    nowMs: () => nowMsOf(db),
  };
}

const ENDED = 'SELECT id FROM api_keys WHERE id IN (SELECT value FROM json_each(?)) AND active = 0 ORDER BY row';

function createChanges(db: Database) {
  /** Returns the first active keys after a row that match. */
  async function nextActive(filter: KeyFilter, nowMs: number, row: number): Promise<readonly Row[]> {
    const { sql, args } = conditionOf(filter, nowMs);
    const where = `k.row > ? AND k.row <= ? AND k.active = 1 AND ${sql}`;
    const next = `SELECT k.row, k.id ${KEYS} WHERE ${where} ORDER BY k.row LIMIT ${BATCH_ROWS}`;
    for await (const { after, to } of rangesOf(db, { after: row }, isIndexed(filter))) {
      const found = await db.read({ sql: next, args: [after, to, ...args] });
      if (found.length > 0) return found;
    }
    return [];
  }

  return {
    /** Revokes the first active keys after row `after` that match. Returns null if there were none. */
    async revokeNext(filter: KeyFilter, nowMs: number, after: number, origin: Origin) {
      // Reads first: if an UPDATE has to be sent twice, it does not say how many rows the first one changed.
      const found = await nextActive(filter, nowMs, after);
      const last = found.at(-1);
      if (last === undefined) return null;
      // Updates by id: when the newest key is deleted, the next one gets its row number.
      const { sql, args } = conditionOf({ ...filter, ids: found.map(({ id }) => String(id)) }, nowMs);
      // Looks at everything again: a key may have been used meanwhile.
      await db.write({
        sql: `UPDATE api_keys SET active = 0, changed_by = ? WHERE row IN (SELECT k.row ${KEYS} WHERE k.active = 1 AND ${sql})`,
        args: [JSON.stringify(origin), ...args],
      });
      const ended = await db.read({ sql: ENDED, args: [JSON.stringify(found.map(({ id }) => id))] });
      return { ids: ended.map(({ id }) => String(id)), lastRow: Number(last.row) };
    },
  };
}

function namedBy(name: KeyName): readonly [sql: string, ...args: Args] {
  if ('id' in name) return ['k.id = ?', name.id];
  if ('keyHash' in name)
    return ['k.row IN (SELECT row FROM api_keys WHERE key_hash = ?1 OR second_hash = ?1)', name.keyHash];
  // Ranges, so that an index finds each.
  const inRange = (hash: string) => `SELECT row FROM api_keys WHERE ${hash} >= ?1 AND ${hash} < ?1 || 'g'`;
  return [`k.row IN (${inRange('key_hash')} UNION ${inRange('second_hash')})`, name.fingerprint];
}
