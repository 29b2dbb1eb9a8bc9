// Implements the reads of the key store: of records possibly from a replica, of everything else from the primary.

import { type ChangeMark, FEED_PAGE_MAX, type FeedPage, hasReached } from '../ground/change-feed.ts';
import type { ListedKey, PresentedKey } from '../keys/record.ts';
import type { Found, KeyReads, ListPlace, ReplicaReader } from '../keys/store.ts';
import type { CountsAsOf, KeyCounts } from '../uses/store.ts';
import { COUNTS, countArgs, countsOf, OWNER_COUNTS } from './counts.ts';
import { type Database, firstOf, type Row, type Statement, textIn, type Value, wholeIn } from './database.ts';
import { LAST_CHANGE } from './key-changes.ts';
import { OWNER_SETTINGS } from './owner-settings.ts';
import type { Replica } from './remote/open.ts';
import {
  IS_BLOCKED,
  KEY_COLUMNS,
  LISTED_COLUMNS,
  listedOf,
  positionOf,
  presentedOf,
  rowBy,
  TEXT_BYTES,
} from './rows.ts';

/** The number of the newest change; needs `feed f`. */
const NEWEST_SEQ = 'max(f.pruned_seq, coalesce((SELECT max(seq) FROM changes), 0))';

/** How the statement that finds keys also finds what stands for one, which a table of a door has. */
export interface KeyLookup {
  /** Joins the row with this hash, if there is one. */
  join(hash: string): string;
  /** Selects the hash of its key's secret, for which the lookups after this one are asked; by default the row's own. */
  readonly keyHash?: string;
  /** The columns from which `read` reads the row. */
  readonly columns: string;
  /** Returns the key as the row gives it, if there is one. `key`: the one found by the hash; null: none. */
  read(row: Row, key: PresentedKey | null): PresentedKey | null;
}

/** Finds keys by the hashes of their secrets, and by lookups. */
function findOf(lookups: readonly KeyLookup[]): string {
  let secret = 'h.value';
  const joins = lookups.map(({ join, keyHash }) => {
    const joined = join(secret);
    if (keyHash !== undefined) secret = `coalesce(${keyHash}, ${secret})`;
    return joined;
  });
  const more = lookups.map(({ columns }) => `${columns}, `).join('');
  return `SELECT f.database_id, ${NEWEST_SEQ} AS newest_seq, ${secret} AS presented_hash, ${more}${IS_BLOCKED},
${KEY_COLUMNS}, ${COUNTS}, ${OWNER_SETTINGS}, ${OWNER_COUNTS} FROM feed f LEFT JOIN json_each(?1) h
${joins.join(' ')} LEFT JOIN api_keys k ON k.row = ${rowBy(secret)} LEFT JOIN owners o ON o.owner = k.user_id`;
}

const FIND_OWN = `SELECT ${LISTED_COLUMNS}, ${LAST_CHANGE.key} AS last_seq FROM api_keys k
WHERE id = ?1 AND (?2 IS NULL OR user_id = ?2)`;

/** The least bytes of a listed key as JSON, without its text. */
const LISTED_KEY_BYTES_MIN = 136;

const AFTER = 'k.user_id = ?1 AND (k.created_at_ms, k.row) < (?2, ?3)';
const NEWEST_FIRST = 'ORDER BY k.created_at_ms DESC, k.row DESC';

const LISTED_BYTES = `${TEXT_BYTES} + ${LISTED_KEY_BYTES_MIN} AS bytes`;

const NEWEST_BYTES = `SELECT ${LISTED_BYTES} FROM api_keys k
WHERE ${AFTER} ${NEWEST_FIRST} LIMIT min(?5, CAST(?4 / ${LISTED_KEY_BYTES_MIN} AS INTEGER) + 1)`;

// As many keys as begin within the bytes, and one more, if there is one. Only where not all fit a running sum counts them,
// which would take a third of a short list's time.
const LIST = `SELECT ${LISTED_COLUMNS}, ${LISTED_BYTES} FROM api_keys k
WHERE ${AFTER} ${NEWEST_FIRST} LIMIT 1 + iif((SELECT sum(bytes) FROM (${NEWEST_BYTES})) < ?4, ?5, (SELECT count(*) FROM (
SELECT sum(bytes) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM (${NEWEST_BYTES}))
WHERE before IS NULL OR before < ?4))`;

/** The position before the first row of a list: greater than any integer of a row, even beyond 2^53. */
export const BEFORE_ALL: ListPlace = { createdAtMs: Number.MAX_VALUE, row: Number.MAX_VALUE };

const BLOCKED = 'SELECT 1 FROM blocked_owners WHERE owner = ?';

