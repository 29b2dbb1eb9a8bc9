// Token buckets: what may be used up at once, and how fast it comes back.

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
