// Counts events in sliding windows, in this process: wrong guesses of codes, and fetches of clients' documents.

import { createLruCache } from '../../ground/cache.ts';
import { type SlidingRate, TOKEN_BUCKETS_MAX, type TokenBuckets } from '../../ground/limits/rates.ts';
import type { Clock } from '../../ground/runtime.ts';

/**
 * Creates sliding windows: each token comes back `inS` seconds after it was taken. A token bucket would allow twice
 * `most` in that time. Beyond `TOKEN_BUCKETS_MAX`, the least recently used are evicted, and start again full.
 */
export function createSlidingBuckets({ most, inS }: SlidingRate, clock: Clock): TokenBuckets {
  /** When each taken token comes back (monotonic), the soonest first. */
  const buckets = createLruCache<readonly number[]>({ entries: TOKEN_BUCKETS_MAX });

  function outOf(who: string): readonly number[] {
    const nowMs = clock.monotonicMs();
    return (buckets.get(who) ?? []).filter((backAtMs) => backAtMs > nowMs);
  }

  function waitIn(out: readonly number[], count: number): number {
    const awaited = out[out.length + count - most - 1];
    return awaited === undefined ? 0 : (awaited - clock.monotonicMs()) / 1000;
  }

  return {
    take(who, count = 1) {
      const out = outOf(who);
      const seconds = waitIn(out, count);
      const backAtMs = clock.monotonicMs() + inS * 1000;
      if (seconds === 0) buckets.set(who, [...out, ...Array<number>(count).fill(backAtMs)]);
      return seconds;
    },
    waitS: (who, count = 1) => waitIn(outOf(who), count),
    give(who, count) {
      const out = outOf(who);
      buckets.set(who, out.slice(0, Math.max(0, out.length - count)));
    },
  };
}
