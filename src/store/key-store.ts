// The queries: KeyStore over a Database. Every write is harmless when it is sent twice.

import type { KeyEvent } from '../keys/events.ts';
import {
  type ApiKeyRecord,
  type Changed,
  type ChangeMark,
  FEED_PAGE_MAX,
  type FeedPage,
  type FeedPosition,
  type Found,
  fingerprintOf,
  isLost,
  type KeyStore,
  type ListedKey,
  type PresentedKey,
  type ReachedPosition,
  type SecondSecret,
} from '../keys/record.ts';
import { MS_PER_DAY } from '../lib/duration.ts';
import { type Awaitable, chain, ok, type Result } from '../lib/result.ts';
import { sleep } from '../lib/timeout.ts';
import type { Database, DbResult, Row, Statement, Unavailable } from './database.ts';

const NEWEST_SEQ = 'max(f.pruned_seq, coalesce((SELECT max(seq) FROM changes), 0))';

/** The row of the key that has a secret of this hash: two searches of an index, the second one only if the first fails. */
const rowBy = (hash: string) =>
  `coalesce((SELECT row FROM api_keys WHERE key_hash = ${hash}), (SELECT row FROM api_keys WHERE second_hash = ${hash}))`;

/** Of the owner of the key `k`. */
export const IS_BLOCKED = 'EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id) AS blocked';

// During a rolling upgrade servers of the first version still write api_keys.last_used_at_ms: the later value counts.
export const USED_AT =
  'max(coalesce(u.last_used_at_ms, k.last_used_at_ms), coalesce(k.last_used_at_ms, u.last_used_at_ms))';

const FIND = `SELECT f.database_id, ${NEWEST_SEQ} AS newest_seq, ?1 AS presented_hash, ${IS_BLOCKED}, k.* FROM feed f
LEFT JOIN api_keys k ON k.row = ${rowBy('?1')}`;

const FIND_ALL = `SELECT f.database_id, ${NEWEST_SEQ} AS newest_seq, h.value AS presented_hash, ${IS_BLOCKED}, k.* FROM feed f
LEFT JOIN json_each(?1) h LEFT JOIN api_keys k ON k.row = ${rowBy('h.value')}`;

