// KeyStore over a Database: what is asked of it (queries.ts), and what its rows say (rows.ts).

import { type Origin, personOf } from '../keys/actor.ts';
import { isLost } from '../keys/feed-page.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { Changed, CountsAsOf, DayUses, Found, KeyStore, ListPlace } from '../keys/store.ts';
import { dayAt, monthOf } from '../keys/windows.ts';
import { type Awaitable, chain, ok, type Result } from '../lib/result.ts';
import { pruneCounts } from './counts.ts';
import type { Database, DbResult, Row, Statement, Unavailable } from './database.ts';
import { CHANGES, pageOf, prune } from './feed.ts';
import {
  COUNTS_OF,
  DEACTIVATE,
  EVENTS_AFTER,
  FIND,
  FIND_ALL,
  FIND_OWN,
  HAS_SECRET,
  INSERT,
  LIST,
  NEWEST_EVENTS,
  PROMOTE,
  RECORD_COUNTS,
  RECORD_USE,
  REMOVE,
  REVOKE_BY_HASHES,
  ROTATE,
  ROTATE_AT_ONCE,
  UPDATE,
  USES_BY_DAY,
} from './queries.ts';
import { eventOf, foundOf, isRecord, listedOf, recordOf, sharesOf } from './rows.ts';

/** More than any integer of a row, one beyond 2^53 included. */
const BEFORE_ALL: ListPlace = { createdAtMs: Number.MAX_VALUE, row: Number.MAX_VALUE };

export interface KeyStoreOptions {
  readonly primary: Database;
  readonly usesPerWrite: number;
  /** A nearby copy, which may be behind, away, or of another database. */
  readonly replica?: {
    /** Null when no copy responds. */
    read(statement: Statement): Promise<readonly Row[] | null>;
    /** The primary was replaced. */
    discard(): void;
  };
}

/** The rows of server_secrets (db/README.md). */
export type ServerSecret = 'request_state' | 'client_id';

/** A KeyStore and the upkeep of its change feed. */
export interface FullKeyStore extends KeyStore {
  /** As in feed.ts. */
  prune(eventsKeptMs: number): DbResult<boolean>;
  /** As in counts.ts. */
  pruneCounts(nowMs: number, daysKept: number): DbResult<void>;
  /** A secret that all processes on the database share (db/README.md). */
  serverSecret(name: ServerSecret): DbResult<string>;
}

type Reads = Pick<
  FullKeyStore,
  | 'listByUser'
  | 'countsOf'
  | 'usesByDay'
  | 'findOwn'
  | 'findByHash'
  | 'findByHashes'
  | 'isBlocked'
  | 'changesAfter'
  | 'events'
  | 'serverSecret'
>;
type Changes = Omit<FullKeyStore, keyof Reads | 'usesPerWrite' | 'prune' | 'pruneCounts'>;

export function createKeyStore(options: KeyStoreOptions): FullKeyStore {
  const { primary, usesPerWrite } = options;
  return {
    ...readsOf(options),
    ...changesOf(primary),
    usesPerWrite,
    prune: (eventsKeptMs) => prune(primary, eventsKeptMs),
    pruneCounts: (nowMs, daysKept) => pruneCounts(primary, nowMs, daysKept),
  };
}

