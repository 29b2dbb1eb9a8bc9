// Finds keys by the hashes of their secrets: in memory, else in the store. Memory has the records of usable keys, each with
// what counts its uses (LRU cache), and for a moment those that were refused (negative cache). Changes from the feed make
// entries stale. An entry of a derived key counts while that of its parent is the same object, so that the feed names the
// parent's change once, however many keys are derived from it. verify.ts decides whether memory may be trusted.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import { hasReached } from '../ground/change-feed.ts';
import type { Metadata } from '../ground/metadata.ts';
import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Holder } from '../uses/holder.ts';
import type { Usage } from '../uses/usage.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { countedKey, type PresentedKey, refusalAt, whyEnded } from './record.ts';
import type { Found } from './store.ts';
import type { ReadFrom, ReadKeys, UnknownKeys } from './unknown-keys.ts';

/**
 * How long a refusal is cached. The same for every reason: if a revoked key stayed longer than an unknown one, its
 * faster refusal would reveal that it was a key. Short, because a backup may be restored.
 */
const REFUSED_TTL_MS = 1000;
/** Cached refusals, about 10 MB. A miss costs a read. */
const REFUSED_MAX = 20_000;

/**
 * The longest life of a cache entry: the feed doesn't report keys whose creation a primary has lost. Random, up to a
 * fifth shorter (jitter), so that records read together are not all read again together.
 */
const ENTRY_TTL_MS_MAX = 5 * 60_000;
const ENTRY_TTL_MS_MIN = 4 * 60_000;

/** The most changed owners tracked. Beyond them every key is read again, once. */
const CHANGED_OWNERS_MAX = 10_000;

/** What the cache adds to a record. */
interface Entry {
  /** What counts its uses: of a derived key its parent's. Null: that key has ended. */
  readonly holder: Holder | null;
  /** Monotonic. */
  staleAtMs: number;
  /** The version of changed owners when its read began. */
  readVersion: number;
}

export interface KnownKey extends PresentedKey, Entry {}

/** When an entry is stale that the feed has named. */
const CHANGED = Number.NEGATIVE_INFINITY;

interface RefusedEntry {
  readonly key: KnownKey | null;
  /** Monotonic. */
  readonly expiresAtMs: number;
}

export interface KnownKeysOptions {
  readonly feed: Feed;
  readonly usage: Usage;
  readonly readKeys: ReadKeys;
  readonly unknownKeys: UnknownKeys;
  readonly clock: Clock;
  /** The memory for records of usable keys, estimated at one byte a character plus overhead. */
  readonly keyCacheBytes: number;
}

export class KnownKeys {
  readonly #options: KnownKeysOptions;
  readonly #usable;
  readonly #refused = createLruCache<RefusedEntry>({ entries: REFUSED_MAX });
  readonly #owners = new ChangedOwners();
  /** Reads in flight, by hash. Callers after a change don't join one that began before it. */
  readonly #reads = singleFlights<Result<KnownKey | null, Problem>>();

