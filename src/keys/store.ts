// What is stored of keys, as the domain needs it: records, the trail of their changes, and what is kept of keys that
// are handed to OAuth clients (signin/). src/store implements the interfaces.

import type { FeedPage, FeedPosition, ReachedPosition } from '../ground/change-feed.ts';
import type { CountsAsOf, KeyCounts, UsesStore } from '../uses/store.ts';
import type { Origin } from './actor.ts';
import type { ChildRecord } from './child.ts';
import type { ApiKeyRecord, ListedKey, PresentedKey } from './record.ts';

export interface NextSecret {
  readonly hash: string;
  /** How long the secret in force goes on after the first use of this one; 0: it ends now, and any other too. */
  readonly overlapMs: number;
  /** When the key expires, with both secrets; it stays unless given. */
  readonly expiresAtMs?: number | null;
}

/** Where a key stands among its owner's: newest first; of equal age, the one inserted later first. Never changes. */
export interface ListPlace {
  readonly createdAtMs: number;
  readonly row: number;
}

export interface ListPage {
  readonly keys: readonly (ListedKey & ListPlace)[];
  /** Keys of the owner from the first of these on. */
  readonly remaining: number;
}

export interface Found {
  /** The key; if the hash is a child's, its parent, found by the secret that made the child. */
  readonly record: PresentedKey | null;
  /** The child with this hash; null: there is none. */
  readonly child: ChildRecord | null;
  /** Where the change feed stood when the record was read, in the same statement. */
  readonly position: FeedPosition;
  /** What was counted for the key; null: no such key, or a replica doesn't know. All zero unless asked for. */
  readonly counts: KeyCounts | null;
  /** What was counted for all keys of the owner together; null: not counted, or a replica doesn't know. */
  readonly ownerCounts: KeyCounts | null;
}

export interface FindOptions {
  /** A replica that has reached it may say what it has. Null: the primary alone. */
  readonly atLeast: FeedPosition | null;
  readonly withinMs: number;
  readonly fairnessKey?: string | undefined;
  readonly asOf?: CountsAsOf | undefined;
}

export interface Changed {
  /** The fingerprint of the secret in force; null: only an earlier try of the statement can have made the change. */
  readonly fingerprint: string | null;
}

