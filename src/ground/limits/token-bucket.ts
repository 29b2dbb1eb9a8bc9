// Token buckets, one for each name, counted in this process.

import { createLruCache } from '../cache.ts';
import type { Clock } from '../runtime.ts';

export interface Rate {
  /** No more than this is saved up; a new bucket has it. */
  readonly burst: number;
  readonly perS: number;
}

export interface TokenBuckets {
  /** Takes `count` tokens and returns 0; or takes none, and returns the seconds until this one has them. */
  take(who: string, count?: number): number;
  /** What `take` would return; takes nothing. */
  waitS(who: string, count?: number): number;
  /** Gives back tokens that were taken and not used. */
  give(who: string, count: number): void;
}

/** Buckets remembered, about 2 MB. */
const BUCKETS_MAX = 10_000;

interface Bucket {
  tokens: number;
  /** Monotonic. */
  filledAtMs: number;
}

/** Beyond `BUCKETS_MAX`, those that were quiet the longest are evicted, and start again full. */
export function createTokenBuckets({ perS, burst }: Rate, clock: Clock): TokenBuckets {
  const buckets = createLruCache<Bucket>({ entries: BUCKETS_MAX });

  function bucketOf(who: string): Bucket {
    const nowMs = clock.monotonicMs();
    const known = buckets.get(who);
    if (known === undefined) {
      const full: Bucket = { tokens: burst, filledAtMs: nowMs };
      buckets.set(who, full);
      return full;
    }
    known.tokens = Math.min(burst, known.tokens + ((nowMs - known.filledAtMs) / 1000) * perS);
    known.filledAtMs = nowMs;
    return known;
  }

  const waitIn = ({ tokens }: Bucket, count: number) => Math.max(0, count - tokens) / perS;

  return {
    take(who, count = 1) {
      const bucket = bucketOf(who);
      const seconds = waitIn(bucket, count);
      if (seconds === 0) bucket.tokens -= count;
      return seconds;
    },
    waitS: (who, count = 1) => waitIn(bucketOf(who), count),
    give(who, count) {
      const bucket = bucketOf(who);
      bucket.tokens = Math.min(burst, bucket.tokens + count);
    },
  };
}
