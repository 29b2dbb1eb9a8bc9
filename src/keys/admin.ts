// What an operator does with anybody's keys: finds, revokes and imports them, blocks owners. The command `keys` and the
// admin tools go through here. Everything that may touch many keys goes a batch at a time, so that nobody waits for it.

import { ok, type Result } from '../lib/result.ts';
import type { StoreUnavailable } from '../problem.ts';
import type { Origin } from './origin.ts';
import type { ApiKeyRecord, ListedKey, StoreResult } from './record.ts';

/** Which keys; those that fit all that is given. */
export interface KeyFilter {
  readonly owner?: string | undefined;
  readonly ids?: readonly string[] | undefined;
  readonly scope?: string | undefined;
  readonly createdFromMs?: number | undefined;
  /** Usable keys that have been neither made nor used since. */
  readonly unusedSinceMs?: number | undefined;
  /** Usable keys that expire by then. */
  readonly expiresByMs?: number | undefined;
}

/** A key with its place in the order of creation. */
export interface PlacedKey extends ListedKey {
  readonly row: number;
}

/** How a key is named by somebody who looks for it. */
export type KeyName = { readonly id: string } | { readonly fingerprint: string } | { readonly keyHash: string }; // of any of its secrets

export interface BlockedOwner {
  readonly owner: string;
  readonly blockedAtMs: number;
}

export interface AdminStore {
  /** The newest keys that were made before the one in row `before`, newest first. */
  page(filter: KeyFilter, nowMs: number, before: number, limit: number): StoreResult<readonly PlacedKey[]>;
  find(name: KeyName): StoreResult<readonly ListedKey[]>;
  /** How many active keys fit. */
  countActive(filter: KeyFilter, nowMs: number): StoreResult<number>;
  /** Revokes the first active keys after row `after` that fit, and says how far it came; null: there were none. */
  revokeNext(filter: KeyFilter, nowMs: number, after: number, origin: Origin): StoreResult<RevokedBatch | null>;
  /** Adds those whose hashes and ids are not there, each unless its owner has `keysPerUserMax`. Returns how many it added. */
  importBatch(records: readonly ApiKeyRecord[], keysPerUserMax: number, origin: Origin): StoreResult<ImportedBatch>;
  /** False: the owner was blocked already. */
  block(owner: string, origin: Origin): StoreResult<boolean>;
  /** False: the owner was not blocked. */
  unblock(owner: string, origin: Origin): StoreResult<boolean>;
  /** The clock of the database. */
  nowMs(): StoreResult<number>;
  blockedOwners(): StoreResult<readonly BlockedOwner[]>;
}

export interface RevokedBatch {
  readonly count: number;
  readonly lastRow: number;
}

export interface ImportedBatch {
  readonly added: number;
  /** Those that were there already. */
  readonly known: number;
}

/** Before all keys, and after all of them, as rows. */
const FIRST_ROW = 0;
export const LAST_ROW = Number.MAX_SAFE_INTEGER;

/** Revokes every active key that fits, a batch at a time. Reports how many there were so far. */
export async function revokeAll(
  store: AdminStore,
  filter: KeyFilter,
  nowMs: number,
  origin: Origin,
  onProgress: (revoked: number) => void = () => {},
): Promise<Result<number, StoreUnavailable>> {
  let revoked = 0;
  for (let after = FIRST_ROW; ; ) {
    const batch = await store.revokeNext(filter, nowMs, after, origin);
    if (!batch.ok) return batch;
    if (batch.value === null) return ok(revoked);
    revoked += batch.value.count;
    after = batch.value.lastRow;
    onProgress(revoked);
  }
}