// A timed-out INSERT may still run after its retry succeeded, even after the key was deleted. Without RETURNING, which
// would take a fourteenth of its time.
const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, expires_at_ms, changed_by)
SELECT ?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?9
WHERE (SELECT count(*) FROM api_keys WHERE user_id = ?2) < ?8
AND NOT EXISTS (SELECT 1 FROM changes WHERE key_hash = ?4)
ON CONFLICT DO NOTHING`;

const DEACTIVATE = `UPDATE api_keys SET active = 0, changed_by = ?3
WHERE id = ?1 AND user_id = ?2 AND active = 1 RETURNING key_hash`;

// A trigger deletes the row: a DELETE could not say who makes it.
const REMOVE = 'UPDATE api_keys SET deleting = 1, changed_by = ?3 WHERE id = ?1 AND user_id = ?2 RETURNING key_hash';

const UPDATE = `UPDATE api_keys SET name = coalesce(?3, name), scopes = coalesce(?4, scopes), changed_by = ?5
WHERE id = ?1 AND user_id = ?2 AND (name, scopes) IS NOT (coalesce(?3, name), coalesce(?4, scopes)) RETURNING key_hash`;

// A rotation changes only what it has read: a late duplicate does nothing, nor does one that another has overtaken.
const ROTATED = 'rotations = rotations + 1, changed_by = ?7';
const ROTATABLE =
  'id = ?1 AND user_id = ?2 AND rotations = ?3 AND active = 1 AND (expires_at_ms IS NULL OR expires_at_ms >= ?6)';

const ROTATE = `UPDATE api_keys
SET second_hash = ?4, second_is = 'next', second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE} AND (second_is IS NOT 'previous' OR second_ends_at_ms < ?6) RETURNING id`;

const ROTATE_AT_ONCE = `UPDATE api_keys
SET key_hash = ?4, second_hash = NULL, second_is = NULL, second_ends_at_ms = NULL, overlap_ms = ?5, ${ROTATED}
WHERE ${ROTATABLE} RETURNING id`;

const REVOKE_BY_HASHES = `UPDATE api_keys SET active = NOT given.whole, changed_by = ?3,
second_hash = iif(given.whole, second_hash, NULL),
second_is = iif(given.whole, second_is, NULL),
second_ends_at_ms = iif(given.whole, second_ends_at_ms, NULL)
FROM (SELECT k.row AS given_row, max(k.key_hash = h.value) AS whole
FROM json_each(?1) h JOIN api_keys k ON k.row = ${rowBy('h.value')}
WHERE k.key_hash = h.value OR k.second_is = 'next' OR k.second_ends_at_ms >= ?2 GROUP BY k.row) AS given
WHERE row = given_row AND active = 1`;

const FIND_OWN = 'SELECT * FROM api_keys WHERE id = ?1 AND user_id = ?2';

const HAS_SECRET = 'SELECT 1 FROM api_keys WHERE id = ?1 AND (key_hash = ?2 OR second_hash = ?2)';

const PROMOTE = `UPDATE api_keys SET key_hash = second_hash, second_hash = key_hash, second_is = 'previous',
second_ends_at_ms = ?4 + coalesce(overlap_ms, 0), changed_by = ?5
WHERE id = ?1 AND second_hash = ?2 AND second_is = 'next' AND rotations = ?3 AND active = 1 RETURNING key_hash`;

/**
 * What a page of a long list may have: all responses of `sqld` together have at most 10 MB, and several processes read a
 * few pages each (keys/list-gate.ts). Larger pages would also hold up the event loop.
 */
const LIST_PAGE_BYTES = 200_000;

/** A row without name and scopes, as `sqld` sends it. */
const LISTED_KEY_BYTES = 500;

/** Whatever their size: 175 KB, or 650 KB of keys from before scopes had a bound. Most lists end with the first page. */
const LIST_PAGE_ROWS_MIN = 50;

/** Of small keys. */
const LIST_PAGE_ROWS_MAX = 400;

const LIST = `SELECT k.*, ${USED_AT} AS used_at_ms
FROM api_keys k LEFT JOIN key_uses u USING (row) WHERE user_id = ?1 AND (created_at_ms, row) < (?2, ?3)
ORDER BY created_at_ms DESC, row DESC`;

const LIST_FIRST_PAGE = `${LIST} LIMIT ${LIST_PAGE_ROWS_MIN}`;

// As many rows as fit into a page if all are as large as the largest one.
const LIST_PAGE = `${LIST} LIMIT (SELECT max(${LIST_PAGE_ROWS_MIN}, min(${LIST_PAGE_ROWS_MAX},
${LIST_PAGE_BYTES} / (${LISTED_KEY_BYTES} + coalesce(max(octet_length(name) + octet_length(scopes)), 0))))
FROM api_keys WHERE user_id = ?1)`;

const BEFORE_ALL = Number.MAX_SAFE_INTEGER;

const CHANGES = `SELECT f.database_id, f.pruned_seq, max(f.pruned_seq, coalesce(n.seq, 0)) AS newest_seq,
n.changed_at_ms || n.key_hash AS newest_mark, c.seq, c.changed_at_ms, c.key_hash
FROM feed f LEFT JOIN changes n ON n.seq = (SELECT max(seq) FROM changes) LEFT JOIN changes c ON c.seq >= ?1
WHERE f.one = 1 ORDER BY c.seq LIMIT 1 + ${FEED_PAGE_MAX}`;

// A key deleted meanwhile gets no row, and a later time from another process stays. CROSS JOIN fixes the order: each
// use looks up its key, rather than each key its use.
const RECORD_USE = `INSERT INTO key_uses (row, last_used_at_ms)
SELECT k.row, use.value ->> 1 FROM json_each(?1) AS use CROSS JOIN api_keys k WHERE k.id = use.value ->> 0
ON CONFLICT (row) DO UPDATE SET last_used_at_ms = excluded.last_used_at_ms WHERE last_used_at_ms < excluded.last_used_at_ms`;

/** Changes are kept this long: a process that polls again in that time need not forget what it knows. */
const CHANGES_KEPT_MS = MS_PER_DAY;

/**
 * At most this many are kept, 100 MB. It is a hundred times what a process reads rather than forget all it knows, and at
 * 5,000 changes a second 100 s: creations that were given up no longer arrive by then (INSERT).
 */
export const CHANGES_KEPT_MAX = 500_000;

/** Changes removed by one statement, which blocks a local file's process for some 10 ms. */
const PRUNE_ROWS = 250;

/** Between two of them, for everybody else. */
const PRUNE_PAUSE_MS = 10;

// The mark is raised before the rows go, so that readers who have not come that far know that changes are missing.
const PRUNE_MARK: Statement = {
  sql: `UPDATE feed SET pruned_seq = old.seq FROM (
SELECT max(seq) AS seq FROM (SELECT seq, changed_at_ms FROM changes ORDER BY seq LIMIT ?1)
WHERE changed_at_ms < unixepoch('subsec') * 1000 - ?2 OR seq <= (SELECT max(seq) FROM changes) - ?3) AS old
WHERE old.seq > pruned_seq RETURNING pruned_seq`,
  args: [PRUNE_ROWS, CHANGES_KEPT_MS, CHANGES_KEPT_MAX],
};

const PRUNE_MARKED: Statement = { sql: 'DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed)' };

// As many at once as of changes. The newest stays, whatever its age, so that its number is not given again.
const PRUNE_EVENTS = `DELETE FROM key_events
WHERE seq <= (SELECT max(seq) FROM (SELECT seq, at_ms FROM key_events ORDER BY seq LIMIT ${PRUNE_ROWS})
WHERE at_ms < unixepoch('subsec') * 1000 - ?1) AND seq < (SELECT max(seq) FROM key_events) RETURNING seq`;

const NEWEST_EVENTS = `SELECT * FROM key_events WHERE seq > ?1 AND (?2 IS NULL OR key_id = ?2) AND (?3 IS NULL OR owner = ?3)
ORDER BY seq DESC LIMIT ?4`;

const EVENTS_AFTER = NEWEST_EVENTS.replace('DESC', 'ASC');

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

/** A KeyStore and the upkeep of its change feed. */
export function createKeyStore({ primary, usesPerWrite, replica }: KeyStoreOptions): KeyStore & {
  /**
   * Removes events older than `eventsKeptMs`, changes older than a day, and the oldest of too many, a slice at a time.
   * False: there were no such changes.
   */
  prune(eventsKeptMs: number): DbResult<boolean>;
  /** A secret that all processes on the database share (db/README.md). */
  serverSecret(name: 'request_state'): DbResult<string>;
} {
  // If no row was changed, but an earlier try may have changed it, that counts as changed.
  async function change(sql: string, args: NonNullable<Statement['args']>): DbResult<Changed | null> {
    const written = await primary.write({ sql, args });
    if (!written.ok) return written;
    const { rows, repeated } = written.value;
    if (rows[0] !== undefined) return ok({ fingerprint: fingerprintOf(String(rows[0].key_hash)) });
    return ok(repeated ? { fingerprint: null } : null);
  }

  async function pruneEvents(keptMs: number): DbResult<void> {
    for (;;) {
      const removed = await primary.write({ sql: PRUNE_EVENTS, args: [keptMs] });
      if (!removed.ok) return removed;
      if (removed.value.rows.length === 0) return ok(undefined);
      await sleep(PRUNE_PAUSE_MS);
    }
  }

  async function prune(eventsKeptMs: number): DbResult<boolean> {
    const events = await pruneEvents(eventsKeptMs);
    if (!events.ok) return events;
    for (let slices = 0; ; slices += 1) {
      const deleted = await primary.write(PRUNE_MARKED); // first those that were marked and could not be removed
      if (!deleted.ok) return deleted;
      const marked = await primary.write(PRUNE_MARK);
      if (!marked.ok) return marked;
      if (marked.value.rows.length === 0) return ok(slices > 0);
      await sleep(PRUNE_PAUSE_MS);
    }
  }

  const listPage = (sql: string, userId: string, after?: Row) => {
    const before = after === undefined ? [BEFORE_ALL, BEFORE_ALL] : [Number(after.created_at_ms), Number(after.row)];
    return primary.read({ sql, args: [userId, ...before] });
  };

  /** Begins anew, because the next page is larger than the first one was. */
  async function everyPage(userId: string, take: (page: readonly ListedKey[]) => boolean): DbResult<boolean> {
    for (let last: Row | undefined; ; ) {
      const rows = await listPage(LIST_PAGE, userId, last);
      if (!rows.ok) return rows;
      // In small slices: of a large one, what is made of it is large, and stays in memory for longer.
      for (let from = 0; from < rows.value.length; from += LIST_PAGE_ROWS_MIN) {
        if (!take(rows.value.slice(from, from + LIST_PAGE_ROWS_MIN).map(listedOf))) return ok(false);
      }
      if (rows.value.length < LIST_PAGE_ROWS_MIN) return ok(true);
      last = rows.value.at(-1);
    }
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
        ],
      });
      if (!inserted.ok || inserted.value.changed > 0) return inserted.ok ? ok('created') : inserted;
      // Nothing inserted: the user is at the limit, or an earlier try of this very statement was carried out.
      const mine = await primary.read({
        sql: 'SELECT 1 FROM api_keys WHERE id = ? AND key_hash = ?',
        args: [record.id, record.keyHash],
      });
      return mine.ok ? ok(mine.value.length > 0 ? 'created' : 'limit_reached') : mine;
    },

    async listByUser(userId, mayContinue, take) {
      const first = await listPage(LIST_FIRST_PAGE, userId);
      if (!first.ok) return first;
      if (first.value.length < LIST_PAGE_ROWS_MIN) return ok(take(first.value.map(listedOf)));
      return (await mayContinue()) ? everyPage(userId, take) : ok(false);
    },

    deactivate: (userId, keyId, origin) => change(DEACTIVATE, [keyId, userId, JSON.stringify(origin)]),

    remove: (userId, keyId, origin) => change(REMOVE, [keyId, userId, JSON.stringify(origin)]),

    update(userId, keyId, { name, scopes }, origin) {
      const scopesJson = scopes === undefined ? null : JSON.stringify(scopes);
      return change(UPDATE, [keyId, userId, name ?? null, scopesJson, JSON.stringify(origin)]);
    },

    async revokeByHashes(keyHashes, nowMs, origin) {
      const args = [JSON.stringify(keyHashes), nowMs, JSON.stringify(origin)];
      const revoked = await primary.write({ sql: REVOKE_BY_HASHES, args });
      return revoked.ok ? ok(undefined) : revoked;
    },

    async findOwn(userId, keyId) {
      const rows = await primary.read({ sql: FIND_OWN, args: [keyId, userId] });
      return rows.ok ? ok(rows.value[0] === undefined ? null : recordOf(rows.value[0])) : rows;
    },

    async rotate({ id, userId, rotations }, { hash, overlapMs }, nowMs, origin) {
      const rotated = await primary.write({
        sql: overlapMs > 0 ? ROTATE : ROTATE_AT_ONCE,
        args: [id, userId, rotations, hash, overlapMs, nowMs, JSON.stringify(origin)],
      });
      if (!rotated.ok || rotated.value.rows.length > 0) return rotated.ok ? ok(true) : rotated;
      // Nothing changed: another was faster, or an earlier try of this very statement was carried out.
      const mine = await primary.read({ sql: HAS_SECRET, args: [id, hash] });
      return mine.ok ? ok(mine.value.length > 0) : mine;
    },

    promote: ({ id, second, rotations }, usedAtMs, origin) =>
      change(PROMOTE, [id, second?.hash ?? null, rotations, usedAtMs, JSON.stringify(origin)]),

    findByHash(keyHash, atLeast, withinMs): Awaitable<Result<Found, Unavailable>> {
      const statement: Statement = { sql: FIND, args: [keyHash] };
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

    async findByHashes(keyHashes, withinMs) {
      const rows = await primary.read({ sql: FIND_ALL, args: [JSON.stringify(keyHashes)] }, withinMs);
      if (!rows.ok) return rows;
      const { position } = foundOf(rows.value); // without any of the keys there is still a row, as in FIND
      const records = new Map(rows.value.filter(isRecord).map((row) => [String(row.presented_hash), presentedOf(row)]));
      return ok((keyHash) => ({ record: records.get(keyHash) ?? null, position }));
    },

    async isBlocked(owner, withinMs) {
      const rows = await primary.read({ sql: 'SELECT 1 FROM blocked_owners WHERE owner = ?', args: [owner] }, withinMs);
      return rows.ok ? ok(rows.value.length > 0) : rows;
    },

    async changesAfter(reached, withinMs) {
      const rows = await primary.read({ sql: CHANGES, args: [reached.seq] }, withinMs);
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

    async recordUse(uses) {
      const written = await primary.writeUnsynced({ sql: RECORD_USE, args: [JSON.stringify(uses)] });
      return written.ok ? ok(undefined) : written;
    },

    async serverSecret(name) {
      const rows = await primary.read({ sql: 'SELECT value FROM server_secrets WHERE name = ?', args: [name] });
      if (!rows.ok) return rows;
      const [row] = rows.value;
      if (row === undefined) throw new Error(`the table server_secrets has lost its row ${name}`);
      return ok(String(row.value));
    },

    usesPerWrite,
    prune,
  };
}

// The columns are STRICT and CHECKed in db/, so their types are known here.

function recordOf(row: Row): ApiKeyRecord {
  return {
    id: String(row.id),
    userId: String(row.user_id),
    name: String(row.name),
    keyHash: String(row.key_hash),
    scopes: JSON.parse(String(row.scopes)) as string[],
    active: row.active === 1,
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: row.expires_at_ms as number | null,
    second: secondOf(row),
    rotations: Number(row.rotations),
  };
}

function secondOf(row: Row): SecondSecret | null {
  if (row.second_hash === null) return null;
  const hash = String(row.second_hash);
  if (row.second_is === 'next') return { hash, is: 'next', endsAtMs: null };
  return { hash, is: 'previous', endsAtMs: Number(row.second_ends_at_ms) };
}

function presentedOf(row: Row): PresentedKey {
  const record = { ...recordOf(row), blocked: row.blocked === 1 };
  const { second } = record;
  if (second === null || second.hash !== row.presented_hash)
    return { ...record, presented: 'in_force', secretEndsAtMs: null };
  return { ...record, presented: second.is, secretEndsAtMs: second.endsAtMs };
}

const eventOf = (row: Row): KeyEvent => ({
  seq: Number(row.seq),
  atMs: Number(row.at_ms),
  keyId: row.key_id as string | null,
  owner: String(row.owner),
  kind: row.kind as KeyEvent['kind'],
  how: row.how as KeyEvent['how'],
  actor: row.actor as string | null,
  requestId: row.request_id as string | null,
  address: row.address as string | null,
  fingerprint: row.fingerprint as string | null,
  secret: row.secret as KeyEvent['secret'],
});

export const listedOf = (row: Row): ListedKey => ({
  ...recordOf(row),
  lastUsedAtMs: row.used_at_ms as number | null,
});

const isRecord = (row: Row) => row.id !== null;

function foundOf([row]: readonly Row[]): Found {
  if (row === undefined) throw new Error('the feed table has lost its row');
  return {
    record: isRecord(row) ? presentedOf(row) : null,
    position: positionOf(row),
  };
}

const positionOf = (row: Row): FeedPosition => ({
  databaseId: String(row.database_id),
  seq: Number(row.newest_seq),
});

/** Where the change feed of a database stands; null when it doesn't say. */
export async function readPosition(
  read: (statement: Statement) => Promise<readonly Row[] | null>,
): Promise<ReachedPosition | null> {
  const page = await readPage(read, Number.MAX_SAFE_INTEGER);
  return page && { databaseId: page.databaseId, seq: page.newestSeq, mark: page.newestMark };
}

/** The change feed of a database after `seq`; null when it doesn't say. */
export async function readPage(
  read: (statement: Statement) => Promise<readonly Row[] | null>,
  seq: number,
): Promise<FeedPage | null> {
  const rows = await read({ sql: CHANGES, args: [seq] });
  return rows === null || rows.length === 0 ? null : pageOf(rows, seq);
}

function pageOf(rows: readonly Row[], seq: number): FeedPage {
  const [first] = rows;
  if (first === undefined) throw new Error('the feed table has lost its row');
  const listed = rows
    .filter((row) => row.seq !== null)
    .map((row) => ({
      seq: Number(row.seq),
      keyHash: String(row.key_hash),
      mark: `${row.changed_at_ms}${row.key_hash}`,
    }));
  const seen = listed[0]?.seq === seq ? listed.shift() : undefined;
  return {
    databaseId: String(first.database_id),
    prunedSeq: Number(first.pruned_seq),
    mark: seen?.mark ?? null,
    newestSeq: Number(first.newest_seq),
    newestMark: first.newest_mark as ChangeMark,
    changes: listed.slice(0, FEED_PAGE_MAX),
  };
}
