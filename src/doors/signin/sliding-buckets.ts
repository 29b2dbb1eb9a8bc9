// Counts events in sliding windows, in this process: wrong guesses of codes, and fetches of clients' documents.

import { createLruCache } from '../../ground/cache.ts';
import { type SlidingRate, TOKEN_BUCKETS_MAX } from '../../ground/limits/rates.ts';
import type { Clock } from '../../ground/runtime.ts';

/**
 * Creates sliding windows: each token comes back `inS` seconds after it was taken. A token bucket would allow twice
 * `most` in that time. Beyond `TOKEN_BUCKETS_MAX`, the least recently used are evicted, and start again full.
 */
export function createSlidingBuckets({ most, inS }: SlidingRate, clock: Clock) {
  /** When each taken token comes back (monotonic), the soonest first. */
  const buckets = createLruCache<readonly number[]>({ entries: TOKEN_BUCKETS_MAX });

  function outOf(who: string): readonly number[] {
    const nowMs = clock.monotonicMs();
    return (buckets.get(who) ?? []).filter((backAtMs) => backAtMs > nowMs);
  }

  function waitIn(out: readonly number[]): number {
    const awaited = out[out.length - most];
    return awaited === undefined ? 0 : (awaited - clock.monotonicMs()) / 1000;
  }

  return {
    /** Takes a token and returns 0; or takes none, and returns the seconds until there is one. */
    take(who: string): number {
      const out = outOf(who);
      const seconds = waitIn(out);
      if (seconds === 0) buckets.set(who, [...out, clock.monotonicMs() + inS * 1000]);
      return seconds;
    },
    /** Returns what `take` would return, but takes nothing. */
    waitS: (who: string): number => waitIn(outOf(who)),
    /** Gives back the token that was taken last, which was not needed. */
    give: (who: string): void => buckets.set(who, outOf(who).slice(0, -1)),
  };
}
