// The API key record and the store it lives in, as the domain needs them. src/store implements the interface.

import type { RateLimit } from '../lib/rate-limit.ts';
import type { Awaitable, Result } from '../lib/result.ts';
import type { Quota } from '../limits/key-limits.ts';
import type { KeyRefusal, StoreUnavailable } from '../problem.ts';
import type { Origin } from './actor.ts';
import type { EventQuery, KeyEvent } from './events.ts';

/** The second secret of a key that is being rotated. */
export type SecondSecret = {
  /** As `keyHash`. */
  readonly hash: string;
} & (
  | { readonly is: 'next'; readonly endsAtMs: null } // not used yet; its first use puts it in force
  | { readonly is: 'previous'; readonly endsAtMs: number } // accepted up to and including this millisecond
);

/** The new secret of a key, by its hash. */
export interface NextSecret {
  readonly hash: string;
  /** How long the secret in force goes on after the first use of this one; 0: it ends now, and any other too. */
  readonly overlapMs: number;
  /** Of the key, for both secrets; as it was unless given. */
  readonly expiresAtMs?: number | null;
}

export interface ApiKeyRecord {
  /** 32 lowercase hex characters. */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** SHA-256 of the key, of the secret in force, 64 lowercase hex characters. Never leaves the server whole. */
  readonly keyHash: string;
  readonly scopes: readonly string[];
  readonly active: boolean;
  readonly createdAtMs: number;
  /** Null: never. */
  readonly expiresAtMs: number | null;
  /** A previous one stays on record when it has ended. */
  readonly second: SecondSecret | null;
  /** Grows with each rotation. */
  readonly rotations: number;
  /** Its own; null: the server's. */
  readonly rateLimit: RateLimit | null;
  /** As `rateLimit`. */
  readonly quota: Quota | null;
}

/** A record as found by the hash of one of its secrets. */
export interface PresentedKey extends ApiKeyRecord {
  readonly presented: 'in_force' | SecondSecret['is'];
  /** Last millisecond at which the secret presented is accepted, if its rotation has set an end. */
  readonly secretEndsAtMs: number | null;
  /** An operator refuses all keys of the owner. */
  readonly blocked: boolean;
}

export interface ListedKey extends ApiKeyRecord {
  /** Null: never used. */
  readonly lastUsedAtMs: number | null;
}

/** Where a key stands among its owner's: newest first; of equal age, the one inserted later first. Never changes. */
export interface ListPlace {
  readonly createdAtMs: number;
  readonly row: number;
}

