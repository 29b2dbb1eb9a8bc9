// Implements the changes of the key store, each as one idempotent statement. If it changes nothing, an earlier try may have.

import { StoreOutage } from '../ground/result.ts';
import { type Origin, personOf } from '../keys/actor.ts';
import { type ApiKeyRecord, fingerprintOf } from '../keys/record.ts';
import type { Changed, KeyChanges } from '../keys/store.ts';
import { type Database, firstOf, type Statement, safeInteger, type Value, type Written, wholeIn } from './database.ts';
import { COLUMNS, columnsOf, compared, hasSecret, rowBy } from './rows.ts';

/**
 * Returns the statement that inserts a key, with one more condition (`AND …`). `since`: the change after which a deletion
 * counts, given the number of the last argument; by default all that are listed. A timed-out INSERT may still run after its
 * retry succeeded, even after the key was deleted: then `changes` has it. RETURNING would make it 7 % slower.
 */
export const insertIf = (
  more: string,
  since: (argsEnd: number) => string = () => '0',
) => `INSERT INTO api_keys (${COLUMNS}, changed_by) SELECT ${COLUMNS.map(insertArg)}, ?${COLUMNS.length + 1}
WHERE ${hasPlace(insertArg('user_id'), `?${COLUMNS.length + 2}`)}
AND NOT EXISTS (SELECT 1 FROM changes WHERE key_hash = ${insertArg('key_hash')} AND seq > ${since(COLUMNS.length + 2)})
${more} ON CONFLICT DO NOTHING`;

const INSERT = insertIf('');

/** Returns the condition that an owner has fewer keys than his own maximum, or else the default. */
export function hasPlace(owner: string, keysMax: string): string {
  return `(SELECT count(*) FROM api_keys WHERE user_id = ${owner})
< coalesce((SELECT keys_max FROM owners WHERE owner = ${owner}), ${keysMax})`;
}

/** Returns the argument of INSERT for a column, to use in a further condition. */
export function insertArg(column: string): string {
  return `?${COLUMNS.indexOf(column) + 1}`;
}

export const insertArgs = (record: ApiKeyRecord, keysMax: number, origin: Origin) => [
  ...columnsOf(record).values,
  JSON.stringify(origin),
  keysMax,
];

const DEACTIVATE = `UPDATE api_keys SET active = 0, changed_by = ?3
WHERE id = ?1 AND user_id = ?2 AND active = 1 RETURNING key_hash`;

// A trigger deletes the row, because a DELETE could not say who makes it.
const REMOVE = 'UPDATE api_keys SET deleting = 1, changed_by = ?3 WHERE id = ?1 AND user_id = ?2 RETURNING key_hash';

/** Select the number of the last change of ?1: what depends on what was read is written only while that is the same. */
export const LAST_CHANGE = {
  // With the owner, by an index: a key may have events without end, those of the children that it makes.
  key: `(SELECT coalesce(max(seq), 0) FROM key_events
WHERE key_id = ?1 AND owner = (SELECT user_id FROM api_keys WHERE id = ?1))`,
  owner: '(SELECT coalesce(max(seq), 0) FROM key_events WHERE key_id IS NULL AND owner = ?1)',
  hash: '(SELECT coalesce(max(seq), 0) FROM changes WHERE key_hash = ?1)',
};

// A rotation only changes what it has read: a late duplicate, or one that another preceded, does nothing.
const ROTATED = 'rotations = rotations + 1, changed_by = ?7, expires_at_ms = coalesce(?8, expires_at_ms)';
const ROTATABLE =
  'id = ?1 AND user_id = ?2 AND rotations = ?3 AND active = 1 AND (expires_at_ms IS NULL OR expires_at_ms >= ?6)';

const ROTATE = `UPDATE api_keys
SET second_hash = ?4, second_is = 'next', second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE} AND (second_hash IS NULL OR second_is IS NOT 'previous' OR second_ends_at_ms < ?6)`;

const ROTATE_AT_ONCE = `UPDATE api_keys
SET key_hash = ?4, second_hash = NULL, second_is = NULL, second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE}`;

const REVOKE_BY_HASHES = `UPDATE api_keys SET active = NOT given.whole, changed_by = ?3,
second_hash = iif(given.whole, second_hash, NULL),
second_is = iif(given.whole, second_is, NULL),
second_ends_at_ms = iif(given.whole, second_ends_at_ms, NULL)
FROM (SELECT k.row AS given_row, max(k.key_hash = h.value) AS whole
FROM json_each(?1) h JOIN api_keys k ON k.row = ${rowBy('h.value')}
WHERE ${hasSecret('h.value', '?2')} GROUP BY k.row) AS given
WHERE row = given_row AND active = 1`;

const HAS_SECRET = 'SELECT 1 FROM api_keys WHERE id = ?1 AND (key_hash = ?2 OR second_hash = ?2)';

const PROMOTE = `UPDATE api_keys SET key_hash = second_hash, second_hash = key_hash, second_is = 'previous',
second_ends_at_ms = ${safeInteger('?3 + coalesce(overlap_ms, 0)')}, changed_by = ?4
WHERE id = ?1 AND second_hash = ?2 AND second_is = 'next' AND active = 1 RETURNING key_hash`;

const EVENT = 'SELECT fingerprint FROM key_events WHERE key_id = ?1 AND request_id = ?2 ORDER BY seq DESC LIMIT 1';

/** How often a change is tried, so that so many at once are all made. */
const TRIES_MAX = 100;

