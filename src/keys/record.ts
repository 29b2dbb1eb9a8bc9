// The API key record and the store it lives in, as the domain needs them. src/store implements the interface.

import type { Awaitable, Result } from '../lib/result.ts';
import type { KeyRefusal, StoreUnavailable } from '../problem.ts';

export interface ApiKeyRecord {
  /** 32 lowercase hex characters. */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** SHA-256 of the key, 64 lowercase hex characters. Never leaves the server. */
  readonly keyHash: string;
  readonly scopes: readonly string[];
  readonly active: boolean;
  readonly createdAtMs: number;
  /** Null: never. */
  readonly expiresAtMs: number | null;
}

export interface ListedKey extends ApiKeyRecord {
  /** Null: never used. */
  readonly lastUsedAtMs: number | null;
}

/**
 * A point in the change feed of one database. A reader at a position has seen every change up to and including `seq`.
 */
export interface FeedPosition {
  /** Made once, with the database; a different one means the database was replaced. */
  readonly databaseId: string;
  readonly seq: number;
}

/**
 * Tells the change that has a seq from any other that might have it: one made anew after the database was put back.
 * Null: there is no such change, or it was pruned.
 */
export type ChangeMark = string | null;

/** A position, and the change that it was reached with. */
export interface ReachedPosition extends FeedPosition {
  readonly mark: ChangeMark;
}

/** What one poll of the change feed brought. */
export interface FeedPage {
  readonly databaseId: string;
  /** Changes up to and including this seq are no longer listed. */
  readonly prunedSeq: number;
  /** The change with the seq asked for. */
  readonly mark: ChangeMark;
  /** The newest seq there is. */
  readonly newestSeq: number;
  readonly newestMark: ChangeMark;
  /** Changes after the seq asked for, oldest first, at most `FEED_PAGE_MAX`. */
  readonly changes: readonly { readonly seq: number; readonly keyHash: string; readonly mark: ChangeMark }[];
}

/**
 * True when the page, asked for at `reached`, shows that the last change seen is gone although nobody pruned it: the
 * database was replaced, or put back to an earlier state. Other changes may have come since, so its numbers prove
 * nothing.
 */
export const isLost = (reached: ReachedPosition, { databaseId, prunedSeq, mark }: FeedPage): boolean =>
  databaseId !== reached.databaseId || (prunedSeq < reached.seq && (mark === null || mark !== reached.mark));

/** Changes fetched by one poll; a full page is followed by another poll at once. */
export const FEED_PAGE_MAX = 500;

export interface Found {
  readonly record: ApiKeyRecord | null;
  /** Where the change feed stood when the record was read, in the same statement. */
  readonly position: FeedPosition;
}

export type StoreResult<T> = Promise<Result<T, StoreUnavailable>>;

/** Every write is harmless when repeated, and durable once it resolves, but for `recordUse`, which a power cut may undo. */
export interface KeyStore {
  /** Adds the record unless its owner already has `keysPerUserMax`, which the inserting statement itself decides. */
  insert(record: ApiKeyRecord, keysPerUserMax: number): StoreResult<'created' | 'limit_reached'>;
  /**
   * Newest first; of equal age, the one inserted later first. If they are more than a page, it asks `goOn` before it
   * reads them all; null if that said no.
   */
  listByUser(userId: string, goOn: () => Promise<boolean>): StoreResult<ListedKey[] | null>;
  /** Sets active = false on the owner's key. False: no such key, or inactive already. */
  deactivate(userId: string, keyId: string): StoreResult<boolean>;
  /** False: no such key of this owner. */
  remove(userId: string, keyId: string): StoreResult<boolean>;
  /** Changes the given fields. False: no such key of this owner. */
  update(userId: string, keyId: string, fields: { name?: string; scopes?: readonly string[] }): StoreResult<boolean>;
  /**
   * The record with this hash, from the primary where a replica has not reached `atLeast`. Gives up after `withinMs`,
   * because a later answer would be too old to count.
   */
  findByHash(keyHash: string, atLeast: FeedPosition, withinMs: number): Awaitable<Result<Found, StoreUnavailable>>;
  /** What the primary has for each of these hashes, read with one statement. Gives up after `withinMs`. */
  findByHashes(keyHashes: readonly string[], withinMs: number): StoreResult<(keyHash: string) => Found>;
  /** The change feed after a position, from the primary. Gives up after `withinMs`. */
  changesAfter(reached: ReachedPosition, withinMs: number): StoreResult<FeedPage>;
  /** Raises lastUsedAt of each key to the given time, never lowers it. At most `usesPerWrite` of them. */
  recordUse(uses: readonly (readonly [keyId: string, usedAtMs: number])[]): StoreResult<void>;
  /** The most uses that one write can take without holding up anything else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}

/** Null when usable. A key is usable up to and including the millisecond of `expiresAtMs`. */
export function refusalAt(record: ApiKeyRecord, nowMs: number): KeyRefusal | null {
  if (!record.active) return 'revoked';
  if (record.expiresAtMs !== null && record.expiresAtMs < nowMs) return 'expired';
  return null;
}