/** What owners change of a key by themselves. */
export interface OwnEdit {
  readonly name?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** One row of the trail of changes: what was done to which key, by whom, and how (db/README.md, key_events). */
export interface KeyEvent {
  readonly seq: number;
  readonly atMs: number;
  /** The key that the event is about; null: it is about an owner, or the whole database. */
  readonly keyId: string | null;
  /** The owner that the event is about; null: it is about the whole database. */
  readonly owner: string | null;
  readonly kind: EventKind;
  /** `sql`: by a database's shell, or by a server of a version before events. */
  readonly how: Origin['how'] | 'sql';
  /** The `sub` of a user token; of `connected`, the host that got the key; of `delegated`, the id of the child. */
  readonly actor: string | null;
  readonly requestId: string | null;
  readonly address: string | null;
  /** Whether an admin's tool did it; false in events of a version before. */
  readonly byAdmin: boolean;
  /** The fingerprint of the secret that the event is about. */
  readonly fingerprint: string | null;
  /** Which secret has ended, if not the whole key by its owner. */
  readonly secret: 'in_force' | 'next' | 'previous' | null;
  /** The newest event of the backup that was put back, if the kind is `restored`. */
  readonly backupSeq: number | null;
  /** The id of the client that got the key, if the kind is `connected` and the id is the URL of its document. */
  readonly client: string | null;
  /** What has changed, if the kind is `changed`; null: another kind, or an event of a version before. */
  readonly fields: readonly string[] | null;
}

export interface EventQuery {
  /** Only events after this one; null: all. */
  readonly afterSeq: number | null;
  /** Only events before this one; undefined: all. */
  readonly beforeSeq?: number | undefined;
  /** Whether the newest of more than `limit` are returned, or the oldest. Unless given, true if `afterSeq` is null. */
  readonly newest?: boolean;
  readonly limit: number;
  readonly keyId?: string | undefined;
  readonly owner?: string | undefined;
}

/**
 * Everything here throws a StoreOutage when the database is out of reach. Every write is harmless when repeated, also
 * late (`update` may put back what it wrote). Every change of a key is durable once it resolves, and leaves an event with
 * its origin, in the same transaction. A remote database serves each `fairnessKey` in turn. Reads with `withinMs` give up
 * after it: a later response would be too old to count.
 */
export interface KeyStore extends UsesStore {
  /** Adds the record unless its owner has as many as he may already; the inserting statement itself decides. */
  insert(record: ApiKeyRecord, origin: Origin): Promise<'created' | 'limit_reached'>;
  /** Returns keys after a place (null: from the first on): one at least, and all that fit into `bytesMax` of JSON. */
  listByUser(userId: string, after: ListPlace | null, bytesMax: number): Promise<ListPage>;
  /** Sets active = false on the owner's key. Null: no such key, or inactive already. */
  deactivate(userId: string, keyId: string, origin: Origin): Promise<Changed | null>;
  /** Deletes the owner's key. Null: no such key of this owner. */
  remove(userId: string, keyId: string, origin: Origin): Promise<Changed | null>;
  /** Changes the given fields. Null: no such key of this owner, or nothing to change. */
  update(
    userId: string,
    keyId: string,
    fields: { name?: string; scopes?: readonly string[] },
    origin: Origin,
  ): Promise<Changed | null>;
  /** Changes the given fields of an active key, never to more scopes or a later end. Null: that isn't so, or nothing changes. */
  narrow(userId: string, keyId: string, edit: OwnEdit, nowMs: number, origin: Origin): Promise<Changed | null>;
  /** Ends secrets: the one in force with its key, a next or previous one alone. Passes over unknown and ended ones. */
  revokeByHashes(keyHashes: readonly string[], nowMs: number, origin: Origin, fairnessKey?: string): Promise<void>;
  /** Returns the owner's key, from the primary; null: no such key. */
  findOwn(userId: string, keyId: string): Promise<ListedKey | null>;
  /** Gives a key its next secret. False: the record is no longer as given, or no longer fit for it at `nowMs`. */
  rotate(record: ApiKeyRecord, next: NextSecret, nowMs: number, origin: Origin): Promise<boolean>;
  /** Puts a next secret in force; the other's overlap counts from `usedAtMs`. Null: it is not the next one any more. */
  promote(key: PresentedKey, usedAtMs: number, origin: Origin): Promise<Changed | null>;
  /** Returns the records with secrets of these hashes, read with one statement. */
  findByHashes(keyHashes: readonly string[], how: FindOptions): Promise<(keyHash: string) => Found>;
  /** Returns the hashes of the secrets in force, by the ids of the keys that there are, from the primary. */
  hashesOf(keyIds: readonly string[], withinMs: number): Promise<ReadonlyMap<string, string>>;
  /** Returns whether an operator refuses this owner, from the primary. */
  isBlocked(owner: string, withinMs: number): Promise<boolean>;
  /** Returns the change feed after a position, from the primary. */
  changesAfter(reached: ReachedPosition, withinMs: number): Promise<FeedPage>;
  /** Returns the newest events of a key before a number, newest first, whoever owned it then. */
  eventsOfKey(keyId: string, beforeSeq: number, limit: number, fairnessKey: string): Promise<readonly KeyEvent[]>;
  /** Returns the events of a query, oldest first. Those of an owner alone are found by reading the whole range. */
  events(query: EventQuery): Promise<KeyEvent[]>;
  /** Returns the number of the newest event; 0: there is none. */
  newestEvent(): Promise<number>;
}

/** How many living children there may be. */
export interface ChildrenMax {
  readonly ofParent: number;
  readonly ofOwner: number;
}

/** `ended`: the parent's secret is not accepted, or may have no children. `freeAtMs`: when the first makes room. */
export type Delegated = 'made' | 'ended' | { readonly freeAtMs: number };

/** A living child as lists show it, with the scopes that its parent leaves it. */
export interface ListedChild extends ChildRecord, ListPlace {}

export interface EndedChild {
  readonly id: string;
  readonly parentId: string;
  readonly userId: string;
  /** The hash of its secret, which has the form of a key's. */
  readonly keyHash: string;
}

/** Children, which only the primary is asked for. Each end leaves an event under the id of the parent. */
export interface ChildStore {
  /** Makes a child, if the parent's secret is accepted then; the inserting statement itself decides, and counts. */
  insertChild(child: ChildRecord, max: ChildrenMax, origin: Origin): Promise<Delegated>;
  /** Lists the living children of a key after a place, newest first. `owner`: of the key; null: whoever it is. */
  listChildren(
    parentId: string,
    owner: string | null,
    nowMs: number,
    after: ListPlace | null,
  ): Promise<readonly ListedChild[]>;
  /** Returns how many living children keys have, by their ids; those that have none are left out. */
  countChildren(parentIds: readonly string[], nowMs: number): Promise<ReadonlyMap<string, number>>;
  /** Returns children with these ids, fingerprints or hashes, whether they have ended or not. */
  findChildren(by: ChildName): Promise<readonly ChildRecord[]>;
  /** Ends those that haven't ended alone yet, and returns them. `owner`: of no other; undefined: of anybody. */
  endChildren(by: ChildName, nowMs: number, origin: Origin, owner?: string): Promise<readonly EndedChild[]>;
}

/** What names children. */
export type ChildName =
  | { readonly ids: readonly string[] }
  | { readonly keyHashes: readonly string[] }
  | { readonly fingerprint: string };

/** What a code stands for (signin/codes.ts). */
export interface CodeRow {
  readonly endsAtMs: number;
  /** Empty once the code was taken. */
  readonly content: string;
  readonly isTaken: boolean;
  /** Whether it is a device's request, not an OAuth client's. */
  readonly isDevice: boolean;
  /** What a person has decided on a device's request; null: nothing yet. */
  readonly decision: string | null;
  /** What was handed out for it; null: nothing yet. */
  readonly keyId: string | null;
}

interface NewCode {
  readonly hash: string;
  readonly content: string;
  readonly endsAtMs: number;
  /** The owner of the key that it is for, if that is made later; else null. */
  readonly newKeyOf: string | null;
  /** The fairness key of its statements at a remote database. */
  readonly fairnessKey: string;
}

/** An active key that is handed out for a code. */
interface Taking {
  readonly hash: string;
  /** The id of this one try; no two have the same. */
  readonly attempt: string;
  readonly keyId: string;
  /** The fingerprint of the secret that is handed out. */
  readonly fingerprint: string;
}

/** A key that is made for a code. */
interface Making extends Omit<Taking, 'keyId' | 'fingerprint'> {
  readonly record: ApiKeyRecord;
}

/** The request of a device, which a person finds by another code. */
interface AskedCode extends Pick<NewCode, 'hash' | 'content' | 'endsAtMs'> {
  readonly userCodeHash: string;
  /** Who asks (networkOf in ground/ip.ts). */
  readonly address: string;
  /** What the addresses of its network begin with (prefixOf in ground/ip.ts). */
  readonly network: string;
}

/** The most requests that may be open: of an address, of a network, and in all. */
export interface OpenMax {
  readonly each: number;
  readonly network: number;
  readonly total: number;
}

/** Whether a request was put, or else what has too many open. */
export type Asked = 'asked' | 'address_full' | 'network_full' | 'all_full';

interface Decided extends Pick<NewCode, 'newKeyOf' | 'fairnessKey'> {
  /** The hash of the person's code. */
  readonly hash: string;
  readonly decision: string;
}

/** Codes, by their SHA-256. */
export interface CodeStore {
  /** Stores a code. Returns false if the owner has as many keys as he may already. */
  put(code: NewCode): Promise<boolean>;
  findAll(hashes: readonly string[], fairnessKey: string): Promise<(hash: string) => CodeRow | null>;
  /** Takes the code, once, with an event. False: taken before, or no such key. */
  take(taking: Taking, origin: Origin): Promise<boolean>;
  /**
   * Takes the code and makes the key, in one transaction. Events: `made`, and `handed`, if there is one. False: taken
   * before, or the owner is blocked or has as many keys as he may.
   */
  make(making: Making, made: Origin, handed: Origin | null): Promise<boolean>;
  ask(asked: AskedCode, openMax: OpenMax, nowMs: number): Promise<Asked>;
  /** Finds a request by the hash of the person's code; null: none is open. */
  findAsked(hash: string, nowMs: number, fairnessKey: string): Promise<Pick<CodeRow, 'content' | 'endsAtMs'> | null>;
  decide(decided: Decided, nowMs: number): Promise<'decided' | 'not_open' | 'full'>;
}

/** The kinds of events in the trail of changes. Triggers write them (db/), and `keys restore`. */
export const EVENT_KINDS = [
  'created',
  'rotated',
  'first_used',
  'revoked',
  'deleted',
  'changed',
  'blocked',
  'unblocked',
  'owner_changed',
  'owner_deleted',
  'connected',
  'restored',
  'delegated',
  'child_ended',
] as const;

type EventKind = (typeof EVENT_KINDS)[number];
