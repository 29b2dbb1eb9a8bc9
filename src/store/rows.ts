// Selects what queries need of a key besides its columns, and parses rows of keys and events.

import { memoize } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import type { ListedKey, PresentedKey } from '../keys/record.ts';
import type { KeyEvent } from '../keys/store.ts';
import { recordOf } from './columns.ts';
import { COUNTED_USE } from './counts.ts';
import { listIn, type Row, textIn, wholeIn } from './database.ts';
import { ownerSettingsOf } from './owner-settings.ts';

/** Selects the row of the key with a secret or a rule of this hash: index searches, each only if those before fail. */
export const rowBy = (hash: string) =>
  `coalesce((SELECT row FROM api_keys WHERE key_hash = ${hash}), (SELECT row FROM api_keys WHERE second_hash = ${hash}),
(SELECT row FROM api_keys WHERE id = (SELECT key_id FROM rules WHERE hash = ${hash})))`;

/** Returns the condition that this hash is that of a rule of key `k`. */
export const hasRule = (hash: string) => `EXISTS (SELECT 1 FROM rules WHERE hash = ${hash} AND key_id = k.id)`;

/** Returns the condition that this hash is key `k`'s secret in force, its next, or a previous one that hasn't run out. */
export const hasSecret = (hash: string, nowMs: string) =>
  `(k.key_hash = ${hash} OR k.second_hash = ${hash} AND (k.second_is = 'next' OR k.second_ends_at_ms >= ${nowMs}))`;

/** Selects whether the owner of key `k` is blocked. */
export const IS_BLOCKED = 'EXISTS (SELECT 1 FROM blocked_owners WHERE owner = k.user_id) AS blocked';

/** The last use of key `k`. Its own column has it once the counts of that day are gone. */
export const USED_AT = `nullif(max(coalesce(k.last_used_at_ms, 0), coalesce(${COUNTED_USE}, 0)), 0)`;

/** How many rules key `k` has. */
export const RULES_OF = '(SELECT count(*) FROM rules WHERE key_id = k.id)';

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

export const eventOf = (row: Row): KeyEvent => ({
  seq: wholeIn(row, 'seq'),
  atMs: wholeIn(row, 'at_ms'),
  keyId: row.key_id as string | null,
  owner: row.owner === '' ? null : String(row.owner),
  kind: row.kind as KeyEvent['kind'],
  how: row.how as KeyEvent['how'],
  actor: row.actor as string | null,
  requestId: row.request_id as string | null,
  address: row.address as string | null,
  byAdmin: row.by_admin === 1,
  fingerprint: row.fingerprint as string | null,
  secret: row.secret as KeyEvent['secret'],
  backupSeq: row.backup_seq as number | null,
  client: row.client as string | null,
  workload: row.workload === null ? null : JSON.parse(textIn(row, 'workload')), // triggers write it
  fields: row.fields === null ? null : listIn(row.fields),
});

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
