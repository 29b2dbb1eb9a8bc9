// Caches keys by the hashes of their secrets: records of usable ones, and for a moment those refused (negative cache).
// Changes from the feed drop entries. An entry of a derived key counts only while that of its parent is the same object,
// so that the feed names the parent's change once, however many keys are derived from it.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import { type FeedPosition, hasReached } from '../ground/change-feed.ts';
import type { Problem } from '../ground/problem.ts';
import type { Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { ChangedOwners } from './changed-owners.ts';
import type { Feed } from './feed.ts';
import { type PresentedKey, refusalAt } from './record.ts';
import type { Found } from './store.ts';

/**
 * How long a refusal is cached. The same for every reason: if a revoked key stayed longer than an unknown one, its
 * faster refusal would reveal that it was a key. Short, because a backup may be restored.
 */
const REFUSED_TTL_MS = 1000;
/** Cached refusals, about 10 MB. A miss costs a read. */
const REFUSED_MAX = 20_000;

/** What a record takes beside its characters: object, map slot, string headers. Measured on Bun. */
const RECORD_OVERHEAD_BYTES = 420;
/** The least that a record takes: each has an id and a hash. */
const RECORD_BYTES_MIN = RECORD_OVERHEAD_BYTES + 96;

/** Returns the most keys that fit in a cache of this size; of ordinary ones some 110,000 fit in 64 MiB. */
export const keysIn = (cacheBytes: number): number => Math.ceil(cacheBytes / RECORD_BYTES_MIN);

/**
 * The longest life of a cache entry: the feed doesn't report keys whose creation a primary has lost. Random, up to a
 * fifth shorter (jitter), so that records read together are not all read again together.
 */
const ENTRY_TTL_MS_MAX = 5 * 60_000;
const ENTRY_TTL_MS_MIN = 4 * 60_000;

/** The most changed owners tracked, each for the longest life of a cache entry. */
const CHANGED_OWNERS_MAX = 10_000;

interface RefusedEntry {
  readonly key: KnownKey | null;
  readonly readVersion: number;
  /** Monotonic. */
  readonly expiresAtMs: number;
}

interface CacheEntry {
  /** Monotonic. */
  staleAtMs: number;
  /** The version of changed owners when it was read. */
  readVersion: number;
}

/** A key as it was read. */
export interface KnownKey extends PresentedKey, CacheEntry {}

/** A record read after the first use of its next secret was written. */
export interface FirstUse {
  readonly found: KnownKey | null;
  /** When the last poll before that read began (monotonic). */
  readonly polledAtMs: number;
}

/** Creates the cache. `cacheBytes`: for records of usable keys, estimated at one byte a character plus overhead. */
export function createKeyCache(feed: Feed, clock: Clock, cacheBytes: number) {
  const usable = createLruCache<KnownKey>({ bytes: cacheBytes, bytesOf: estimateBytes, keyOf: hashOf });
  const refused = createLruCache<RefusedEntry>({ entries: REFUSED_MAX });
  const reads = singleFlights<Result<KnownKey | null, Problem>>();
  const firstUses = singleFlights<FirstUse>();
  const owners = new ChangedOwners(CHANGED_OWNERS_MAX, ENTRY_TTL_MS_MAX);

  function forgetAll(): void {
    usable.clear();
    refused.clear();
    owners.clear();
    reads.forgetAll();
    firstUses.forgetAll();
  }

  feed.subscribe({
    onChanges(keyHashes, changedOwners) {
      for (const keyHash of keyHashes) {
        usable.delete(keyHash);
        refused.delete(keyHash);
      }
      reads.forgetAll(); // one under way may predate the change, of a key or its parent: later callers read again
      if (changedOwners.size === 0) return;
      if (!owners.add(changedOwners, clock.monotonicMs())) return forgetAll();
      firstUses.forgetAll();
    },
    onReset: forgetAll,
  });

  const isUsable = (known: KnownKey | null): known is KnownKey => isUsableAt(known, clock.nowMs());

  /** Returns whether the parent, if it is a derived key, is cached as it was when both were read. */
  function isUnderSame({ parent }: KnownKey): boolean {
    if (parent === null) return true;
    return (usable.get(parent.keyHash) ?? refused.get(parent.keyHash)?.key ?? null) === parent.key;
  }

  function recallRefused(keyHash: string, nowMs: number): KnownKey | null | undefined {
    const known = refused.get(keyHash);
    if (known === undefined) return undefined;
    const { key, readVersion, expiresAtMs } = known;
    const isStale = key !== null && (owners.hasChangedSince(readVersion, key.userId) || !isUnderSame(key));
    if (nowMs < expiresAtMs && !isStale && !isUsable(key)) return key;
    refused.delete(keyHash);
    return undefined;
  }

  function drop(keyHash: string, key: KnownKey | null): void {
    usable.delete(keyHash);
    refused.set(keyHash, { key, expiresAtMs: clock.monotonicMs() + REFUSED_TTL_MS, readVersion: owners.version });
  }

  function keepOne(keyHash: string, record: PresentedKey | null, position: FeedPosition): KnownKey | null {
    // What was read is right for everyone who asked before. But a feed ahead of it may have reported a later change.
    const keeps = hasReached(position, feed.position);
    const staleAtMs = clock.monotonicMs() + randomTtlMs();
    const before = usable.get(keyHash);
    const entry = { staleAtMs, readVersion: owners.version };
    if (keeps && record !== null && before !== undefined && isSame(record, before)) return Object.assign(before, entry);
    const known = record && Object.assign(record, entry); // nobody else has the record
    if (!isUsable(known)) drop(keyHash, known);
    else if (keeps) usable.set(keyHash, known);
    return known;
  }

  return {
    /** Returns the cached key, which may have expired meanwhile; undefined: it has to be read. */
    recall(keyHash: string, nowMs: number): KnownKey | null | undefined {
      const known = usable.get(keyHash);
      if (known === undefined) return recallRefused(keyHash, nowMs);
      if (owners.hasChangedSince(known.readVersion, known.userId) || !isUnderSame(known)) return undefined;
      return nowMs < known.staleAtMs || !isUsable(known) ? known : undefined;
    },
    /** Returns whether a key that `recall` misses is cached as usable, so that it is only stale. */
    isStale: (keyHash: string) => usable.get(keyHash) !== undefined,
    /**
     * Caches what was read, with the parent of a derived key; a usable record only if the feed will report every later
     * change of it.
     */
    keep(keyHash: string, { record, position }: Found): KnownKey | null {
      const parent = record?.parent;
      if (parent) parent.key = keepOne(parent.keyHash, parent.key, position);
      return keepOne(keyHash, record, position);
    },
    /** Caches as refused a key that was cached as usable. */
    drop(keyHash: string, key: KnownKey): void {
      if (usable.get(keyHash) !== undefined) drop(keyHash, key);
    },
    isUsable,
    /** Reads in flight, by hash. Callers after a change don't join one that began before it. */
    reads,
    /** First uses of next secrets in flight, by hash; see `reads`. */
    firstUses,
  };
}

const hashOf = ({ presentedHash }: KnownKey): string => presentedHash;

const isUsableAt = (known: KnownKey | null, nowMs: number): known is KnownKey =>
  known !== null && refusalAt(known, nowMs) === null;

const randomTtlMs = () => ENTRY_TTL_MS_MIN + Math.random() * (ENTRY_TTL_MS_MAX - ENTRY_TTL_MS_MIN);

/** Returns whether a record is unchanged. Then its old object is kept: new ones would fragment the heap. */
function isSame({ parent, ...record }: PresentedKey, known: KnownKey): boolean {
  const { parent: parentBefore, staleAtMs: _, readVersion: __, ...before } = known;
  return parent?.key === parentBefore?.key && JSON.stringify(record) === JSON.stringify(before);
}

/** What each text of a list or object takes beside its characters. */
const TEXT_OVERHEAD_BYTES = 16;

function estimateBytes(key: KnownKey): number {
  let bytes = RECORD_OVERHEAD_BYTES;
  for (const text of [key.id, key.userId, key.name, key.keyHash]) bytes += text.length;
  for (const text of [key.second?.hash, key.foreignHash, key.resource]) bytes += text?.length ?? 0;
  for (const scope of key.scopes) bytes += scope.length + TEXT_OVERHEAD_BYTES;
  // A derived key has its parent's object. An owner's data is shared by all that is equal.
  if (key.parent === null) {
    for (const [name, value] of Object.entries(key.metadata ?? {})) {
      bytes += name.length + value.length + 2 * TEXT_OVERHEAD_BYTES;
    }
  }
  return bytes;
}
