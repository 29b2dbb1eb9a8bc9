// Limits how fast one user may create keys, counted in this process. Only creations: each key is revoked and deleted at
// most once, so this bounds all changes, and nobody who holds a user's token can keep its owner from revoking keys.

import { createLruCache } from '../lib/lru-cache.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { type Allowance, fullBucket, refill, type TokenBucket, tryTake } from './token-bucket.ts';

/** Twice as many at once as a user may hold, so that all can be replaced; then more than people and scripts make. */
const CREATIONS: Allowance = { perS: 20, burst: 2000 };
/** Users remembered. Beyond this, those quiet the longest are forgotten, and start again with a full budget. */
const USERS_MAX = 10_000;
/** Between two log lines about one user. */
const LOG_EVERY_MS = 1000;

interface Creator extends TokenBucket {
  /** Monotonic. */
  loggedAtMs: number;
  /** Refused without a log line since. */
  suppressed: number;
}

export interface CreationBudget {
  /** Takes one creation out of the user's budget, or refuses it. */
  take(userId: string, requestId: string): Result<void, Problem>;
}

export function createCreationBudget(clock: Clock, log: Log): CreationBudget {
  const creators = createLruCache<Creator>({ entries: USERS_MAX });

  function creatorOf(userId: string, nowMs: number): Creator {
    const known = creators.get(userId);
    if (known !== undefined) {
      refill(known, CREATIONS, nowMs);
      return known;
    }
    const creator = { ...fullBucket(CREATIONS, nowMs), loggedAtMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
    creators.set(userId, creator);
    return creator;
  }

  function logRefusal(creator: Creator, nowMs: number, userId: string, requestId: string): void {
    if (nowMs - creator.loggedAtMs < LOG_EVERY_MS) {
      creator.suppressed += 1;
      return;
    }
    log.warn('Rate limit exceeded', { requestId, userId, suppressed: creator.suppressed });
    creator.loggedAtMs = nowMs;
    creator.suppressed = 0;
  }

  return {
    take(userId, requestId) {
      const nowMs = clock.monotonicMs();
      const creator = creatorOf(userId, nowMs);
      if (tryTake(creator)) return ok(undefined);
      logRefusal(creator, nowMs, userId, requestId);
      return err({ code: 'rate_limited', retryAfterS: Math.ceil((1 - creator.tokens) / CREATIONS.perS) });
    },
  };
}
