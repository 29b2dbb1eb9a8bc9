// Finds a key by the hash of its secret, in the cache or else in the store. verify.ts decides whether the
// cache may be trusted.

import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { createKeyCache, type KnownKey } from './key-cache.ts';
import type { ReadKeys, UnknownKeys } from './unknown-keys.ts';

export type KnownKeys = ReturnType<typeof createKnownKeys>;

export interface KnownKeysOptions {
  readonly feed: Feed;
  readonly readKeys: ReadKeys;
  readonly unknownKeys: UnknownKeys;
  readonly clock: Clock;
  readonly keyCacheBytes: number;
}

export function createKnownKeys({ feed, readKeys, unknownKeys, clock, keyCacheBytes }: KnownKeysOptions) {
  const cache = createKeyCache(feed, clock, keyCacheBytes);
  let reads = 0;

  async function readAgain(keyHash: string, mayUseReplica: boolean): Promise<KnownKey | null> {
    reads += 1;
    const found = await readKeys([keyHash], { mayUseReplica });
    return cache.keep(keyHash, found(keyHash));
  }

  return {
    /** Returns the cached key; undefined: it has to be read. `nowMs`: monotonic. */
    recall: cache.recall,
    /**
     * Reads a key that isn't cached; null: there is none. Unless the cached record was only stale, that takes from the
     * caller's budget.
     */
    read: (keyHash: string, caller: Caller): Promise<Result<KnownKey | null, Problem>> =>
      cache.reads.run(keyHash, async () => {
        const find = cache.isStale(keyHash) ? unknownKeys.findAgain : unknownKeys.find;
        const found = await find(keyHash, caller);
        return found.ok ? ok(cache.keep(keyHash, found.value)) : found;
      }),
    /** Reads a key even if it is cached. `mayUseReplica`: a replica may answer. */
    readAgain,
    /** Reads keys with one statement. A replica may answer. */
    async readAll(keyHashes: readonly string[]): Promise<void> {
      reads += 1;
      const found = await readKeys(keyHashes, { mayUseReplica: true });
      for (const keyHash of keyHashes) cache.keep(keyHash, found(keyHash));
    },
    /** Caches a key as refused once it has expired. */
    dropEnded(keyHash: string, key: KnownKey): void {
      if (!cache.isUsable(key)) cache.drop(keyHash, key);
    },
    isUsable: cache.isUsable,
    firstUses: cache.firstUses,
    /** Returns how many statements have read keys. */
    get reads() {
      return reads + unknownKeys.reads;
    },
  };
}