function readsOf({ primary, replica }: KeyStoreOptions): Reads {
  return {
    async listByUser(userId, after, bytesMax) {
      const { createdAtMs, row } = after ?? BEFORE_ALL;
      const rows = await primary.read({ sql: LIST, args: [userId, createdAtMs, row, bytesMax], whose: userId });
      if (!rows.ok) return rows;
      const keys = rows.value.map((listed) => ({ ...listedOf(listed), row: Number(listed.row) }));
      return ok({ keys, remaining: Number(rows.value[0]?.remaining ?? 0) });
    },

    async findOwn(userId, keyId) {
      const rows = await primary.read({ sql: FIND_OWN, args: [keyId, userId], whose: userId });
      return rows.ok ? ok(rows.value[0] === undefined ? null : recordOf(rows.value[0])) : rows;
    },

    findByHash(keyHash, atLeast, withinMs, whose, asOf): Awaitable<Result<Found, Unavailable>> {
      const statement: Statement = { sql: FIND, args: [keyHash, ...countArgs(asOf)], whose };
      const fromPrimary = () =>
        primary.read(statement, withinMs).then((rows) => (rows.ok ? ok(foundOf(rows.value)) : rows));
      if (replica === undefined) return fromPrimary();
      return chain(replica.read(statement), (rows) => {
        const found = rows === null || rows.length === 0 ? null : foundOf(rows);
        const believable =
          found?.record != null &&
          found.position.databaseId === atLeast.databaseId &&
          found.position.seq >= atLeast.seq;
        return believable ? ok(found) : fromPrimary();
      });
    },

    async findByHashes(keyHashes, withinMs, whose, asOf) {
      const args = [JSON.stringify(keyHashes), ...countArgs(asOf)];
      const rows = await primary.read({ sql: FIND_ALL, args, whose }, withinMs);
      if (!rows.ok) return rows;
      const { position } = foundOf(rows.value); // without any of the keys there is still a row, as in FIND
      const found = new Map(rows.value.filter(isRecord).map((row) => [String(row.presented_hash), foundOf([row])]));
      return ok((keyHash) => found.get(keyHash) ?? { record: null, position, counts: null });
    },

    async isBlocked(owner, withinMs) {
      const sql = 'SELECT 1 FROM blocked_owners WHERE owner = ?';
      const rows = await primary.read({ sql, args: [owner], whose: owner }, withinMs);
      return rows.ok ? ok(rows.value.length > 0) : rows;
    },

    async changesAfter(reached, withinMs) {
      const rows = await primary.read({ sql: CHANGES, args: [reached.seq], urgent: true }, withinMs);
      if (!rows.ok) return rows;
      const page = pageOf(rows.value, reached.seq);
      if (reached.databaseId !== '' && isLost(reached, page)) replica?.discard();
      return ok(page);
    },

    async events({ afterSeq, limit, keyId, owner }) {
      const rows = await primary.read({
        sql: afterSeq === null ? NEWEST_EVENTS : EVENTS_AFTER,
        args: [afterSeq ?? 0, keyId ?? null, owner ?? null, limit],
      });
      if (!rows.ok) return rows;
      const events = rows.value.map(eventOf);
      return ok(afterSeq === null ? events.reverse() : events);
    },

    async countsOf(instance, windows) {
      const rows = await primary.read({ sql: COUNTS_OF, args: [JSON.stringify(windows), instance] });
      if (!rows.ok) return rows;
      const found = new Map(rows.value.map((row) => [Number(row.at), row]));
      return ok(
        windows.map((_, at) => {
          const row = found.get(at);
          return row === undefined ? null : { ...sharesOf(row.counts), before: Number(row.before ?? 0) };
        }),
      );
    },

    async usesByDay(keyIds, firstDay, instance) {
      const rows = await primary.read({ sql: USES_BY_DAY, args: [JSON.stringify(keyIds), firstDay, instance] });
      if (!rows.ok) return rows;
      const days = (row: Row) => JSON.parse(String(row.days)) as (readonly [number, number, number | null])[];
      return ok(
        new Map(
          rows.value.map((row) => [
            String(row.id),
            days(row).map(([day, uses, own]): DayUses => [day, uses, own ?? 0]),
          ]),
        ),
      );
    },

    async serverSecret(name) {
      const rows = await primary.read({ sql: 'SELECT value FROM server_secrets WHERE name = ?', args: [name] });
      if (!rows.ok) return rows;
      const [row] = rows.value;
      if (row === undefined) throw new Error(`the table server_secrets has lost its row ${name}`);
      return ok(String(row.value));
    },
  };
}

/** The parameters of COUNTS. */
function countArgs({ instance, nowMs, windowS }: CountsAsOf = NOBODY): number[] {
  const day = dayAt(nowMs);
  return [instance, Math.floor(nowMs / 1000), windowS, monthOf(day).firstDay, day];
}

const NOBODY: CountsAsOf = { instance: 0, nowMs: 0, windowS: 0 };