/** Creates the function that finds keys by hashes. A replica has no counts. */
function createFind(
  primary: Database,
  replica: Replica | null,
  lookups: readonly KeyLookup[],
): KeyReads['findByHashes'] {
  const sql = findOf(lookups);

  /** Returns the rows by the requested hashes, all as of one position. */
  function foundIn(rows: readonly Row[], asOf: CountsAsOf, countsIn: (counts: Value | undefined) => KeyCounts | null) {
    const position = positionOf(firstOf(rows)); // there is a row even if no key was found
    const found = new Map<string, Found>();
    for (const row of rows) {
      const key = row.id === null ? null : presentedOf(row);
      const record = lookups.reduceRight((found, { read }) => read(row, found), key);
      if (record === null) continue;
      const counts = { counts: key && countsIn(row.counts), ownerCounts: key && countsIn(row.owner_counts), asOf };
      found.set(record.presentedHash, { record, position, ...counts });
    }
    return { position, found };
  }

  /** Reads from the replica; null: there is none, it is elsewhere than the reader, or does not respond. */
  async function readReplica(statement: Statement, asOf: CountsAsOf, reader: ReplicaReader | null) {
    if (replica === null || reader === null) return null;
    const rows = await replica.read(statement, reader);
    const read = rows && foundIn(rows, asOf, () => null);
    return read && hasReached(read.position, reader.at) ? read : null;
  }

  return async (keyHashes, { reader, withinMs, fairnessKey, asOf }) => {
    const ask = (hashes: readonly string[]): Statement => ({
      sql,
      args: [JSON.stringify(hashes), ...countArgs(asOf)],
      fairnessKey,
    });
    const copied = await readReplica(ask(keyHashes), asOf, reader);
    const missing = copied ? keyHashes.filter((hash) => !isWhole(copied.found.get(hash))) : keyHashes;
    const { position, found } =
      copied && missing.length === 0 ? copied : foundIn(await primary.read(ask(missing), withinMs), asOf, countsOf);
    return (keyHash) => {
      const fromReplica = copied?.found.get(keyHash);
      if (isWhole(fromReplica)) return fromReplica;
      return found.get(keyHash) ?? { record: null, position, counts: null, ownerCounts: null, asOf };
    };
  };
}

/** Returns whether all of it was found: a derived key may be in a replica before its parent. */
const isWhole = (found: Found | undefined): found is Found => found !== undefined && found.record?.parent?.key !== null;

export const keyReads = (primary: Database, replica: Replica | null, lookups: readonly KeyLookup[]): KeyReads => ({
  async listByUser(userId, after, { bytesMax, keysMax }) {
    const { createdAtMs, row } = after ?? BEFORE_ALL;
    const args = [userId, createdAtMs, row, bytesMax, keysMax];
    const rows = await primary.read({ sql: LIST, args, fairnessKey: userId });
    const keys: (ListedKey & ListPlace)[] = [];
    let bytes = 0;
    for (const listed of rows) {
      if (bytes >= bytesMax || keys.length === keysMax) break;
      keys.push({ ...listedOf(listed), row: Number(listed.row) });
      bytes += Number(listed.bytes);
    }
    return { keys, bytes, hasMore: keys.length < rows.length };
  },

  async findOwn(owner, keyId) {
    const [row] = await primary.read({ sql: FIND_OWN, args: [keyId, owner], fairnessKey: owner ?? undefined });
    return row === undefined ? null : { ...listedOf(row), lastSeq: wholeIn(row, 'last_seq') };
  },

  findByHashes: createFind(primary, replica, lookups),

  async isBlocked(owner, withinMs) {
    return (await primary.read({ sql: BLOCKED, args: [owner], fairnessKey: owner }, withinMs)).length > 0;
  },

  async changesAfter(seq, withinMs) {
    return pageOf(await primary.read({ sql: CHANGES, args: [seq], urgent: true }, withinMs), seq);
  },
});

// A page of the change feed.

/**
 * Reads after the seq ?1. The change with that seq is included, if it still exists, for its mark. A mark is a text already
 * here, because a time that was typed by hand (owners.changed_at_ms) may be beyond JavaScript's integers.
 */
export const CHANGES = `SELECT f.database_id, f.pruned_seq, max(f.pruned_seq, coalesce(n.seq, 0)) AS newest_seq,
n.changed_at_ms || n.key_hash AS newest_mark, c.seq, c.changed_at_ms || c.key_hash AS mark, c.key_hash,
EXISTS (SELECT 1 FROM api_keys WHERE foreign_hash IN (key_hash, second_hash)) AS holds_foreign,
EXISTS (SELECT 1 FROM rules) AS holds_rules
FROM feed f LEFT JOIN changes n ON n.seq = (SELECT max(seq) FROM changes) LEFT JOIN changes c ON c.seq >= ?1
WHERE f.one = 1 ORDER BY c.seq LIMIT 1 + ${FEED_PAGE_MAX}`;

export function pageOf(rows: readonly Row[], seq: number): FeedPage {
  const first = firstOf(rows);
  const listed = rows
    .filter((row) => row.seq !== null)
    .map((row) => ({ seq: wholeIn(row, 'seq'), changed: textIn(row, 'key_hash'), mark: textIn(row, 'mark') }));
  const seen = listed[0]?.seq === seq ? listed.shift() : undefined;
  return {
    databaseId: textIn(first, 'database_id'),
    prunedSeq: wholeIn(first, 'pruned_seq'),
    mark: seen?.mark ?? null,
    newestSeq: wholeIn(first, 'newest_seq'),
    newestMark: first.newest_mark as ChangeMark,
    holdsForeign: first.holds_foreign === 1,
    holdsRules: first.holds_rules === 1,
    changes: listed.slice(0, FEED_PAGE_MAX),
  };
}