  constructor(options: KnownKeysOptions) {
    const { feed, usage, keyCacheBytes } = options;
    this.#options = options;
    this.#usable = createLruCache<KnownKey>({
      bytes: keyCacheBytes,
      bytesOf: estimateBytes,
      keyOf: ({ presentedHash }) => presentedHash,
      onRemoved: ({ holder }, isEvicted) => holder && usage.drop(holder, isEvicted),
    });
    feed.subscribe({
      onChanges: (keyHashes, owners) => this.#forget(keyHashes, owners),
      onReset: () => this.#forgetAll(),
    });
  }

  get reads(): number {
    return this.#options.unknownKeys.reads;
  }

  /**
   * Returns the cached key, which may have expired meanwhile; null: there is none; undefined: it has to be read.
   * `nowMs`: monotonic.
   */
  recall(keyHash: string, nowMs: number): KnownKey | null | undefined {
    const known = this.#usable.get(keyHash);
    if (known === undefined) return this.#recallRefused(keyHash, nowMs);
    if (!this.#isAsRead(known)) return undefined;
    return nowMs < known.staleAtMs ? known : undefined;
  }

  /** Reads a key that isn't cached; null: there is none. What is only stale takes nothing from the caller's budget. */
  async read(keyHash: string, caller: Caller): Promise<Result<KnownKey | null, Problem>> {
    for (;;) {
      let isOwn = false;
      const read = await this.#reads.run(keyHash, () => {
        isOwn = true;
        return this.#find(keyHash, caller);
      });
      if (read.ok || isOwn) return read; // a refusal is of the one address whose look-up it was
    }
  }

  async #find(keyHash: string, caller: Caller): Promise<Result<KnownKey | null, Problem>> {
    const { unknownKeys } = this.#options;
    const { version } = this.#owners;
    const find = this.#usable.get(keyHash) === undefined ? unknownKeys.find : unknownKeys.findAgain;
    const found = await find(keyHash, caller);
    return found.ok ? ok(this.#keep(keyHash, found.value, version)) : found;
  }

  /**
   * Reads keys with one statement even if they are cached, and returns them by their hashes. Those that have ended have no
   * holder.
   */
  async readAll(keyHashes: readonly string[], from: ReadFrom): Promise<ReadonlyMap<string, KnownKey | null>> {
    const { version } = this.#owners;
    const found = await this.#options.readKeys(keyHashes, from);
    return new Map(keyHashes.map((keyHash) => [keyHash, this.#keep(keyHash, found(keyHash), version)]));
  }

  /** Caches a key as refused once it has expired. */
  dropEnded(key: KnownKey): void {
    const { presentedHash } = key;
    if (!this.isUsable(key) && this.#usable.get(presentedHash) === key) this.#refuse(presentedHash, key);
  }

  isUsable(key: PresentedKey): boolean {
    return refusalAt(key, this.#options.clock.nowMs()) === null;
  }

  /** Returns whether the feed has named neither this key since it was read, nor its owner or parent. */
  #isAsRead({ staleAtMs, readVersion, userId, parent }: KnownKey): boolean {
    if (staleAtMs === CHANGED || this.#owners.hasChangedSince(readVersion, userId)) return false;
    if (parent === null) return true;
    const known = this.#usable.get(parent.keyHash) ?? this.#refused.get(parent.keyHash)?.key ?? null;
    return known === parent.key && known?.staleAtMs !== CHANGED;
  }

  #recallRefused(keyHash: string, nowMs: number): KnownKey | null | undefined {
    const refused = this.#refused.get(keyHash);
    if (refused === undefined || nowMs >= refused.expiresAtMs) return undefined;
    const { key } = refused;
    return key === null || this.#isAsRead(key) ? key : undefined;
  }

  #refuse(keyHash: string, key: KnownKey | null): void {
    const expiresAtMs = this.#options.clock.monotonicMs() + REFUSED_TTL_MS;
    this.#usable.delete(keyHash);
    this.#refused.set(keyHash, { key, expiresAtMs });
  }

  /**
   * Caches what was read, with the parent of a derived key, if the feed will report every later change of it. Whoever
   * asked before may use it anyway. `readVersion`: when the read began, as numbers prove nothing after a reset.
   */
  #keep(keyHash: string, found: Found, readVersion: number): KnownKey | null {
    const { feed, clock, usage } = this.#options;
    const { record, position } = found;
    // A feed ahead of what was read may have reported a later change.
    const isCurrent = hasReached(position, feed.position);
    const counted = record && countedKey(record);
    const lasts = counted !== null && whyEnded(counted, clock.nowMs()) === null;
    const holder = lasts ? usage.holderOf(counted, found, isCurrent) : null;
    const entry = { holder, staleAtMs: clock.monotonicMs() + randomTtlMs(), readVersion };
    const keepOne = (hash: string, one: PresentedKey | null): KnownKey | null =>
      isCurrent ? this.#cache(hash, one, entry) : one && Object.assign(one, entry);
    if (record?.parent) record.parent.key = keepOne(record.parent.keyHash, record.parent.key);
    return keepOne(keyHash, record);
  }

  #cache(keyHash: string, record: PresentedKey | null, entry: Entry): KnownKey | null {
    const { usage } = this.#options;
    if (record !== null && this.isUsable(record)) {
      const before = this.#usable.get(keyHash);
      if (before && isSame(record, before)) return Object.assign(before, entry, { holder: before.holder });
      const known = Object.assign(record, entry, { holder: entry.holder && usage.keep(entry.holder) });
      this.#usable.set(keyHash, known);
      return known;
    }
    const before = this.#refused.get(keyHash)?.key ?? null;
    const isUnchanged = record !== null && before !== null && isSame(record, before); // so its children's entries still count
    const known = record && Object.assign(isUnchanged ? before : record, entry);
    this.#refuse(keyHash, known);
    return known;
  }

  #forget(keyHashes: readonly string[], owners: readonly string[]): void {
    for (const keyHash of keyHashes) {
      const known = this.#usable.get(keyHash);
      if (known !== undefined) known.staleAtMs = CHANGED; // its counts stay
      this.#refused.delete(keyHash);
    }
    this.#reads.forgetAll(); // one under way may predate the change, of a key or its parent: later callers read again
    if (owners.length > 0) this.#owners.add(owners);
  }

  #forgetAll(): void {
    this.#owners.addAll();
    this.#refused.clear();
    this.#reads.forgetAll();
  }
}