/** A part of an owner's list. */
export interface ListPage {
  readonly keys: readonly (ListedKey & ListPlace)[];
  /** How many there are from the first of these on. */
  readonly remaining: number;
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
 * True when the page, asked for at `reached`, shows that the last change seen is gone although it was not pruned: the
 * database was replaced, or put back to an earlier state. Other changes may have come since, so its numbers prove
 * nothing.
 */
export const isLost = (reached: ReachedPosition, { databaseId, prunedSeq, mark }: FeedPage): boolean =>
  databaseId !== reached.databaseId || (prunedSeq < reached.seq && (mark === null || mark !== reached.mark));

/** Changes fetched by one poll; a full page is followed by another poll at once. */
export const FEED_PAGE_MAX = 500;

export interface Found {
  readonly record: PresentedKey | null;
  /** Where the change feed stood when the record was read, in the same statement. */
  readonly position: FeedPosition;
  /** Null: there is no such key, or nobody asked for them. */
  readonly counts: KeyCounts | null;
}

/** For whom and when the uses of a key are read. */
export interface CountsAsOf {
  /** Whose counts are its own. */
  readonly instance: number;
  readonly nowMs: number;
  /** The window of keys that have no limit of their own; 0: none. */
  readonly windowS: number;
}

/** Uses by one process, and by all others together. */
export interface Shares {
  readonly own: number;
  readonly others: number;
}

/** The uses of a key, as of a time. */
export interface KeyCounts {
  /** In the window of the limit in force. */
  readonly window: Shares;
  readonly day: Shares;
  /** This month's, but for the day's. */
  readonly before: number;
}

/** The uses of a key by a process in a window, which only grow. */
export type Count = readonly [keyId: string, windowS: number, number: number, uses: number];

/** A window of a key; with the first day of the month, those of the days before are wanted too. */
export type CountedWindow = readonly [keyId: string, windowS: number, number: number, firstDay: number | null];

/** The uses of a key in a day: of all processes, and of the one that asks. */
export type DayUses = readonly [day: number, uses: number, own: number];

/** A change that was made. Its fingerprint is null if only an earlier try of the same statement can have made it. */
export interface Changed {
  /** Of the secret in force. */
  readonly fingerprint: string | null;
}

export type StoreResult<T> = Promise<Result<T, StoreUnavailable>>;

/**
 * Every write is harmless when repeated, also late (`update` may put back what it wrote), and durable once it resolves, but
 * for `recordUse`, which a power cut may undo. `whose`: whose turn it is at a database that is far away. Every change of a key leaves an event with its origin, in the same transaction.
 */
export interface KeyStore {
  /** Adds the record unless its owner already has `keysPerUserMax`, which the inserting statement itself decides. */
  insert(record: ApiKeyRecord, keysPerUserMax: number, origin: Origin): StoreResult<'created' | 'limit_reached'>;
  /**
   * The keys after a place (null: from the first on), one at least, and as many as may have `bytesMax` as JSON: no fewer,
   * perhaps some more.
   */
  listByUser(userId: string, after: ListPlace | null, bytesMax: number): StoreResult<ListPage>;
  /** Sets active = false on the owner's key. Null: no such key, or inactive already. */
  deactivate(userId: string, keyId: string, origin: Origin): StoreResult<Changed | null>;
  /** Null: no such key of this owner. */
  remove(userId: string, keyId: string, origin: Origin): StoreResult<Changed | null>;
  /** Changes the given fields. Null: no such key of this owner, or nothing to change. */
  update(
    userId: string,
    keyId: string,
    fields: { name?: string; scopes?: readonly string[] },
    origin: Origin,
  ): StoreResult<Changed | null>;
  /**
   * Ends secrets by their hashes: with the one in force, its key; a next or previous one alone. Those that are unknown, or
   * have ended by `nowMs`, are passed over.
   */
  revokeByHashes(keyHashes: readonly string[], nowMs: number, origin: Origin, whose?: string): StoreResult<void>;
  /** The owner's key, from the primary; null: no such key. */
  findOwn(userId: string, keyId: string): StoreResult<ApiKeyRecord | null>;
  /** Gives a key its next secret, and a new expiry if one is given. False: the record is no longer as given, or no longer fit for it at `nowMs`. */
  rotate(record: ApiKeyRecord, next: NextSecret, nowMs: number, origin: Origin): StoreResult<boolean>;
  /**
   * Puts a next secret in force; the one that was becomes the previous one, whose end counts from `usedAtMs`. Null:
   * another process has done so, or it is not the next secret any more.
   */
  promote(key: PresentedKey, usedAtMs: number, origin: Origin): StoreResult<Changed | null>;
  /**
   * The record with a secret of this hash, from the primary where a replica has not reached `atLeast`. Gives up after `withinMs`,
   * because a later response would be too old to count.
   */
  findByHash(
    keyHash: string,
    atLeast: FeedPosition,
    withinMs: number,
    whose?: string,
    asOf?: CountsAsOf,
  ): Awaitable<Result<Found, StoreUnavailable>>;
  /** What the primary has for each of these hashes, read with one statement. Gives up after `withinMs`. */
  findByHashes(
    keyHashes: readonly string[],
    withinMs: number,
    whose?: string,
    asOf?: CountsAsOf,
  ): StoreResult<(keyHash: string) => Found>;
  /** Whether an operator refuses this owner, from the primary. Gives up after `withinMs`. */
  isBlocked(owner: string, withinMs: number): StoreResult<boolean>;
  /** The change feed after a position, from the primary. Gives up after `withinMs`. */
  changesAfter(reached: ReachedPosition, withinMs: number): StoreResult<FeedPage>;
  /** Oldest first. */
  events(query: EventQuery): StoreResult<KeyEvent[]>;
  /** Raises lastUsedAt of each key to the given time, never lowers it. At most `usesPerWrite` of them. */
  recordUse(uses: readonly (readonly [keyId: string, usedAtMs: number])[]): StoreResult<void>;
  /** Raises the counts of a process to these, never lowers them. At most `usesPerWrite` keys. */
  recordCounts(instance: number, counts: readonly Count[]): StoreResult<void>;
  /** What is counted in each of these windows, in their order; null: the key is gone. `before` is 0 unless asked for. */
  countsOf(
    instance: number,
    windows: readonly CountedWindow[],
  ): StoreResult<readonly ((Shares & { readonly before: number }) | null)[]>;
  /** The days from `firstDay` on in which these keys were used, by key. */
  usesByDay(
    keyIds: readonly string[],
    firstDay: number,
    instance: number,
  ): StoreResult<ReadonlyMap<string, readonly DayUses[]>>;
  /** The most uses that one write can take without holding up anything else for more than a few milliseconds. */
  readonly usesPerWrite: number;
}

/** Null when usable. A key is usable up to and including the millisecond of `expiresAtMs`. */
export function refusalAt(key: PresentedKey, nowMs: number): KeyRefusal | null {
  if (!key.active) return 'revoked';
  if (key.blocked) return 'blocked';
  if (key.expiresAtMs !== null && key.expiresAtMs < nowMs) return 'expired';
  if (key.secretEndsAtMs !== null && key.secretEndsAtMs < nowMs) return 'rotated';
  return null;
}

const OWNER = 'owner:';

/** The owner whose block has changed, if that is what the change feed says; else null. */
export const ownerIn = (changed: string): string | null =>
  changed.startsWith(OWNER) ? changed.slice(OWNER.length) : null;

/** Hexadecimal digits of a hash by which a holder of the key can find its record. */
const FINGERPRINT_CHARS = 12;

/** 48 bits of the hash of a secret: they tell keys apart, and reveal nothing. */
export const fingerprintOf = (keyHash: string): string => keyHash.slice(0, FINGERPRINT_CHARS);
