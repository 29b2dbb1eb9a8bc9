// Maps rows to what they are about: the fields of a key's record, in one table that says how each is read and written; what
// queries need of a key besides. Other columns of a row are only for the database (db/0001_schema.sql).

import { memoize } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import type { Metadata } from '../ground/metadata.ts';
import { limitOf, type Quota } from '../ground/rate-limit.ts';
import { scopeSet } from '../ground/text.ts';
import type { ApiKeyRecord, ListedKey, PresentedKey } from '../keys/record.ts';
import { COUNTED_USE } from './counts.ts';
import { listIn, type Row, textIn, type Value, wholeIn } from './database.ts';
import { ownerSettingsOf } from './owner-settings.ts';

/**
 * `free`: text of any length, which counts in the bytes of a list. The tables in db/ are STRICT and have CHECKs, so column
 * types are known, and JavaScript represents all numbers exactly.
 */
type Kind = 'plain' | 'free';

interface Field<T> {
  readonly columns: Readonly<Record<string, Kind>>;
  read(row: Row): T;
  write(value: T): readonly Value[];
}

const text = (column: string, kind: Kind = 'plain'): Field<string> => ({
  columns: { [column]: kind },
  read: (row) => textIn(row, column),
  write: (value) => [value],
});

const textOrNull = (column: string, kind: Kind = 'plain'): Field<string | null> => ({
  columns: { [column]: kind },
  read: (row) => row[column] as string | null,
  write: (value) => [value],
});

const whole = (column: string): Field<number> => ({
  columns: { [column]: 'plain' },
  read: (row) => wholeIn(row, column),
  write: (value) => [value],
});

/** Returns one shared array for equal scopes, which many keys have. Frozen, because an operator's tools see it. */
export const scopesFrom = memoize((json: string): readonly string[] => Object.freeze(listIn(json)));

/** Returns the text that stores scopes, each once. */
const scopesJson = (scopes: readonly string[]): string => JSON.stringify(scopeSet(scopes));

/** Returns the expression by which values of a column are compared: scopes as a set. */
export const compared = (column: string, value = column): string =>
  column === 'scopes'
    ? `(SELECT json_group_array(value) FROM (SELECT DISTINCT value FROM json_each(${value}) ORDER BY 1))`
    : value;

/** Returns one shared object for equal metadata, which many keys have. Frozen like scopes. */
const metadataFrom = memoize((json: string): Metadata => Object.freeze(JSON.parse(json)));

const FIELDS: { readonly [F in keyof ApiKeyRecord]: Field<ApiKeyRecord[F]> } = {
  id: text('id'),
  userId: text('user_id'),
  name: text('name', 'free'),
  keyHash: text('key_hash'),
  scopes: {
    columns: { scopes: 'free' },
    read: (row) => scopesFrom(String(row.scopes)),
    write: (scopes) => [scopesJson(scopes)],
  },
  active: {
    columns: { active: 'plain' },
    read: (row) => wholeIn(row, 'active') === 1,
    write: (active) => [Number(active)],
  },
  createdAtMs: whole('created_at_ms'),
  expiresAtMs: {
    columns: { expires_at_ms: 'plain' },
    read: (row) => (row.expires_at_ms === null ? null : wholeIn(row, 'expires_at_ms')),
    write: (expiresAtMs) => [expiresAtMs],
  },
  second: {
    columns: { second_hash: 'plain', second_is: 'plain', second_ends_at_ms: 'plain' },
    read({ second_hash: hash, second_is: is, second_ends_at_ms: endsAtMs }) {
      if (hash === null) return null;
      if (is === 'next') return { hash: String(hash), is: 'next', endsAtMs: null };
      return { hash: String(hash), is: 'previous', endsAtMs: Number(endsAtMs) };
    },
    write: (second) => [second?.hash ?? null, second?.is ?? null, second?.endsAtMs ?? null],
  },
  rotations: whole('rotations'),
  rateLimit: {
    columns: { limit_requests: 'plain', limit_window_s: 'plain' },
    read: ({ limit_requests: requests, limit_window_s: windowS }) =>
      requests === null ? null : limitOf(Number(requests), Number(windowS)),
    write: (limit) => [limit?.requests ?? null, limit?.windowS ?? null],
  },
  quota: {
    columns: { quota_requests: 'plain', quota_period: 'plain' },
    read: ({ quota_requests: requests, quota_period: period }) =>
      requests === null ? null : { requests: Number(requests), period: period as Quota['period'] },
    write: (quota) => [quota?.requests ?? null, quota?.period ?? null],
  },
  metadata: {
    columns: { metadata: 'plain' },
    read: ({ metadata }) => (metadata === null ? null : metadataFrom(String(metadata))),
    write: (metadata) => [metadata && JSON.stringify(metadata)],
  },
  foreignHash: textOrNull('foreign_hash'),
  resource: textOrNull('resource', 'free'),
};

const ENTRIES = Object.entries(FIELDS) as [keyof ApiKeyRecord, Field<unknown>][];
const KINDS = ENTRIES.flatMap(([, { columns }]) => Object.entries(columns));

export const COLUMNS: readonly string[] = KINDS.map(([name]) => name);

/** The columns of key `k`. To sort by one, qualify it: `ORDER BY k.created_at_ms` uses an index. */
export const KEY_COLUMNS = ['row', ...COLUMNS].map((name) => `k.${name}`).join(', ');

/** The expression for the bytes that the text of key `k` takes in a list. */
export const TEXT_BYTES = KINDS.filter(([, kind]) => kind === 'free')
  .map(([name]) => `coalesce(octet_length(k.${name}), 0)`)
  .join(' + ');

/** Returns a row's record. Written out, because one built field by field takes 64 bytes more per cached key. */
const recordOf = (row: Row): ApiKeyRecord => ({
  id: FIELDS.id.read(row),
  userId: FIELDS.userId.read(row),
  name: FIELDS.name.read(row),
  keyHash: FIELDS.keyHash.read(row),
  scopes: FIELDS.scopes.read(row),
  active: FIELDS.active.read(row),
  createdAtMs: FIELDS.createdAtMs.read(row),
  expiresAtMs: FIELDS.expiresAtMs.read(row),
  second: FIELDS.second.read(row),
  rotations: FIELDS.rotations.read(row),
  rateLimit: FIELDS.rateLimit.read(row),
  quota: FIELDS.quota.read(row),
  resource: FIELDS.resource.read(row),
  metadata: FIELDS.metadata.read(row),
  foreignHash: FIELDS.foreignHash.read(row),
});

/** Returns the columns of the given fields, and their values. */
export function columnsOf(fields: { readonly [F in keyof ApiKeyRecord]?: ApiKeyRecord[F] | undefined }) {
  const given = ENTRIES.filter(([name]) => fields[name] !== undefined);
  return {
    names: given.flatMap(([, { columns }]) => Object.keys(columns)),
    values: given.flatMap(([name, { write }]) => write(fields[name])),
  };
}

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
    owner: ownerSettingsOf(row),
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
