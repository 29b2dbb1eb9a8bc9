// Who asks for something to be done with keys: the request it comes from, the owner, the person; what the log and the
// event of a change say of them, and how fast one person may ask.

import { err, ok, type Result } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { createTokenBuckets, type Rate } from '../limits/token-bucket.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';

/** What the log calls a request. */
export interface RequestIds {
  readonly requestId: string;
  /** Of the trace that the request belongs to, if its caller keeps one. */
  readonly traceId?: string | undefined;
}

/** Where a request comes from. */
export interface Caller extends RequestIds {
  /** Costs a system call: ask late. */
  clientAddress(): string;
  /** The key that asks about others: its budget of unknown keys is used up, and not that of the address. */
  readonly lookupKeyId?: string | undefined;
}

export interface Origin {
  readonly how: 'tool' | 'possession' | 'use' | 'command' | 'import' | 'oauth';
  /** The `sub` of a user token; how `oauth`, the host that got the key. */
  readonly actor: string | null;
  readonly requestId: string | null;
  readonly address: string | null;
}

export type OriginOf = (how: Origin['how'], caller: Caller, actor?: string) => Origin;

export const createOriginOf =
  (withAddresses: boolean): OriginOf =>
  (how, caller, actor) => ({
    how,
    actor: actor ?? null,
    requestId: caller.requestId,
    address: withAddresses ? caller.clientAddress() : null,
  });

export interface Actor extends Caller {
  /** The owner. A team's members share one. */
  readonly userId: string;
  /** The person: the token's `sub`. */
  readonly actor: string;
  /** The scopes that the person may give to a key; null: any. */
  readonly grantable: readonly string[] | null;
}

/** What the log says of an actor. */
export const actorFields = ({ userId, actor, requestId, traceId }: RequestIds & Pick<Actor, 'userId' | 'actor'>) => ({
  requestId,
  traceId,
  userId,
  ...(actor !== userId && { actor }),
});

/**
 * What limits on conduct go by: the person for this owner. By the owner alone, a member of a team could use up its
 * turns and lock the others out; by the person alone, owners whose tokens share one `sub` could. No id has controls.
 */
export const personOf = ({ userId, actor }: Pick<Actor, 'userId' | 'actor'>): string =>
  actor === userId ? userId : `${userId}\0${actor}`;

/** How fast one person may do something with keys, counted in this process. */
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

/** Says why the store gave no response, once for an outage: the caller is told only that it gave none. */
export const logOutOfReach = (log: Log, { requestId, traceId }: RequestIds, { reason }: StoreUnavailable): void =>
  log.warnOnce('key store out of reach', { requestId, traceId, reason });

/** The same result; the log says why, if the store gave none. */
export function logged<T, E extends Problem>(log: Log, result: Result<T, E>, caller: RequestIds): Result<T, E> {
  if (!result.ok && result.error.code === 'store_unavailable') logOutOfReach(log, caller, result.error);
  return result;
}
