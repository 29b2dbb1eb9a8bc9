// The key store's changes, each one statement. A write that changes nothing may be one whose earlier try has changed it.

import { type Database, type DbResult, mapped, type Statement } from '../database/database.ts';
import { type Origin, personOf } from '../keys/actor.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { Changed, KeyStore } from '../keys/store.ts';
import { ok } from '../lib/result.ts';
import {
  DEACTIVATE,
  HAS_SECRET,
  INSERT,
  PROMOTE,
  RECORD_USE,
  REMOVE,
  REVOKE_BY_HASHES,
  ROTATE,
  ROTATE_AT_ONCE,
  UPDATE,
} from './queries.ts';

type Changes = Pick<
  KeyStore,
  'insert' | 'deactivate' | 'remove' | 'update' | 'revokeByHashes' | 'rotate' | 'promote' | 'recordUse'
>;

/** Runs a change of one key, which returns its `key_hash`. Null: nothing was changed. */
export const changeKey = (db: Database, statement: Statement): DbResult<Changed | null> =>
  mapped(db.write(statement), ({ rows: [row], repeated }) => {
    if (row !== undefined) return { fingerprint: fingerprintOf(String(row.key_hash)) };
    return repeated ? { fingerprint: null } : null;
  });

/** True if the write has changed something, or an earlier try of it has, which leaves what `left` finds. */
export async function hasChanged(db: Database, write: Statement, left: Statement): DbResult<boolean> {
  const written = await db.write(write);
  if (!written.ok) return written;
  const { rows, changed } = written.value;
  return rows.length > 0 || changed > 0 ? ok(true) : mapped(db.read(left), (found) => found.length > 0);
}

export function keyChanges(db: Database): Changes {
  const change = (sql: string, whose: string, args: NonNullable<Statement['args']>) =>
    changeKey(db, { sql, args, whose });

  return {
    insert(record, keysPerUserMax, origin) {
      const { id, userId, name, keyHash, scopes, createdAtMs, expiresAtMs, rateLimit, quota } = record;
      const inserted = hasChanged(
        db,
        {
          sql: INSERT,
          args: [
            id,
            userId,
            name,
            keyHash,
            JSON.stringify(scopes),
            createdAtMs,
            expiresAtMs,
            keysPerUserMax,
            JSON.stringify(origin),
            rateLimit?.requests ?? null,
            rateLimit?.windowS ?? null,
            quota?.requests ?? null,
            quota?.period ?? null,
          ],
          whose: turnOf(userId, origin),
        },
        { sql: 'SELECT 1 FROM api_keys WHERE id = ? AND key_hash = ?', args: [id, keyHash], whose: userId },
      );
      return mapped(inserted, (isThere) => (isThere ? 'created' : 'limit_reached'));
    },

    deactivate: (userId, keyId, origin) =>
      change(DEACTIVATE, turnOf(userId, origin), [keyId, userId, JSON.stringify(origin)]),

    remove: (userId, keyId, origin) => change(REMOVE, turnOf(userId, origin), [keyId, userId, JSON.stringify(origin)]),

    update(userId, keyId, { name, scopes }, origin) {
      const scopesJson = scopes === undefined ? null : JSON.stringify(scopes);
      return change(UPDATE, turnOf(userId, origin), [keyId, userId, name ?? null, scopesJson, JSON.stringify(origin)]);
    },

    revokeByHashes(keyHashes, nowMs, origin, whose) {
      const args = [JSON.stringify(keyHashes), nowMs, JSON.stringify(origin)];
      return mapped(db.write({ sql: REVOKE_BY_HASHES, args, whose }), () => undefined);
    },

    rotate: ({ id, userId, rotations }, { hash, overlapMs, expiresAtMs }, nowMs, origin) =>
      hasChanged(
        db,
        {
          sql: overlapMs > 0 ? ROTATE : ROTATE_AT_ONCE,
          args: [id, userId, rotations, hash, overlapMs, nowMs, JSON.stringify(origin), expiresAtMs ?? null],
          whose: turnOf(userId, origin),
        },
        { sql: HAS_SECRET, args: [id, hash], whose: userId },
      ),

    promote: ({ id, userId, second, rotations }, usedAtMs, origin) =>
      change(PROMOTE, `first use ${userId}`, [id, second?.hash ?? null, rotations, usedAtMs, JSON.stringify(origin)]),

    recordUse: (uses) => mapped(db.writeUnsynced({ sql: RECORD_USE, args: [JSON.stringify(uses)] }), () => undefined),
  };
}

/** Whose turn a change is: the person's, so that none of a team has all turns of its owner. */
const turnOf = (userId: string, { actor }: Origin): string => personOf({ userId, actor: actor ?? userId });