/**
 * Writes what depends on a number of LAST_CHANGE being its last argument, as it is read here: what arrives late puts nothing
 * back over what is newer. `repeated` of the result: an earlier try has made the change.
 */
export async function writeAsRead(
  db: Database,
  last: string,
  { args = [], ...statement }: Statement,
): Promise<Written> {
  const { fairnessKey } = statement;
  const reading = { sql: `SELECT ${last} AS seq`, args: args.slice(0, 1), fairnessKey };
  const lastSeq = async () => wholeIn(firstOf(await db.read(reading)), 'seq');
  let wasRepeated = false;
  for (let tries = 0, seq = await lastSeq(); tries < TRIES_MAX; tries += 1) {
    const written = await db.write({ ...statement, args: [...args, seq] });
    wasRepeated ||= written.repeated;
    const before = seq;
    if (written.rows.length > 0 || written.changed > 0) return written;
    seq = await lastSeq();
    if (seq === before) return { ...written, repeated: wasRepeated && tries > 0 };
  }
  throw new StoreOutage('it is changed all the time');
}

/** Runs a change of one key that returns its `key_hash`, given `last` by `writeAsRead`. Null: nothing was changed. */
async function changeKey(
  db: Database,
  keyId: string,
  { requestId }: Origin,
  statement: Statement,
  last?: string,
): Promise<Changed | null> {
  const { rows, repeated } = await (last === undefined ? db.write(statement) : writeAsRead(db, last, statement));
  const [row] = rows;
  if (row !== undefined) return { fingerprint: fingerprintOf(String(row.key_hash)) };
  if (!repeated) return null;
  if (requestId === null) return { fingerprint: null };
  // If an earlier try has changed the key, it has left an event.
  const { fairnessKey } = statement;
  const [event] = await db.read({ sql: EVENT, args: [keyId, requestId], fairnessKey });
  return event === undefined ? null : { fingerprint: event.fingerprint as string | null };
}

/** Returns whether the write, or an earlier try of it, has changed something; `left` finds what it leaves. */
export async function hasChanged(db: Database, write: Statement, left: Statement): Promise<boolean> {
  const { changed } = await db.write(write);
  return changed > 0 || (await db.read(left)).length > 0;
}

export function keyChanges(db: Database): KeyChanges {
  /** Returns the change of a key of an owner, or of anybody. `given`: the arguments from ?4 on. */
  const ofOwn = (sql: string, owner: string | null, keyId: string, origin: Origin, ...given: readonly Value[]) => ({
    sql,
    args: [keyId, owner, JSON.stringify(origin), ...given],
    fairnessKey: owner === null ? undefined : fairnessKeyOf(owner, origin),
  });

  return {
    async insert(record, keysMax, origin) {
      const { id, userId, keyHash } = record;
      const isThere = await hasChanged(
        db,
        { sql: INSERT, args: insertArgs(record, keysMax, origin), fairnessKey: fairnessKeyOf(userId, origin) },
        { sql: 'SELECT 1 FROM api_keys WHERE id = ? AND key_hash = ?', args: [id, keyHash], fairnessKey: userId },
      );
      return isThere ? 'created' : 'limit_reached';
    },

    deactivate: (userId, keyId, origin) => changeKey(db, keyId, origin, ofOwn(DEACTIVATE, userId, keyId, origin)),
    remove: (userId, keyId, origin) => changeKey(db, keyId, origin, ofOwn(REMOVE, userId, keyId, origin)),

    async edit(owner, keyId, fields, origin, lastSeq) {
      const { names, values } = columnsOf(fields);
      if (names.length === 0) return null;
      const marks = values.map((_, at) => `?${at + 4}`);
      const was = names.map((name) => compared(name));
      const is = names.map((name, at) => compared(name, marks[at]));
      const sql = `UPDATE api_keys SET (changed_by, ${names}) = (?3, ${marks})
WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2) AND (${was}) IS NOT (${is})
AND ${LAST_CHANGE.key} = ?${values.length + 4} RETURNING key_hash`;
      if (lastSeq !== undefined)
        return changeKey(db, keyId, origin, ofOwn(sql, owner, keyId, origin, ...values, lastSeq));
      return changeKey(db, keyId, origin, ofOwn(sql, owner, keyId, origin, ...values), LAST_CHANGE.key);
    },

    async revokeByHashes(keyHashes, nowMs, origin, fairnessKey) {
      const args = [JSON.stringify(keyHashes), nowMs, JSON.stringify(origin)];
      await db.write({ sql: REVOKE_BY_HASHES, args, fairnessKey });
    },

    rotate: ({ id, userId, rotations }, { hash, overlapMs, expiresAtMs }, nowMs, origin) =>
      hasChanged(
        db,
        {
          sql: overlapMs > 0 ? ROTATE : ROTATE_AT_ONCE,
          args: [id, userId, rotations, hash, overlapMs, nowMs, JSON.stringify(origin), expiresAtMs],
          fairnessKey: fairnessKeyOf(userId, origin),
        },
        { sql: HAS_SECRET, args: [id, hash], fairnessKey: userId },
      ),

    promote: ({ id, userId, second }, usedAtMs, origin) =>
      changeKey(db, id, origin, {
        sql: PROMOTE,
        args: [id, second?.hash ?? null, usedAtMs, JSON.stringify(origin)],
        fairnessKey: `first use ${userId}`,
      }),
  };
}

/** Returns the fairness key of a change: the person, so that one team member can't take all turns of the owner. */
const fairnessKeyOf = (userId: string, { actor }: Origin): string => personOf({ userId, actor: actor ?? userId });
