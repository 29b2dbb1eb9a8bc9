// Limits how often unknown keys from one source may have the store asked, and so what a flood of guesses can cost.
//
// Each source has a token bucket of reads. Only keys that turn out wrong use it up, so honest callers have all of it. A
// caller over budget waits a little, then gets 429. A key that comes back as Retry-After asks is looked up together with
// all others that came back (joint-reads.ts), once. There are places for more of those than a server can be asked for,
// so whatever the flood is made of, an honest key from the same address gets in when it comes back.

import { type Awaitable, err, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { sleep } from '../lib/timeout.ts';
import type { Rate } from '../limits/index.ts';
import { createTokenBuckets } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { createRefusalTimes } from './refusal-times.ts';

/**
 * Unknown keys a source may have read one by one: at 40 µs each, under 1 % of a core. The burst is for a cold start, when
 * many honest callers behind one proxy present many keys at once.
 */
const MISSES: Rate = { perS: 200, burst: 1000 };

/** A refused key that comes back sooner than this did not wait as it was told. */
const RETURN_AFTER_MS = 900;

/** Sources remembered. Beyond this, those quiet the longest are forgotten, and start again with a full budget. */
const SOURCES_MAX = 10_000;

/**
 * Callers that may wait, per source and in all, and how long. Their connections ask for nothing else meanwhile, which
 * leaves more of the processor to others.
 */
const WAITING_PER_SOURCE = 16;

const WAITING_MAX = 1000;

const WAIT_MS_MAX = 100;

/** How the store may be asked for a key, if at all. */
export type Admission = 'alone' | 'together' | 'refused';

/** A source that is not an address: a key that asks about others (Call.lookupSource). */
const KEY_SOURCE = /^key (.+)$/;

/** Who asks for keys that may be unknown. */
export interface Asker {
  /** Whose budget is used up. */
  readonly source: string;
  readonly requestId: string;
}

/** The refusal of a source that has used up its budget, and the line that names it. */
export function tooManyUnknown(log: Log, { source, requestId }: Asker, retryAfterS: number): Result<never, Problem> {
  const keyId = KEY_SOURCE.exec(source)?.[1];
  const named = keyId === undefined ? { address: source } : { keyId };
  log.warnThrottled('Too many unknown keys', source, { requestId, ...named });
  return err({ code: 'rate_limited', retryAfterS });
}

export interface LookupLimit {
  /** `alone`, now or after a short wait, takes one read out of the source's budget. */
  admit(source: string, keyHash: string): Awaitable<Admission>;
  /** Takes this many reads out of the source's budget, or none, and returns the seconds until it has them. */
  takeAll(source: string, count: number): number;
  /** True if all of these were refused long enough ago: they are looked up together, once. Else they may come back. */
  cameBack(keyHashes: readonly string[]): boolean;
  /** Gives reads back: the keys were known after all. */
  refund(source: string, count?: number): void;
  /** The key could not be looked up: it may come back. */
  refuse(keyHash: string): void;
}

export function createLookupLimit(clock: Clock): LookupLimit {
  const budgets = createTokenBuckets(MISSES, clock, SOURCES_MAX);
  const refusedAtMs = createRefusalTimes();
  const waiting = new Map<string, number>(); // by source
  let waitingInAll = 0;

  function countWaiting(source: string, change: 1 | -1): void {
    const count = (waiting.get(source) ?? 0) + change;
    if (count === 0) waiting.delete(source);
    else waiting.set(source, count);
    waitingInAll += change;
  }

  async function wait(source: string, keyHash: string): Promise<Admission> {
    countWaiting(source, 1);
    await sleep(Math.random() * WAIT_MS_MAX);
    countWaiting(source, -1);
    const nowMs = clock.monotonicMs();
    return budgets.take(source) === 0 ? 'alone' : refuse(keyHash, nowMs);
  }

  function hasWaited(keyHash: string, nowMs: number): boolean {
    const earlierMs = refusedAtMs.get(keyHash);
    return earlierMs !== undefined && nowMs - earlierMs >= RETURN_AFTER_MS;
  }

  function refuse(keyHash: string, nowMs: number): Admission {
    // It waits from the first time on, however often it comes.
    if (refusedAtMs.get(keyHash) === undefined) refusedAtMs.set(keyHash, nowMs);
    return 'refused';
  }

  return {
    admit(source, keyHash) {
      const nowMs = clock.monotonicMs();
      if (budgets.take(source) === 0) return 'alone';
      if (hasWaited(keyHash, nowMs)) {
        refusedAtMs.delete(keyHash);
        return 'together';
      }
      const mayWait = (waiting.get(source) ?? 0) < WAITING_PER_SOURCE && waitingInAll < WAITING_MAX;
      return mayWait ? wait(source, keyHash) : refuse(keyHash, nowMs);
    },
    takeAll: (source, count) => Math.ceil(budgets.take(source, count)),
    cameBack(keyHashes) {
      const nowMs = clock.monotonicMs();
      const waited = keyHashes.every((hash) => hasWaited(hash, nowMs));
      for (const hash of keyHashes) {
        if (waited) refusedAtMs.delete(hash);
        else refuse(hash, nowMs);
      }
      return waited;
    },
    refund: (source, count = 1) => budgets.give(source, count),
    refuse(keyHash) {
      refusedAtMs.set(keyHash, clock.monotonicMs());
    },
  };
}
