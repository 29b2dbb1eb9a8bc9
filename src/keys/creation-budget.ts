// Limits how fast one user may create and rotate keys, counted in this process. Nothing else: each key is revoked and
// deleted at most once, and each new secret first used once, so this bounds all changes, and nobody who holds a user's
// token can keep its owner from revoking keys.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { type Allowance, createTokenBuckets, tryTake } from '../lib/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { type Actor, actorFields, personOf } from './actor.ts';

/** Twice as many at once as a user may hold, so that all can be replaced; then more than people and scripts make. */
const CREATIONS: Allowance = { perS: 20, burst: 2000 };
/** Users remembered. Beyond this, those quiet the longest are forgotten, and start again with a full budget. */
const USERS_MAX = 10_000;

export interface CreationBudget {
  /** Takes one creation or rotation out of the user's budget, or refuses it. */
  take(actor: Actor): Result<void, Problem>;
}

export function createCreationBudget(clock: Clock, log: Log): CreationBudget {
  const budgets = createTokenBuckets(CREATIONS, USERS_MAX);
  return {
    take(actor) {
      const person = personOf(actor);
      const budget = budgets(person, clock.monotonicMs());
      if (tryTake(budget)) return ok(undefined);
      log.warnThrottled('Rate limit exceeded', `user ${person}`, actorFields(actor));
      return err({ code: 'rate_limited', retryAfterS: Math.ceil((1 - budget.tokens) / CREATIONS.perS) });
    },
  };
}
