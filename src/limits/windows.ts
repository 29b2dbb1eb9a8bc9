// Fixed windows, counted in this process: so many in each. The window of each begins with its first use.

import { createLruCache } from '../lib/lru-cache.ts';
import type { RateLimit } from '../lib/rate-limit.ts';
import type { Clock } from '../lib/runtime.ts';

export interface WindowState {
  readonly isAdmitted: boolean;
  readonly remaining: number;
  /** Whole seconds until it ends, rounded up. */
  readonly resetS: number;
}

export interface Windows {
  /** Counts one use, unless the window is full. */
  take(who: string): WindowState;
}

interface Window {
  used: number;
  /** Monotonic. */
  readonly endsAtMs: number;
}

/** Windows remembered, about 20 MB. Beyond half of them, the longest unused may be evicted, and begin anew. */
const WINDOWS_MAX = 200_000;

export function createWindows({ requests, windowS }: RateLimit, clock: Clock): Windows {
  const windows = createLruCache<Window>({ entries: WINDOWS_MAX });

  function windowOf(who: string, nowMs: number): Window {
    const known = windows.get(who);
    if (known !== undefined && nowMs < known.endsAtMs) return known;
    const fresh = { used: 0, endsAtMs: nowMs + windowS * 1000 };
    windows.set(who, fresh);
    return fresh;
  }

  return {
    take(who) {
      const nowMs = clock.monotonicMs();
      const window = windowOf(who, nowMs);
      const isAdmitted = window.used < requests;
      if (isAdmitted) window.used += 1;
      // The clock has fractions: by rounding errors the rest of a new window can be a little longer than the window.
      const resetS = Math.min(windowS, Math.ceil((window.endsAtMs - nowMs) / 1000));
      return { isAdmitted, remaining: requests - window.used, resetS };
    },
  };
}
