// Counts events in sliding windows, in this process: wrong guesses of codes, fetches of clients' documents, and requests for
// a key for which there is no room.

import { createLruCache } from '../../ground/cache.ts';
import type { SlidingRate } from '../../ground/limits/rates.ts';
import type { Clock } from '../../ground/runtime.ts';

/** Windows kept, one for each who takes from it. */
const WINDOWS_MAX = 10_000;

/**
 * Creates sliding windows: each take counts for `inS` seconds. A token bucket would allow twice `most` in that time.
 * Beyond `WINDOWS_MAX`, the least recently used are evicted, and start again empty.
 */
export function createSlidingWindows({ most, inS }: SlidingRate, clock: Clock) {
  /** When each take no longer counts (monotonic), the soonest first. */
  const windows = createLruCache<readonly number[]>({ entries: WINDOWS_MAX });

  /** Returns which takes count now, and the seconds until there is room for one. Reads the clock once for both. */
  function stateOf(who: string) {
    const nowMs = clock.monotonicMs();
    const taken = (windows.get(who) ?? []).filter((untilMs) => untilMs > nowMs);
    const awaited = taken[taken.length - most];
    return { nowMs, taken, waitS: awaited === undefined ? 0 : (awaited - nowMs) / 1000 };
  }

  return {
    /** Takes one and returns 0; or takes none, and returns the seconds until there is room. */
    take(who: string): number {
      const { nowMs, taken, waitS } = stateOf(who);
      if (waitS === 0) windows.set(who, [...taken, nowMs + inS * 1000]);
      return waitS;
    },
    /** Returns what `take` would return, but takes nothing. */
    waitS: (who: string): number => stateOf(who).waitS,
    /** Gives back the one that was taken last, which was not needed. */
    give: (who: string): void => windows.set(who, stateOf(who).taken.slice(0, -1)),
  };
}
