// Limits log lines that callers can cause at will: one a second for each bucket (a key, an address), and 100 in all.

import { createLruCache } from '../ground/cache.ts';
import { createTokenBuckets, type Rate } from '../ground/limits/token-bucket.ts';
import type { Clock } from '../ground/runtime.ts';

const EVERY_MS = 1000;
/** Of all buckets together: a flood from many addresses must not bury the rest of the log. */
const LINES: Rate = { perS: 100, burst: 100 };
/** Buckets remembered, about 2 MB. One that was evicted counts from zero. */
const BUCKETS_MAX = 10_000;

interface Bucket {
  /** Monotonic. */
  readonly loggedAtMs: number;
  readonly suppressed: number;
}

/** Returns the number of lines left out since the bucket's last; null: this one is left out too. */
export type Throttle = (bucket: string) => number | null;

export function createThrottle(clock: Clock): Throttle {
  const buckets = createLruCache<Bucket>({ entries: BUCKETS_MAX });
  const lines = createTokenBuckets(LINES, clock);
  return (name) => {
    const nowMs = clock.monotonicMs();
    const { loggedAtMs, suppressed } = buckets.get(name) ?? { loggedAtMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
    if (nowMs - loggedAtMs < EVERY_MS || lines.take('all') > 0) {
      buckets.set(name, { loggedAtMs, suppressed: suppressed + 1 });
      return null;
    }
    buckets.set(name, { loggedAtMs: nowMs, suppressed: 0 });
    return suppressed;
  };
}
