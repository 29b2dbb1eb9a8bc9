// Finds what is known of a key or child by the hash of its secret: in memory, or else in the store. Whether memory may be
// trusted is up to verify.ts.

import type { Problem } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Caller } from './actor.ts';
import type { Feed } from './feed.ts';
import { createKeyCache, type Known } from './key-cache.ts';
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

  async function readAgain(keyHash: string, mayUseReplica: boolean): Promise<Known | null> {
    reads += 1;
    const found = await readKeys([keyHash], { mayUseReplica });
    return cache.keep(keyHash, found(keyHash));
  }

  return {
    /** Returns what memory has; undefined: it has to be read. `nowMs`: monotonic. */
    recall: cache.recall,
    /**
     * Reads a key, or a child with its parent, that memory doesn't have; null: there is none. One that nobody knew takes
     * from the caller's budget.
     */
    read: (keyHash: string, caller: Caller): Promise<Result<Known | null, Problem>> =>
      cache.reads.run(keyHash, async () => {
        const find = cache.isStale(keyHash) ? unknownKeys.findAgain : unknownKeys.find;
        const found = await find(keyHash, caller);
        return found.ok ? ok(cache.keep(keyHash, found.value)) : found;
      }),
    /** Reads a key whatever memory has. `mayUseReplica`: a replica may be asked. */
    readAgain,
    /** Reads keys with one statement. A replica's word will do. */
    async readAll(keyHashes: readonly string[]): Promise<void> {
      reads += 1;
      const found = await readKeys(keyHashes, { mayUseReplica: true });
      for (const keyHash of keyHashes) cache.keep(keyHash, found(keyHash));
    },
    /** Forgets that a key was usable, once it has ended by its own time. */
    dropEnded(keyHash: string, key: Known): void {
      if (!cache.isUsable(key)) cache.drop(keyHash, key);
    },
    isUsable: cache.isUsable,
    firstUses: cache.firstUses,
    /** Counts reads of the store. */
    get reads() {
      return reads + unknownKeys.reads;
    },
  };
}
