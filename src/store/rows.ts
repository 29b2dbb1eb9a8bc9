// Maps rows to what they are about: how the fields of a key's record are read and stored, and what queries need of a key
// besides. Other columns of a row are only for the database (db/0001_schema.sql).

import { memoize } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import { type Metadata, storedMetadata } from '../ground/metadata.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import { scopeSet } from '../ground/text.ts';
import { type ApiKeyRecord, type ListedKey, NEW_KEY, type PresentedKey } from '../keys/record.ts';
import { COUNTED_USE } from './counts.ts';
import { listIn, type Row, textIn, type Value, wholeIn } from './database.ts';
import { ownerSettingsOf } from './owner-settings.ts';

/**
 * Returns one shared array for equal scopes, which many keys have. Frozen, because an operator's tools see it. Texts, whatever
 * was typed into the database.
 */
export const scopesFrom = memoize((json: string): readonly string[] => Object.freeze(listIn(json).map(String)));

/** Returns the text that stores scopes, each once. */
const scopesJson = (scopes: readonly string[]): string => JSON.stringify(scopeSet(scopes));

/** Returns the expression by which values of a column are compared: scopes as a set. */
export const compared = (column: string, value = column): string =>
  column === 'scopes'
    ? `(SELECT json_group_array(value) FROM (SELECT DISTINCT value FROM json_each(${value}) ORDER BY 1))`
    : value;

/** Returns one shared object for equal metadata, which many keys have. Frozen like scopes. */
const metadataFrom = memoize((json: string): Metadata | null => storedMetadata(JSON.parse(json)));

// The tables in db/ are STRICT and have CHECKs, so column types are known, and JavaScript represents all numbers exactly.

/** Returns a row's record. One literal, because one built field by field takes 64 bytes more per cached key. */
const recordOf = (row: Row): ApiKeyRecord => ({
  id: textIn(row, 'id'),
  userId: textIn(row, 'user_id'),
  name: textIn(row, 'name'),
  keyHash: textIn(row, 'key_hash'),
  scopes: scopesFrom(String(row.scopes)),
  active: wholeIn(row, 'active') === 1,
  createdAtMs: wholeIn(row, 'created_at_ms'),
  expiresAtMs: row.expires_at_ms === null ? null : wholeIn(row, 'expires_at_ms'),
  second: secondOf(row),
  rotations: wholeIn(row, 'rotations'),
  rateLimit: row.limit_requests === null ? null : limitOf(Number(row.limit_requests), Number(row.limit_window_s)),
  quota: quotaOf(row),
  resource: row.resource as string | null,
  metadata: row.metadata === null ? null : metadataFrom(String(row.metadata)),
  foreignHash: row.foreign_hash as string | null,
});

function secondOf({ second_hash: hash, second_is: is, second_ends_at_ms: endsAtMs }: Row): ApiKeyRecord['second'] {
  if (hash === null) return null;
  if (is === 'next') return { hash: String(hash), is: 'next', endsAtMs: null };
  return { hash: String(hash), is: 'previous', endsAtMs: Number(endsAtMs) };
}

const quotaOf = ({ quota_requests: requests, quota_period: period }: Row): Quota | null =>
  requests === null ? null : { requests: Number(requests), period: period as Quota['period'] };

/** Returns the columns that store each field. */
const STORED: { readonly [F in keyof ApiKeyRecord]: (value: ApiKeyRecord[F]) => Readonly<Record<string, Value>> } = {
  id: (id) => ({ id }),
  userId: (id) => ({ user_id: id }),
  name: (name) => ({ name }),
  keyHash: (hash) => ({ key_hash: hash }),
  scopes: (scopes) => ({ scopes: scopesJson(scopes) }),
  active: (active) => ({ active: Number(active) }),
  createdAtMs: (ms) => ({ created_at_ms: ms }),
  expiresAtMs: (ms) => ({ expires_at_ms: ms }),
  second: (second) => ({
    second_hash: second?.hash ?? null,
    second_is: second?.is ?? null,
    second_ends_at_ms: second?.endsAtMs ?? null,
  }),
  rotations: (rotations) => ({ rotations }),
  rateLimit: (limit) => ({ limit_requests: limit?.requests ?? null, limit_window_s: limit?.windowS ?? null }),
  quota: (quota) => ({ quota_requests: quota?.requests ?? null, quota_period: quota?.period ?? null }),
  metadata: (metadata) => ({ metadata: metadata && JSON.stringify(metadata) }),
  foreignHash: (hash) => ({ foreign_hash: hash }),
  resource: (resource) => ({ resource }),
};

