// What this process remembers of keys, by their hashes: records of usable ones, and for a moment those it has refused.
// What the change feed names is forgotten.

import { createLruCache, singleFlights } from '../ground/cache.ts';
import { hasReached } from '../ground/change-feed.ts';
import type { Problem } from '../ground/problem.ts';
import type { Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
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

interface Refused {
  readonly key: KnownKey | null;
  /** Monotonic. */
  readonly untilMs: number;
}

/** A key as it was read; null in its place: no such key. */
export interface KnownKey extends PresentedKey {
  /** Monotonic. */
  believedUntilMs: number;
}

/** A record as it was read after the first use of its next secret was written. */
export interface FirstUse {
  readonly found: KnownKey | null;
  /** When the last poll before that read began, monotonic. */
  readonly polledAtMs: number;
}

/** `cacheBytes`: of records of usable keys, an estimate at one byte a character plus overhead. */
export function createKeyCache(feed: Feed, clock: Clock, cacheBytes: number) {
  const usable = createLruCache<KnownKey>({
    bytes: cacheBytes,
    bytesOf: estimateBytes,
    keyOf: presentedHash,
  });
  const refused = createLruCache<Refused>({ entries: REFUSED_MAX });
  const reads = singleFlights<Result<KnownKey | null, Problem>>();
  const firstUses = singleFlights<FirstUse>();

  feed.subscribe({
    onChanges(keyHashes, owners) {
      for (const keyHash of keyHashes) {
        usable.delete(keyHash);
        refused.delete(keyHash);
        reads.forget(keyHash); // a read under way may predate the change: later callers read again
      }
      if (owners.size > 0) forgetOwners(owners);
    },
    onReset() {
      usable.clear();
      refused.clear();
      reads.forgetAll();
      firstUses.forgetAll();
    },
  });

  /** One walk for all owners: with 200,000 keys it takes 10 ms. */
  function forgetOwners(owners: ReadonlySet<string>): void {
    usable.deleteWhere(({ userId }) => owners.has(userId));
    refused.deleteWhere(({ key }) => key !== null && owners.has(key.userId));
    reads.forgetAll();
    firstUses.forgetAll();
  }

  function isUsable(key: KnownKey | null): key is KnownKey {
    return key !== null && refusalAt(key, clock.nowMs()) === null;
  }

  function recallRefused(keyHash: string, nowMs: number): KnownKey | null | undefined {
    const known = refused.get(keyHash);
    if (known === undefined) return undefined;
    if (nowMs < known.untilMs && !isUsable(known.key)) return known.key;
    refused.delete(keyHash);
    return undefined;
  }

  function drop(keyHash: string, key: KnownKey | null): void {
    usable.delete(keyHash);
    refused.set(keyHash, { key, untilMs: clock.monotonicMs() + REFUSED_TTL_MS });
  }

  return {
    /** Undefined: it has to be read. The key returned may have expired meanwhile. */
    recall(keyHash: string, nowMs: number): KnownKey | null | undefined {
      const known = usable.get(keyHash);
      if (known === undefined) return recallRefused(keyHash, nowMs);
      return nowMs < known.believedUntilMs || !isUsable(known) ? known : undefined;
    },
    /** Of a key that `recall` did not know: true if its record was usable and has only become too old to be believed. */
    isStale: (keyHash: string) => usable.get(keyHash) !== undefined,
    /** Remembers what was read; a usable record only if the feed will report every later change of it. */
    keep(keyHash: string, { record, position }: Found): KnownKey | null {
      // It is right for everyone who asked before. A feed that is ahead of it may have reported a later change already.
      const keeps = hasReached(position, feed.position);
      const believedUntilMs = clock.monotonicMs() + believedForMs();
      const before = usable.get(keyHash);
      if (keeps && record !== null && before !== undefined && isSame(record, before)) {
        before.believedUntilMs = believedUntilMs;
        return before;
      }
      const key = record && Object.assign(record, { believedUntilMs }); // what was read belongs to nobody else
      if (!isUsable(key)) drop(keyHash, key);
      else if (keeps) usable.set(keyHash, key);
      return key;
    },
    /** Refuses from now on a key that was remembered as usable. */
    drop(keyHash: string, key: KnownKey): void {
      if (usable.get(keyHash) !== undefined) drop(keyHash, key);
    },
    isUsable,
    /** Reads under way, by hash. One that began before a change is not joined after it. */
    reads,
    /** As `reads`, of first uses of next secrets. */
    firstUses,
  };
}

const believedForMs = () => BELIEVED_MS_MIN + Math.random() * (BELIEVED_MS_MAX - BELIEVED_MS_MIN);

/** Then it stays the same object: in its place, new ones would leave holes all over the memory. */
const isSame = (record: PresentedKey, { believedUntilMs: _, ...before }: KnownKey): boolean =>
  JSON.stringify(record) === JSON.stringify(before);

function estimateBytes(key: KnownKey): number {
  let chars = key.id.length + key.userId.length + key.name.length + key.keyHash.length;
  for (const scope of key.scopes) chars += scope.length + 16;
  return chars + RECORD_OVERHEAD_BYTES;
}
