// Counts events in sliding windows, in this process: wrong guesses of codes, fetches of clients' documents, and requests for
// a key for which there is no room.

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

  /** Returns which tokens of a bucket are out, and the seconds until there is one to take. Reads the clock once for both. */
  function stateOf(who: string) {
    const nowMs = clock.monotonicMs();
    const out = (buckets.get(who) ?? []).filter((backAtMs) => backAtMs > nowMs);
    const awaited = out[out.length - most];
    return { nowMs, out, waitS: awaited === undefined ? 0 : (awaited - nowMs) / 1000 };
  }

  return {
    /** Takes a token and returns 0; or takes none, and returns the seconds until there is one. */
    take(who: string): number {
      const { nowMs, out, waitS } = stateOf(who);
      if (waitS === 0) buckets.set(who, [...out, nowMs + inS * 1000]);
      return waitS;
    },
    /** Returns what `take` would return, but takes nothing. */
    waitS: (who: string): number => stateOf(who).waitS,
    /** Gives back the token that was taken last, which was not needed. */
    give: (who: string): void => buckets.set(who, stateOf(who).out.slice(0, -1)),
  };
}
