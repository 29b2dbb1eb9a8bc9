// What queries select of a key, and what their rows say.

import type { FeedPosition } from '../ground/change-feed.ts';
import { memoize } from '../ground/memoize.ts';
import type { Quota } from '../ground/rate-limit.ts';
import type { ApiKeyRecord, ListedKey, PresentedKey, SecondSecret } from '../keys/record.ts';
import type { Found, KeyEvent } from '../keys/store.ts';
import { countsOf } from './counts.ts';
import { held, type Row } from './database.ts';

/** The row of the key that has a secret of this hash: two index searches, the second only if the first fails. */
export const rowBy = (hash: string) =>
  `coalesce((SELECT row FROM api_keys WHERE key_hash = ${hash}), (SELECT row FROM api_keys WHERE second_hash = ${hash}))`;

/** Whether a secret of the key `k` that has this hash is in force, next, or a previous one that has not run out. */
export const hasSecret = (hash: string, nowMs: string) =>
  `(k.key_hash = ${hash} OR k.second_hash = ${hash} AND (k.second_is = 'next' OR k.second_ends_at_ms >= ${nowMs}))`;

/** Of the owner of the key `k`. */
export const IS_BLOCKED = 'EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id) AS blocked';

// During a rolling upgrade servers of the first version still write api_keys.last_used_at_ms: the later value counts.
export const USED_AT = held(
  'max(coalesce(u.last_used_at_ms, k.last_used_at_ms), coalesce(k.last_used_at_ms, u.last_used_at_ms))',
);

const heldColumn = (column: string) => `${held(`k.${column}`)} AS ${column}`;

/** The columns of the key `k`. To sort by one, name it with its table: `ORDER BY k.created_at_ms` uses an index. */
export const KEY_COLUMNS = [
  'k.row, k.id, k.user_id, k.name, k.key_hash, k.scopes, k.active, k.second_hash, k.second_is',
  'k.limit_requests, k.limit_window_s, k.quota_requests, k.quota_period, k.resource',
  ...['created_at_ms', 'expires_at_ms', 'second_ends_at_ms', 'rotations'].map(heldColumn),
].join(', ');

// The tables in db/ are STRICT and have CHECKs, so the types of columns are known here.

/** One array for equal scopes, which many keys have: frozen, because tools of one's own see it. */
const scopesFrom = memoize((json: string): readonly string[] => Object.freeze(JSON.parse(json)));

export function recordOf(row: Row): ApiKeyRecord {
  return {
    id: String(row.id),
    userId: String(row.user_id),
    name: String(row.name),
    keyHash: String(row.key_hash),
    scopes: scopesFrom(String(row.scopes)),
    active: row.active === 1,
    createdAtMs: Number(row.created_at_ms),
    expiresAtMs: row.expires_at_ms as number | null,
    second: secondOf(row),
    rotations: Number(row.rotations),
    rateLimit:
      row.limit_requests === null
        ? null
        : { requests: Number(row.limit_requests), windowS: Number(row.limit_window_s) },
    quota:
      row.quota_requests === null
        ? null
        : { requests: Number(row.quota_requests), period: row.quota_period as Quota['period'] },
    resource: row.resource as string | null,
  };
}

function secondOf(row: Row): SecondSecret | null {
  if (row.second_hash === null) return null;
  const hash = String(row.second_hash);
  if (row.second_is === 'next') return { hash, is: 'next', endsAtMs: null };
  return { hash, is: 'previous', endsAtMs: Number(row.second_ends_at_ms) };
}

export function presentedOf(row: Row): PresentedKey {
  const record = recordOf(row);
  const presented = record.second?.hash === row.presented_hash ? record.second : null;
  return {
    ...record,
    blocked: row.blocked === 1,
    presented: presented?.is ?? 'in_force',
    secretEndsAtMs: presented?.endsAtMs ?? null,
  };
}

export const eventOf = (row: Row): KeyEvent => ({
  seq: Number(row.seq),
  atMs: Number(row.at_ms),
  keyId: row.key_id as string | null,
  owner: row.owner === '' ? null : String(row.owner),
  kind: row.kind as KeyEvent['kind'],
  how: row.how as KeyEvent['how'],
  actor: row.actor as string | null,
  requestId: row.request_id as string | null,
  address: row.address as string | null,
  fingerprint: row.fingerprint as string | null,
  secret: row.secret as KeyEvent['secret'],
  backupSeq: row.backup_seq as number | null,
  fields: row.fields === null ? null : JSON.parse(String(row.fields)),
});

export const listedOf = (row: Row): ListedKey => ({
  ...recordOf(row),
  lastUsedAtMs: row.used_at_ms as number | null,
});

export const isRecord = (row: Row) => row.id !== null;

export function foundOf([row]: readonly Row[]): Found {
  if (row === undefined) throw new Error('the feed table has lost its row');
  const position = positionOf(row);
  return isRecord(row)
    ? { record: presentedOf(row), position, counts: countsOf(row) }
    : { record: null, position, counts: null };
}

const positionFrom = memoize((text: string): FeedPosition => {
  const space = text.indexOf(' ');
  return { databaseId: text.slice(space + 1), seq: Number(text.slice(0, space)) };
});

/** One object for equal positions, however many records were read at one. */
const positionOf = (row: Row): FeedPosition => positionFrom(`${row.newest_seq} ${row.database_id}`);
