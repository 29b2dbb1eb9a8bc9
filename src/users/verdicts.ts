// Remembers tokens that were good, by their hash, so that no token stays in memory longer than its request.

import { createLruCache } from '../ground/cache.ts';
import type { Clock } from '../ground/runtime.ts';
import type { KeysOf } from './verification-keys.ts';

const VERDICT_TTL_MS = 5 * 60_000;
const VERDICTS_MAX = 10_000; // about 3 MB

/** What the check of a good token has found. */
export interface Verdict<T> {
  readonly value: T;
  /** The token's `exp`, by the wall clock. */
  readonly endsAtMs: number;
  /** The keys that verified the signature. It counts only while its source has the same. */
  readonly by: KeysOf;
}

interface Remembered<T> extends Verdict<T> {
  /** The end of VERDICT_TTL_MS, monotonic, so that setting the wall clock back extends nothing. */
  readonly untilMs: number;
}

/** Bounds the bytes of all verdicts together. */
interface Bounds<T> {
  readonly bytes: number;
  readonly bytesOf: (verdict: Verdict<T>) => number;
}

export type Verdicts<T> = ReturnType<typeof createVerdicts<T>>;

export function createVerdicts<T>(clock: Clock, bounds?: Bounds<T>) {
  const verdicts = createLruCache<Remembered<T>>({ entries: VERDICTS_MAX, ...bounds });
  return {
    /** Returns what was found of a token, while that counts. */
    recall(tokenHash: string): T | undefined {
      const known = verdicts.get(tokenHash);
      if (known === undefined) return undefined;
      const { by, endsAtMs, untilMs } = known;
      const counts = by.keys === by.source.current() && clock.nowMs() < endsAtMs && clock.monotonicMs() < untilMs;
      if (counts) return known.value;
      verdicts.delete(tokenHash);
      return undefined;
    },
    remember(tokenHash: string, verdict: Verdict<T>): void {
      verdicts.set(tokenHash, { ...verdict, untilMs: clock.monotonicMs() + VERDICT_TTL_MS });
    },
  };
}