const randomTtlMs = () => ENTRY_TTL_MS_MIN + Math.random() * (ENTRY_TTL_MS_MAX - ENTRY_TTL_MS_MIN);

/** Returns whether a record is unchanged. Then its old object is kept: new ones would fragment the heap. */
function isSame({ parent, ...record }: PresentedKey, known: KnownKey): boolean {
  const { parent: parentBefore, holder: _, staleAtMs: __, readVersion: ___, ...before } = known;
  return parent?.key === parentBefore?.key && JSON.stringify(record) === JSON.stringify(before);
}

/** What a record takes beside its characters: object, map slot, string headers. Measured on Bun. */
const RECORD_OVERHEAD_BYTES = 420;
/** What an owner's settings take beside their characters: most owners have a key or two, which share none. */
const SETTINGS_OVERHEAD_BYTES = 80;
/** What each text of a list or object takes beside its characters. */
const TEXT_OVERHEAD_BYTES = 16;

function estimateBytes(key: KnownKey): number {
  let bytes = RECORD_OVERHEAD_BYTES;
  for (const text of [key.id, key.userId, key.name, key.keyHash]) bytes += text.length;
  for (const text of [key.second?.hash, key.foreignHash, key.resource]) bytes += text?.length ?? 0;
  for (const scope of key.scopes) bytes += scope.length + TEXT_OVERHEAD_BYTES;
  if (key.parent !== null) return bytes; // it has its parent's data
  if (key.ownerSettings !== null) bytes += SETTINGS_OVERHEAD_BYTES + bytesOfData(key.ownerSettings.metadata);
  return bytes + bytesOfData(key.metadata);
}

function bytesOfData(metadata: Metadata | null): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(metadata ?? {})) {
    bytes += name.length + value.length + 2 * TEXT_OVERHEAD_BYTES;
  }
  return bytes;
}

// Tracks owners that changed recently. Whatever was read about their keys before is stale; a version number shows it,
// so a change costs the same however many keys are cached.

class ChangedOwners {
  /** The version that each owner's last change made. */
  readonly #versions = new Map<string, number>();
  /** The current version, to store with what is read now. */
  version = 0;
  /** The version in which all owners changed. */
  #allVersion = 0;

  /** Adds owners that changed; beyond the maximum, all. */
  add(owners: readonly string[]): void {
    this.version += 1;
    for (const owner of owners) this.#versions.set(owner, this.version);
    if (this.#versions.size > CHANGED_OWNERS_MAX) this.addAll();
  }

  /** Adds all owners: anything may have changed. */
  addAll(): void {
    this.version += 1;
    this.#allVersion = this.version;
    this.#versions.clear();
  }

  hasChangedSince(version: number, owner: string): boolean {
    return version < Math.max(this.#allVersion, this.#versions.get(owner) ?? 0);
  }
}