const STORES = Object.entries(STORED) as [keyof ApiKeyRecord, (value: unknown) => Readonly<Record<string, Value>>][];

/** Returns the columns of the given fields, and their values. */
export function columnsOf(fields: { readonly [F in keyof ApiKeyRecord]?: ApiKeyRecord[F] | undefined }) {
  const columns: Record<string, Value> = {};
  for (const [name, store] of STORES) if (fields[name] !== undefined) Object.assign(columns, store(fields[name]));
  return { names: Object.keys(columns), values: Object.values(columns) };
}

/** A record with all fields, for the names of their columns. */
const WHOLE_RECORD: ApiKeyRecord = {
  ...NEW_KEY,
  id: '',
  userId: '',
  name: '',
  keyHash: '',
  scopes: [],
  createdAtMs: 0,
  expiresAtMs: null,
};

export const COLUMNS: readonly string[] = columnsOf(WHOLE_RECORD).names;

/** Selects columns of a table. JSON is written anew: constraints let in a shell's JSON5, which no parser here reads. */
export const selected = (table: string, columns: readonly string[]): string =>
  columns
    .map((name) => (JSON_COLUMNS.includes(name) ? `json(${table}.${name}) AS ${name}` : `${table}.${name}`))
    .join(', ');

const JSON_COLUMNS = ['scopes', 'metadata', 'audiences', 'claims'];

/** The columns of key `k`. To sort by one, qualify it: `ORDER BY k.created_at_ms` uses an index. */
export const KEY_COLUMNS = selected('k', ['row', ...COLUMNS]);

/** The expression for the bytes that the text of key `k` takes in a list, where it may have any length. */
export const TEXT_BYTES = ['name', 'scopes', 'resource']
  .map((name) => `coalesce(octet_length(k.${name}), 0)`)
  .join(' + ');

// What queries need of a key besides its columns.

/** Selects the row of the key with a secret or a rule of this hash: index searches, each only if those before fail. */
export const rowBy = (hash: string) =>
  `coalesce((SELECT row FROM api_keys WHERE key_hash = ${hash}), (SELECT row FROM api_keys WHERE second_hash = ${hash}),
(SELECT row FROM api_keys WHERE id = (SELECT key_id FROM rules WHERE hash = ${hash})))`;

/** Returns the condition that this hash is key `k`'s secret in force, its next, or a previous one that hasn't run out. */
export const hasSecret = (hash: string, nowMs: string) =>
  `(k.key_hash = ${hash} OR k.second_hash = ${hash} AND (k.second_is = 'next' OR k.second_ends_at_ms >= ${nowMs}))`;

/** Selects whether the owner of key `k` is blocked. */
export const IS_BLOCKED = 'EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id) AS blocked';

/** The last use of key `k`. Its own column has it once the counts of that day are gone. */
export const USED_AT = `nullif(max(coalesce(k.last_used_at_ms, 0), coalesce(${COUNTED_USE}, 0)), 0)`;

/** The columns of a listed key `k`, with how many rules it has. */
export const LISTED_COLUMNS = `${KEY_COLUMNS}, ${USED_AT} AS used_at_ms,
(SELECT count(*) FROM rules WHERE key_id = k.id) AS rules`;

/** Returns a row's key. Extends the record, because copies would fragment the heap. */
export function presentedOf(row: Row): PresentedKey {
  const record = recordOf(row);
  const presented = record.second?.hash === row.presented_hash ? record.second : null;
  return Object.assign(record, {
    barred: wholeIn(row, 'blocked') === 1 ? ('blocked' as const) : null,
    parent: null,
    ownerSettings: ownerSettingsOf(row),
    presentedHash: presented?.hash ?? record.keyHash,
    presented: presented?.is ?? ('in_force' as const),
    secretEndsAtMs: presented?.endsAtMs ?? null,
  });
}

export const listedOf = (row: Row): ListedKey => ({
  ...recordOf(row),
  lastUsedAtMs: row.used_at_ms as number | null,
  rules: wholeIn(row, 'rules'),
});

const positionFrom = memoize((text: string): FeedPosition => {
  const space = text.indexOf(' ');
  return { databaseId: text.slice(space + 1), seq: Number(text.slice(0, space)) };
});

/** Returns a row's position: one shared object for equal ones, because many records may be read at one. */
export const positionOf = (row: Row): FeedPosition =>
  positionFrom(`${wholeIn(row, 'newest_seq')} ${textIn(row, 'database_id')}`);
