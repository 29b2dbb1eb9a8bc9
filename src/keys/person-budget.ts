// Limits how fast one person may do something with keys, counted in this process.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { createTokenBuckets, type Rate } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import { type Actor, actorFields, personOf } from './actor.ts';

export interface PersonBudget {
  /** Takes one out of each of the person's budgets, or none, and refuses it. */
  take(actor: Actor): Result<void, Problem>;
}

export function createPersonBudget(rates: readonly Rate[], clock: Clock, log: Log): PersonBudget {
  const budgets = rates.map((rate) => createTokenBuckets(rate, clock));
  return {
    take(actor) {
      const person = personOf(actor);
      const waits = budgets.map((budget) => budget.take(person));
      const seconds = Math.max(...waits);
      if (seconds === 0) return ok(undefined);
      for (const [index, budget] of budgets.entries()) if (waits[index] === 0) budget.give(person, 1);
      log.warnThrottled('Rate limit exceeded', `user ${person}`, actorFields(actor));
      return err({ code: 'rate_limited', retryAfterS: Math.ceil(seconds) });
    },
  };
}
