// Rate limits: those of keys, and a number of requests per bucket and window, counted in this process. A bucket's window begins
// with its first use. Adds the state of the limit, for the response's headers (draft-ietf-httpapi-ratelimit-headers); a
// refusal carries it too.

import { beside, type LimitName, type RateLimit, type RateLimitState } from '../lib/rate-limit.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Problem } from '../problem.ts';
import { type Guard, PASS } from './guard.ts';

/** What the guard adds; nothing while the limit is switched off. */
export interface Limited {
  readonly rateLimit?: RateLimitState;
}

export interface RateLimitOptions<In> {
  /** In headers; `key` unless given. */
  readonly name?: LimitName;
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
  const { name, requests, windowMs, key, onRefused, clock } = options;
  if (requests === 0) return () => PASS;
  const buckets = new Map<string, Bucket>();
  const limit: RateLimit = { requests, windowS: windowMs / 1000 };
  const named = name && { name };

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
    const bucketName = key(call) ?? 'unknown';
    const bucket = bucketOf(bucketName, nowMs);
    // The clock has fractions: rounding errors can make the rest of a new window a hair longer than the window.
    const resetS = Math.min(limit.windowS, Math.ceil((bucket.endsAtMs - nowMs) / 1000));
    const admitted = bucket.used < requests;
    if (admitted) bucket.used += 1;
    const { rateLimit: before } = call as Limited;
    const rateLimit = beside(before, { ...named, limit, remaining: requests - bucket.used, resetS });
    if (admitted) return ok({ rateLimit });
    onRefused?.(call, bucketName);
    return err({ code: 'rate_limited', retryAfterS: resetS, rateLimit });
  };
  return Object.assign(decide, { fullQuota: { ...named, limit, remaining: requests, resetS: limit.windowS } });
}

export interface KeyLimitOptions<In> {
  /** Counts a call of the key, if its limit and quota admit it. */
  readonly admit: (keyId: string) => Result<RateLimitState | undefined, Problem>;
  /** Of keys without one of their own; 0 requests: none. */
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  /** Told of each refusal. */
  readonly onRefused: (call: In, problem: Problem) => void;
}

/** Holds a key to its limit and its quota, which all processes on a database share (keys/usage.ts). */
export function keyLimitGuard<In extends { readonly auth: { readonly keyId: string } }>({
  admit,
  rateLimit: { requests, windowMs },
  onRefused,
}: KeyLimitOptions<In>): Guard<In, Limited> {
  const decide: Guard<In, Limited> = (call) => {
    const admitted = admit(call.auth.keyId);
    if (admitted.ok) return admitted.value === undefined ? PASS : ok({ rateLimit: admitted.value });
    onRefused(call, admitted.error);
    return admitted;
  };
  const limit = { requests, windowS: windowMs / 1000 };
  if (requests === 0) return decide;
  return Object.assign(decide, { fullQuota: { limit, remaining: requests, resetS: limit.windowS } });
}
