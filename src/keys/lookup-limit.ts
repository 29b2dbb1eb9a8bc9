// Limits how often unknown keys from one source may have the store asked, and so what a flood of guesses can cost.
//
// Each source has a token bucket of reads. Only keys that turn out wrong use it up, so honest callers have all of it. A
// caller over budget waits a little, then gets 429. A key that comes back as Retry-After asks is looked up together with
// all others that came back (joint-reads.ts), once. There are places for more of those than a server can be asked for,
// so whatever the flood is made of, an honest key from the same address gets in when it comes back.

import { createLruCache } from '../lib/lru-cache.ts';
import type { Awaitable } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { sleep } from '../lib/timeout.ts';
import { createRefusalTimes } from './refusal-times.ts';
import { type Allowance, fullBucket, refill, type TokenBucket, tryTake } from './token-bucket.ts';

/**
 * Unknown keys a source may have read one by one: at 40 µs each, under 1 % of a core. The burst is for a cold start, when
 * many honest callers behind one proxy present many keys at once.
 */
const MISSES: Allowance = { perS: 200, burst: 1000 };

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

export interface LookupLimit {
  /** `alone`, now or after a short wait, takes one read out of the source's budget. */
  admit(source: string, keyHash: string): Awaitable<Admission>;
  /** Gives a read back: the key was known after all. */
  refund(source: string): void;
  /** The key could not be looked up: it may come back. */
  refuse(keyHash: string): void;
}

interface Source extends TokenBucket {
  waiting: number;
}

export function createLookupLimit(clock: Clock): LookupLimit {
  const sources = createLruCache<Source>({ entries: SOURCES_MAX });
  const refusedAtMs = createRefusalTimes();
  let waiting = 0;

  function sourceAt(name: string, nowMs: number): Source {
    const known = sources.get(name);
    if (known !== undefined) {
      refill(known, MISSES, nowMs);
      return known;
    }
    const source = { ...fullBucket(MISSES, nowMs), waiting: 0 };
    sources.set(name, source);
    return source;
  }

  async function wait(source: Source, keyHash: string): Promise<Admission> {
    source.waiting += 1;
    waiting += 1;
    await sleep(Math.random() * WAIT_MS_MAX);
    source.waiting -= 1;
    waiting -= 1;
    const nowMs = clock.monotonicMs();
    refill(source, MISSES, nowMs);
    return tryTake(source) ? 'alone' : refuse(keyHash, nowMs);
  }

  function refuse(keyHash: string, nowMs: number): Admission {
    // It waits from the first time on, however often it comes.
    if (refusedAtMs.get(keyHash) === undefined) refusedAtMs.set(keyHash, nowMs);
    return 'refused';
  }

  return {
    admit(name, keyHash) {
      const nowMs = clock.monotonicMs();
      const source = sourceAt(name, nowMs);
      if (tryTake(source)) return 'alone';
      const earlierMs = refusedAtMs.get(keyHash);
      if (earlierMs !== undefined && nowMs - earlierMs >= RETURN_AFTER_MS) {
        refusedAtMs.delete(keyHash);
        return 'together';
      }
      const mayWait = source.waiting < WAITING_PER_SOURCE && waiting < WAITING_MAX;
      return mayWait ? wait(source, keyHash) : refuse(keyHash, nowMs);
    },
    refund(source) {
      sourceAt(source, clock.monotonicMs()).tokens += 1;
    },
    refuse(keyHash) {
      refusedAtMs.set(keyHash, clock.monotonicMs());
    },
  };
}
