// The key store's reads. A record may come from a replica, everything else comes from the primary.

import { type Database, mapped, type Row, type Statement } from '../database/database.ts';
import { CHANGES, pageOf } from '../database/feed.ts';
import { isLost } from '../keys/feed-page.ts';
import type { Found, KeyStore, ListPlace } from '../keys/store.ts';
import { chain, ok } from '../lib/result.ts';
import type { CountsAsOf } from '../uses/store.ts';
import { dayAt, monthOf } from '../uses/windows.ts';
import { EVENTS_AFTER, FIND, FIND_ALL, FIND_OWN, LIST, NEWEST_EVENTS } from './queries.ts';
import { eventOf, foundOf, isRecord, listedOf, recordOf } from './rows.ts';

/** A copy of the primary, which may be behind, away, or of another database. */
export interface NearbyCopy {
  /** Null when no copy responds. */
  read(statement: Statement): Promise<readonly Row[] | null>;
  /** The primary was replaced. */
  discard(): void;
}

type Reads = Pick<
  KeyStore,
  'listByUser' | 'findOwn' | 'findByHash' | 'findByHashes' | 'isBlocked' | 'changesAfter' | 'events'
>;

/** More than any integer of a row, one beyond 2^53 included. */
const BEFORE_ALL: ListPlace = { createdAtMs: Number.MAX_VALUE, row: Number.MAX_VALUE };

const BLOCKED = 'SELECT 1 FROM blocked_owners WHERE owner = ?';

export const keyReads = (primary: Database, replica: NearbyCopy | null): Reads => ({
  listByUser(userId, after, bytesMax) {
    const { createdAtMs, row } = after ?? BEFORE_ALL;
    const read = primary.read({ sql: LIST, args: [userId, createdAtMs, row, bytesMax], whose: userId });
    return mapped(read, (rows) => ({
      keys: rows.map((listed) => ({ ...listedOf(listed), row: Number(listed.row) })),
      remaining: Number(rows[0]?.remaining ?? 0),
    }));
  },

  findOwn: (userId, keyId) =>
    mapped(primary.read({ sql: FIND_OWN, args: [keyId, userId], whose: userId }), ([row]) =>
      row === undefined ? null : recordOf(row),
    ),

  findByHash(keyHash, atLeast, withinMs, whose, asOf) {
    const statement: Statement = { sql: FIND, args: [keyHash, ...countArgs(asOf)], whose };
    const fromPrimary = () => mapped(primary.read(statement, withinMs), foundOf);
    if (replica === null) return fromPrimary();
    return chain(replica.read(statement), (rows) => {
      const found = rows === null || rows.length === 0 ? null : foundOf(rows);
      const believable =
        found?.record != null && found.position.databaseId === atLeast.databaseId && found.position.seq >= atLeast.seq;
      return believable ? ok(found) : fromPrimary();
    });
  },

  findByHashes(keyHashes, withinMs, whose, asOf) {
    const args = [JSON.stringify(keyHashes), ...countArgs(asOf)];
    return mapped(primary.read({ sql: FIND_ALL, args, whose }, withinMs), (rows) => {
      const { position } = foundOf(rows); // without any of the keys there is still a row, as in FIND
      const found = new Map(rows.filter(isRecord).map((row) => [String(row.presented_hash), foundOf([row])]));
      return (keyHash: string): Found => found.get(keyHash) ?? { record: null, position, counts: null };
    });
  },

  isBlocked: (owner, withinMs) =>
    mapped(primary.read({ sql: BLOCKED, args: [owner], whose: owner }, withinMs), (rows) => rows.length > 0),

  changesAfter: (reached, withinMs) =>
    mapped(primary.read({ sql: CHANGES, args: [reached.seq], urgent: true }, withinMs), (rows) => {
      const page = pageOf(rows, reached.seq);
      if (reached.databaseId !== '' && isLost(reached, page)) replica?.discard();
      return page;
    }),

  events({ afterSeq, limit, keyId, owner }) {
    const args = [afterSeq ?? 0, keyId ?? null, owner ?? null, limit];
    return afterSeq === null
      ? mapped(primary.read({ sql: NEWEST_EVENTS, args }), (rows) => rows.map(eventOf).reverse())
      : mapped(primary.read({ sql: EVENTS_AFTER, args }), (rows) => rows.map(eventOf));
  },
});

/** The parameters of COUNTS. */
function countArgs({ instance, nowMs, windowS }: CountsAsOf = NOBODY): number[] {
  const day = dayAt(nowMs);
  return [instance, Math.floor(nowMs / 1000), windowS, monthOf(day).firstDay, day];
}

const NOBODY: CountsAsOf = { instance: 0, nowMs: 0, windowS: 0 };
