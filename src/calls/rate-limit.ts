// Rate limits: those of keys, and a number of requests per bucket and window, counted in this process. Adds the limit's
// state for the response's headers (draft-ietf-httpapi-ratelimit-headers); a refusal carries it too.

import { createWindowCounter } from '../ground/limits/windows.ts';
import type { Problem } from '../ground/problem.ts';
import { beside, type LimitName, type RateLimit, type RateLimitState } from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { type Guard, PASS } from './guard.ts';

/** Empty while the limit is off. */
export interface Limited {
  readonly rateLimit?: RateLimitState;
}

export interface RateLimitOptions<In> {
  /** In headers; `key` unless given. */
  readonly name?: LimitName;
  /** Per window; 0 switches the limit off. */
  readonly requests: number;
  readonly windowMs: number;
  /** The bucket of a call; undefined: `unknown`. */
  readonly key: (call: In) => string | undefined;
  readonly onRefused?: (call: In, bucket: string) => void;
  readonly clock: Clock;
}

export function rateLimitGuard<In>(options: RateLimitOptions<In>): Guard<In, Limited> {
  const { name, requests, windowMs, key, onRefused, clock } = options;
  if (requests === 0) return () => PASS;
  const limit: RateLimit = { requests, windowS: windowMs / 1000 };
  const count = createWindowCounter(limit, clock);
  const named = name && { name };
  const decide: Guard<In, Limited> = (call) => {
    const bucket = key(call) ?? 'unknown';
    const { isAdmitted, remaining, resetS } = count(bucket);
    const { rateLimit: before } = call as Limited;
    const rateLimit = beside(before, { ...named, limit, remaining, resetS });
    if (isAdmitted) return ok({ rateLimit });
    onRefused?.(call, bucket);
    return err({ code: 'rate_limited', retryAfterS: resetS, rateLimit });
  };
  return Object.assign(decide, { initialLimit: { ...named, limit, remaining: requests, resetS: limit.windowS } });
}

export interface KeyLimitOptions<In> {
  /** Counts a call of the key, if its limit and quota admit it. */
  readonly admit: (keyId: string) => Result<RateLimitState | undefined, Problem>;
  /** For keys without a limit of their own; 0 requests: none. */
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  readonly onRefused: (call: In, problem: Problem) => void;
}

/** Holds a key to its limit and its quota, which all processes on a database share (uses/usage.ts). */
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
  return Object.assign(decide, { initialLimit: { limit, remaining: requests, resetS: limit.windowS } });
}
