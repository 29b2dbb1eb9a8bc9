// The rate limit guard: a number of requests per bucket and window, counted in this process. A bucket's window begins
// with its first use. Adds the state of the limit, for the response's headers (draft-ietf-httpapi-ratelimit-headers); a
// refusal carries it too.

import type { RateLimit, RateLimitState } from '../lib/rate-limit.ts';
import { err, ok } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { type Guard, PASS } from './guard.ts';

/** What the guard adds; nothing while the limit is switched off. */
export interface Limited {
  readonly rateLimit?: RateLimitState;
}

export interface RateLimitOptions<In> {
  /** Requests per window; 0 switches the limit off. */
  readonly requests: number;
  readonly windowMs: number;
  /** Picks the bucket of a call; without one the call counts in the bucket `unknown`. */
  readonly key: (call: In) => string | undefined;
  /** Told of each refusal. */
  readonly onRefused?: (call: In, bucket: string) => void;
  readonly clock: Clock;
}

interface Bucket {
  used: number;
  endsAtMs: number;
}

/**
 * Buckets kept. Beyond this, ended ones go first, then the oldest: their callers gain a window, memory stays bounded.
 */
const BUCKETS_MAX = 100_000;

export function rateLimitGuard<In>(options: RateLimitOptions<In>): Guard<In, Limited> {
  const { requests, windowMs, key, onRefused, clock } = options;
  if (requests === 0) return () => PASS;
  const buckets = new Map<string, Bucket>();
  const limit: RateLimit = { requests, windowS: windowMs / 1000 };

  function bucketOf(name: string, nowMs: number): Bucket {
    const known = buckets.get(name);
    if (known !== undefined && nowMs < known.endsAtMs) return known;
    buckets.delete(name); // keeps the map in the order of window starts
    if (buckets.size >= BUCKETS_MAX) makeRoom(nowMs);
    const fresh = { used: 0, endsAtMs: nowMs + windowMs };
    buckets.set(name, fresh);
    return fresh;
  }

  // All windows have the same length, so the oldest entries are the first to end.
  function makeRoom(nowMs: number): void {
    for (const [name, bucket] of buckets) {
      if (bucket.endsAtMs > nowMs && buckets.size < BUCKETS_MAX) return;
      buckets.delete(name);
    }
  }

  const decide: Guard<In, Limited> = (call) => {
    const nowMs = clock.monotonicMs();
    const name = key(call) ?? 'unknown';
    const bucket = bucketOf(name, nowMs);
    // The clock has fractions: rounding errors can make the rest of a new window a hair longer than the window.
    const resetS = Math.min(limit.windowS, Math.ceil((bucket.endsAtMs - nowMs) / 1000));
    const admitted = bucket.used < requests;
    if (admitted) bucket.used += 1;
    const rateLimit = { limit, remaining: requests - bucket.used, resetS };
    if (admitted) return ok({ rateLimit });
    onRefused?.(call, name);
    return err({ code: 'rate_limited', retryAfterS: resetS, rateLimit });
  };
  return Object.assign(decide, { fullQuota: { limit, remaining: requests, resetS: limit.windowS } });
}
