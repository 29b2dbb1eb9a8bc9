// What this process remembers of keys and children, by their hashes: records of usable ones, and for a moment those it
// has refused. What the change feed names is forgotten. A child is remembered apart from its parent, whose change the feed
// names once, however many children it has.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import { type FeedPosition, hasReached } from '../ground/change-feed.ts';
import type { Problem } from '../ground/problem.ts';
import type { Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { ChangedOwners } from './changed-owners.ts';
import { type ChildRecord, ownRefusalAt } from './child.ts';
import type { Feed } from './feed.ts';
import { type PresentedKey, presentedHash, refusalAt } from './record.ts';
import type { Found } from './store.ts';

/**
 * How long a key is refused from memory (negative cache). The same for every reason: if a revoked key stayed longer
 * than an unknown one, its faster refusal would tell that it was a key. Short, because a backup may be restored.
 */
const REFUSED_TTL_MS = 1000;
/** Refused keys remembered, about 10 MB. A forgotten one costs a read. */
const REFUSED_MAX = 20_000;

/** What a record takes beside its characters: object, map slot, and what texts are made of. Measured on Bun. */
const RECORD_OVERHEAD_BYTES = 420;
/** Id and hash, which each record has. */
const RECORD_BYTES_MIN = RECORD_OVERHEAD_BYTES + 96;

/** Returns how many keys the memory for records holds at most; of ordinary ones it holds some 110,000 in 64 MiB. */
export const keysIn = (cacheBytes: number): number => Math.ceil(cacheBytes / RECORD_BYTES_MIN);

/**
 * After this long a record is read again: the feed says nothing of keys whose creation a primary has lost. Up to a
 * fifth less, so that records that were read together are not all read again together.
 */
const BELIEVED_MS_MAX = 5 * 60_000;
const BELIEVED_MS_MIN = 4 * 60_000;

/** Owners whose changes are remembered, for as long as what was read before could be believed. */
const CHANGED_OWNERS_MAX = 10_000;

interface Refused {
  readonly key: Known | null;
  readonly readAt: number;
  /** Monotonic. */
  readonly untilMs: number;
}

interface Believed {
  /** Monotonic. */
  believedUntilMs: number;
  /** How many changes of owners came before it was read. */
  readAt: number;
}

/** A key as it was read; null in its place: no such key. */
export interface KnownKey extends PresentedKey, Believed {}

/** A child as it was read. Whether it is accepted depends on its parent, too. */
export interface KnownChild extends ChildRecord, Believed {}

export type Known = KnownKey | KnownChild;

export const isChild = (known: Known): known is KnownChild => 'parentHash' in known;

/** A record as it was read after the first use of its next secret was written. */
export interface FirstUse {
  readonly found: KnownKey | null;
  /** When the last poll before that read began, monotonic. */
  readonly polledAtMs: number;
}

/** Creates the cache. `cacheBytes`: of records of usable keys, an estimate at one byte a character plus overhead. */
export function createKeyCache(feed: Feed, clock: Clock, cacheBytes: number) {
  const usable = createLruCache<Known>({
    bytes: cacheBytes,
    bytesOf: estimateBytes,
    keyOf: (known) => (isChild(known) ? known.keyHash : presentedHash(known)),
  });
  const refused = createLruCache<Refused>({ entries: REFUSED_MAX });
  const reads = singleFlights<Result<Known | null, Problem>>();
  const firstUses = singleFlights<FirstUse>();
  const owners = new ChangedOwners(CHANGED_OWNERS_MAX, BELIEVED_MS_MAX);

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
        reads.forget(keyHash); // a read under way may predate the change: later callers read again
      }
      if (changedOwners.size === 0) return;
      if (!owners.add(changedOwners, clock.monotonicMs())) return forgetAll();
      reads.forgetAll();
      firstUses.forgetAll();
    },
    onReset: forgetAll,
  });

  const isUsable = <K extends Known>(known: K | null): known is K => isUsableAt(known, clock.nowMs());

  function recallRefused(keyHash: string, nowMs: number): Known | null | undefined {
    const known = refused.get(keyHash);
    if (known === undefined) return undefined;
    const { key, readAt, untilMs } = known;
    const isOutOfDate = key !== null && owners.hasChangedSince(readAt, key.userId);
    if (nowMs < untilMs && !isOutOfDate && !isUsable(key)) return key;
    refused.delete(keyHash);
    return undefined;
  }

  function drop(keyHash: string, key: Known | null): void {
    usable.delete(keyHash);
    refused.set(keyHash, { key, untilMs: clock.monotonicMs() + REFUSED_TTL_MS, readAt: owners.number });
  }

  function keepOne(keyHash: string, record: PresentedKey | ChildRecord | null, position: FeedPosition): Known | null {
    // It is right for everyone who asked before. A feed that is ahead of it may have reported a later change already.
    const keeps = hasReached(position, feed.position);
    const believedUntilMs = clock.monotonicMs() + believedForMs();
    const before = usable.get(keyHash);
    const believed = { believedUntilMs, readAt: owners.number };
    if (keeps && record !== null && before !== undefined && isSame(record, before))
      return Object.assign(before, believed);
    const known = record && Object.assign(record, believed); // what was read belongs to nobody else
    if (!isUsable(known)) drop(keyHash, known);
    else if (keeps) usable.set(keyHash, known);
    return known;
  }

  return {
    /** Returns the key, which may have expired meanwhile; undefined: it has to be read. */
    recall(keyHash: string, nowMs: number): Known | null | undefined {
      const known = usable.get(keyHash);
      if (known === undefined) return recallRefused(keyHash, nowMs);
      if (owners.hasChangedSince(known.readAt, known.userId)) return undefined;
      return nowMs < known.believedUntilMs || !isUsable(known) ? known : undefined;
    },
    /** Returns true for a key that `recall` did not know if its record was usable, and is only out of date. */
    isStale: (keyHash: string) => usable.get(keyHash) !== undefined,
    /**
     * Remembers what was read; a usable record only if the feed will report every later change of it. Returns the key, or
     * the child, whose parent is remembered too.
     */
    keep(keyHash: string, { record, child, position }: Found): Known | null {
      if (child === null) return keepOne(keyHash, record, position);
      keepOne(child.parentHash, record, position);
      return keepOne(keyHash, child, position);
    },
    /** Refuses from now on a key that was remembered as usable. */
    drop(keyHash: string, key: Known): void {
      if (usable.get(keyHash) !== undefined) drop(keyHash, key);
    },
    isUsable,
    /** Reads under way, by hash. One that began before a change is not joined after it. */
    reads,
    /** First uses of next secrets that are under way, by hash; see `reads`. */
    firstUses,
  };
}

/** Returns whether a key or child is not refused by itself. */
const isUsableAt = <K extends Known>(known: K | null, nowMs: number): known is K =>
  known !== null && (isChild(known) ? ownRefusalAt(known, nowMs) : refusalAt(known, nowMs)) === null;

const believedForMs = () => BELIEVED_MS_MIN + Math.random() * (BELIEVED_MS_MAX - BELIEVED_MS_MIN);

/** Returns whether a record is unchanged. Then its object stays: new ones would leave holes all over the memory. */
const isSame = (record: PresentedKey | ChildRecord, { believedUntilMs: _, readAt: __, ...before }: Known): boolean =>
  JSON.stringify(record) === JSON.stringify(before);

function estimateBytes(key: Known): number {
  let chars = key.id.length + key.userId.length + key.name.length + key.keyHash.length;
  for (const scope of key.scopes) chars += scope.length + 16;
  if (!isChild(key) && key.foreignHash !== null) chars += key.foreignHash.length;
  return chars + RECORD_OVERHEAD_BYTES;
}
