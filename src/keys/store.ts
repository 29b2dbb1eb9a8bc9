// Declares what the key domain needs from the database: stores of keys and derived keys.
// src/store and doors implement the interfaces.

import type { FeedPage, ReachedPosition } from '../ground/change-feed.ts';
import type { ReadCounts } from '../uses/holders.ts';
import type { CountsAsOf, UsesStore } from '../uses/store.ts';
import type { Origin } from './actor.ts';
import type { ApiKeyRecord, ListedKey, PresentedKey } from './record.ts';

export interface NextSecret {
  readonly hash: string;
  /** How long the secret in force lasts after this one's first use. With 0, every other secret ends now. */
  readonly overlapMs: number;
  /** The key's new expiry, for both secrets; null: unchanged. */
  readonly expiresAtMs: number | null;
}

/** A key's position in its owner's list: newest first; of equal age, the one inserted later first. Never changes. */
export interface ListPlace {
  readonly createdAtMs: number;
  readonly row: number;
}

/** A key that was looked up, with where the change feed stood and with the counts, all of one statement. */
export interface Found extends ReadCounts {
  readonly record: PresentedKey | null;
}

/** Who asks a replica. */
export interface ReplicaReader {
  /** The position at which it may answer. */
  readonly at: ReachedPosition;
  /** Is called if the replica is ahead of that. */
  onAhead(): void;
}

export interface FindOptions {
  /** Asks a replica first; null: only the primary answers. */
  readonly reader: ReplicaReader | null;
  readonly withinMs: number;
  readonly fairnessKey?: string | undefined;
  readonly asOf: CountsAsOf;
}

export interface Changed {
  /** The fingerprint of the secret in force; null: only an earlier try of the statement can have made the change. */
  readonly fingerprint: string | null;
}

/**
 * Every function throws a StoreOutage when the database is out of reach. Every write is idempotent, even late. Every change
 * of a key is durable once it resolves, and adds an event with its origin in the same transaction. A remote database serves
 * each `fairnessKey` in turn. Reads with `withinMs` time out after it: a later response would be too old to count.
 */
export interface KeyStore extends KeyReads, KeyChanges, UsesStore {}

export interface ListedPage {
  readonly keys: readonly (ListedKey & ListPlace)[];
  /** The least bytes that the keys take as JSON. */
  readonly bytes: number;
  readonly hasMore: boolean;
}

export interface KeyReads {
  /** Returns keys after a position (null: from the first), as many as may begin within the bytes of JSON. */
  listByUser(
    userId: string,
    after: ListPlace | null,
    most: { readonly bytesMax: number; readonly keysMax: number },
  ): Promise<ListedPage>;
  /** Returns the owner's key (null: anybody's), from the primary, with the number of its last event; null: no such key. */
  findOwn(owner: string | null, keyId: string): Promise<(ListedKey & { readonly lastSeq: number }) | null>;
  /** Finds records by the hashes of their secrets, with one statement. */
  findByHashes(keyHashes: readonly string[], how: FindOptions): Promise<(keyHash: string) => Found>;
  /** Returns whether this owner is blocked, from the primary. */
  isBlocked(owner: string, withinMs: number): Promise<boolean>;
  /** Returns the change feed after a number, from the primary. */
  changesAfter(seq: number, withinMs: number): Promise<FeedPage>;
}

/** An edit of a key. Null means the server's limit or quota, no expiry, no metadata. */
export type KeyEdit = {
  readonly [F in 'name' | 'scopes' | 'expiresAtMs' | 'rateLimit' | 'quota' | 'metadata']?: ApiKeyRecord[F] | undefined;
};

export interface KeyChanges {
  /**
   * Adds the record unless its owner is at his own maximum, or else at this one; the inserting statement itself decides.
   */
  insert(record: ApiKeyRecord, keysMax: number, origin: Origin): Promise<'created' | 'limit_reached'>;
  /** Deactivates the owner's key. Null: no such key, or already inactive. */
  deactivate(userId: string, keyId: string, origin: Origin): Promise<Changed | null>;
  /** Deletes the owner's key. Null: no such key of this owner. */
  remove(userId: string, keyId: string, origin: Origin): Promise<Changed | null>;
  /**
   * Changes the given fields of the owner's key (null: anybody's), if `lastSeq` is given only while its last event has that
   * number. Null: no such key, a newer event, or no difference.
   */
  edit(owner: string | null, keyId: string, fields: KeyEdit, origin: Origin, lastSeq?: number): Promise<Changed | null>;
  /** Ends secrets: the one in force with its key, a next or previous one alone. Ignores unknown and ended ones. */
  revokeByHashes(keyHashes: readonly string[], nowMs: number, origin: Origin, fairnessKey: string): Promise<void>;
  /** Gives a key its next secret. False: the record has changed, or can't be rotated any more at `nowMs`. */
  rotate(record: ApiKeyRecord, next: NextSecret, nowMs: number, origin: Origin): Promise<boolean>;
  /** Puts a next secret in force; the overlap starts at `usedAtMs`. Null: it isn't the next one any more. */
  promote(key: PresentedKey, usedAtMs: number, origin: Origin): Promise<Changed | null>;
}

/** A derived key: another key, its parent, has made it, and it ends with the secret that made it (doors/children). */
export interface ChildRecord
  extends Pick<ApiKeyRecord, 'id' | 'userId' | 'name' | 'keyHash' | 'scopes' | 'createdAtMs' | 'resource'> {
  readonly parentId: string;
  /** The hash of the parent secret that made it. */
  readonly parentHash: string;
  /** Last millisecond of its own life. Its parent may end it earlier. */
  readonly expiresAtMs: number;
  /** When it was ended on its own; null: it wasn't. */
  readonly endedAtMs: number | null;
}

/** A living child in a list, with the scopes that its parent still has. */
export interface ListedChild extends ChildRecord, ListPlace {}

/** Names derived keys: by ids, by the hashes of their secrets, or by the fingerprint of one. */
export type ChildName =
  | { readonly id: string | readonly string[] }
  | { readonly keyHash: string | readonly string[] }
  | { readonly fingerprint: string };

/**
 * Derived keys, which are kept elsewhere, always on the primary. Each end adds an event under the parent's id. `owner`: only
 * that owner's; null: anybody's.
 */
export interface DerivedKeys {
  /** Lists the living children of a key after a position, newest first. */
  listChildren(
    parentId: string,
    owner: string | null,
    nowMs: number,
    after: ListPlace | null,
  ): Promise<readonly ListedChild[]>;
  /** Returns how many living children these keys have, by key id, without those that have none. */
  countChildren(
    parents: readonly Pick<ListedKey, 'id' | 'scopes' | 'rules'>[],
    nowMs: number,
  ): Promise<ReadonlyMap<string, number>>;
  /** Returns those of this name, ended or not. */
  findChildren(by: ChildName, owner: string | null): Promise<readonly ChildRecord[]>;
  /** Ends those that weren't ended on their own yet, and returns them. */
  endChildren(by: ChildName, owner: string | null, nowMs: number, origin: Origin): Promise<readonly ChildRecord[]>;
}