function changesOf(primary: Database): Changes {
  // If no row was changed, but an earlier try may have changed it, that counts as changed.
  async function change(sql: string, whose: string, args: NonNullable<Statement['args']>): DbResult<Changed | null> {
    const written = await primary.write({ sql, args, whose });
    if (!written.ok) return written;
    const { rows, repeated } = written.value;
    if (rows[0] !== undefined) return ok({ fingerprint: fingerprintOf(String(rows[0].key_hash)) });
    return ok(repeated ? { fingerprint: null } : null);
  }

  return {
    async insert(record, keysPerUserMax, origin) {
      const inserted = await primary.write({
        sql: INSERT,
        args: [
          record.id,
          record.userId,
          record.name,
          record.keyHash,
          JSON.stringify(record.scopes),
          record.createdAtMs,
          record.expiresAtMs,
          keysPerUserMax,
          JSON.stringify(origin),
          record.rateLimit?.requests ?? null,
          record.rateLimit?.windowS ?? null,
          record.quota?.requests ?? null,
          record.quota?.period ?? null,
        ],
        whose: turnOf(record.userId, origin),
      });
      if (!inserted.ok || inserted.value.changed > 0) return inserted.ok ? ok('created') : inserted;
      // Nothing inserted: the user is at the limit, or an earlier try of this very statement was carried out.
      const mine = await primary.read({
        sql: 'SELECT 1 FROM api_keys WHERE id = ? AND key_hash = ?',
        args: [record.id, record.keyHash],
        whose: record.userId,
      });
      return mine.ok ? ok(mine.value.length > 0 ? 'created' : 'limit_reached') : mine;
    },

    deactivate: (userId, keyId, origin) =>
      change(DEACTIVATE, turnOf(userId, origin), [keyId, userId, JSON.stringify(origin)]),

    remove: (userId, keyId, origin) => change(REMOVE, turnOf(userId, origin), [keyId, userId, JSON.stringify(origin)]),

    update(userId, keyId, { name, scopes }, origin) {
      const scopesJson = scopes === undefined ? null : JSON.stringify(scopes);
      return change(UPDATE, turnOf(userId, origin), [keyId, userId, name ?? null, scopesJson, JSON.stringify(origin)]);
    },

    async revokeByHashes(keyHashes, nowMs, origin, whose) {
      const args = [JSON.stringify(keyHashes), nowMs, JSON.stringify(origin)];
      const revoked = await primary.write({ sql: REVOKE_BY_HASHES, args, whose });
      return revoked.ok ? ok(undefined) : revoked;
    },

    async rotate({ id, userId, rotations }, { hash, overlapMs, expiresAtMs }, nowMs, origin) {
      const rotated = await primary.write({
        sql: overlapMs > 0 ? ROTATE : ROTATE_AT_ONCE,
        args: [id, userId, rotations, hash, overlapMs, nowMs, JSON.stringify(origin), expiresAtMs ?? null],
        whose: turnOf(userId, origin),
      });
      if (!rotated.ok || rotated.value.rows.length > 0) return rotated.ok ? ok(true) : rotated;
      // Nothing changed: another was faster, or an earlier try of this very statement was carried out.
      const mine = await primary.read({ sql: HAS_SECRET, args: [id, hash], whose: userId });
      return mine.ok ? ok(mine.value.length > 0) : mine;
    },

    promote: ({ id, userId, second, rotations }, usedAtMs, origin) =>
      change(PROMOTE, `first use ${userId}`, [id, second?.hash ?? null, rotations, usedAtMs, JSON.stringify(origin)]),

    async recordUse(uses) {
      const written = await primary.writeUnsynced({ sql: RECORD_USE, args: [JSON.stringify(uses)] });
      return written.ok ? ok(undefined) : written;
    },

    async recordCounts(instance, counts) {
      const written = await primary.writeUnsynced({ sql: RECORD_COUNTS, args: [JSON.stringify(counts), instance] });
      return written.ok ? ok(undefined) : written;
    },
  };
}

/** Whose turn a change is: the person's, so that none of a team has all turns of its owner. */
const turnOf = (userId: string, { actor }: Origin): string => personOf({ userId, actor: actor ?? userId });
