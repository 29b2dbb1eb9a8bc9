// Token buckets: what may be used up at once, and how fast it comes back.

import { createLruCache } from './lru-cache.ts';

export interface Allowance {
  /** Tokens that come in each second. */
  readonly perS: number;
  /** No more than this is saved up; a new bucket has it. */
  readonly burst: number;
}

export interface TokenBucket {
  tokens: number;
  /** Monotonic. */
  filledAtMs: number;
}

export const fullBucket = ({ burst }: Allowance, nowMs: number): TokenBucket => ({ tokens: burst, filledAtMs: nowMs });

/** Adds what has come in since the last time. */
export function refill(bucket: TokenBucket, { perS, burst }: Allowance, nowMs: number): void {
  bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.filledAtMs) / 1000) * perS);
  bucket.filledAtMs = nowMs;
}

export function tryTake(bucket: TokenBucket): boolean {
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

/**
 * One bucket for each name, with what it has at `nowMs`. Beyond `bucketsMax`, those that were quiet the longest are
 * forgotten, and start again full.
 */
export function createTokenBuckets(allowance: Allowance, bucketsMax: number) {
  const buckets = createLruCache<TokenBucket>({ entries: bucketsMax });
  return (name: string, nowMs: number): TokenBucket => {
    const known = buckets.get(name);
    if (known !== undefined) {
      refill(known, allowance, nowMs);
      return known;
    }
    const bucket = fullBucket(allowance, nowMs);
    buckets.set(name, bucket);
    return bucket;
  };
}
