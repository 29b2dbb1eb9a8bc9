// Describes who acts on keys (request, owner, person) and how the log and the trail name them, and limits how fast one
// person acts.

import { createTokenBuckets, type Rate } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { Log, LogFields, RequestIds } from '../watch/log.ts';

/** Who a token of another issuer is about. */
export interface Workload {
  readonly issuer: string;
  readonly subject: string;
}

/** A workload, with the id of the rule that lets its tokens in. */
export interface RuledWorkload extends Workload {
  readonly rule: string;
}

export interface Caller extends RequestIds {
  /** Costs a system call, so call it late. */
  clientAddress(): string;
  /** Resolves whether the client has hung up, and left no address for the trail. */
  hasLeft?(): Promise<boolean>;
  /** The key of the service that verifies others' keys: look-ups of unknown keys count against it, not the address. */
  readonly lookupKeyId?: string | undefined;
  /** The servers that a key is presented for, as sent; none: this one; `any`: whichever it is good for. */
  readonly resources?: readonly string[] | 'any' | undefined;
  /** The URL of this server as the request addresses it; undefined outside a request. */
  readonly publicUrl?: string | undefined;
}

export interface Origin {
  readonly how: 'tool' | 'page' | 'possession' | 'use' | 'command' | 'import' | 'oauth' | 'device' | 'exchange';
  /** The `sub` of a user token; for `oauth`, the host that got the key; for a command, who ran it. */
  readonly actor: string | null;
  readonly requestId: string | null;
  readonly address: string | null;
  /** Whether an admin acts, on any owner's key. */
  readonly byAdmin?: true;
  /** The id of the client that got the key, if it is the URL of a client metadata document. */
  readonly client?: string;
  /** Whose token did it, by which rule. */
  readonly workload?: RuledWorkload;
}

export type OriginOf = ReturnType<typeof createOriginOf>;

export const createOriginOf =
  (withAddresses: boolean) =>
  (how: Origin['how'], caller: Caller, actor?: string): Origin => ({
    how,
    actor: actor ?? null,
    requestId: caller.requestId,
    address: withAddresses ? caller.clientAddress() : null,
  });

export interface Person {
  /** The owner. A team's members share one. */
  readonly userId: string;
  /** The person: the token's `sub`. */
  readonly actor: string;
  /** The scopes that the person may grant; null: any. */
  readonly grantable: readonly string[] | null;
}

export interface Actor extends Caller, Person {}

/**
 * Copies the ids, URL and address of a caller. Leaves out `hasLeft`: requests that make or exchange keys are asked for their
 * address at once (web/context.ts). No spread: RequestCaller has getters.
 */
const copyOf = (caller: Caller): Caller => ({
  requestId: caller.requestId,
  traceId: caller.traceId,
  publicUrl: caller.publicUrl,
  clientAddress: () => caller.clientAddress(),
});

export const actorBy = (caller: Caller, { userId, actor, grantable }: Person): Actor => ({
  ...copyOf(caller),
  userId,
  actor,
  grantable,
});

/** Returns the caller as one that presents a key for these servers. */
export const callerFor = (caller: Caller, resources: Caller['resources']): Caller => ({
  ...copyOf(caller),
  resources,
});

export const actorFields = ({ userId, actor, requestId, traceId }: RequestIds & Pick<Actor, 'userId' | 'actor'>) => ({
  requestId,
  traceId,
  userId,
  ...(actor !== userId && { actor }),
});

/**
 * Returns the key of a person's token buckets. By the owner alone, one member of a team could lock the others out; by
 * the person alone, owners whose tokens share a `sub` could. The separator is safe: no id has control characters. Throws an
 * Error if either is missing.
 */
export function personOf({ userId, actor }: Pick<Actor, 'userId' | 'actor'>): string {
  // In JavaScript a tool file may leave them out. No key would end, without an error, and none could be created.
  if (typeof userId !== 'string' || typeof actor !== 'string') {
    throw new Error(`keys: expected userId and actor as texts, got ${typeof userId} and ${typeof actor}`);
  }
  return actor === userId ? userId : `${userId}\0${actor}`;
}

/** Creates rate limits in this process that count together. `what` distinguishes their throttled lines in the log. */
export function createBudget(what: string, rates: readonly Rate[], clock: Clock, log: Log) {
  const budgets = rates.map((rate) => createTokenBuckets(rate, clock));

  const waitOf = (who: string) => Math.max(...budgets.map((budget) => budget.waitS(who)));

  return {
    /** Takes one token from each bucket of theirs, or none if any is empty. `fields`: who it is, for the log. */
    take(who: string, fields: LogFields): Result<void, Problem> {
      const seconds = waitOf(who);
      if (seconds === 0) {
        for (const budget of budgets) budget.take(who);
        return ok(undefined);
      }
      log.warnThrottled('Rate limit exceeded', `${what} ${who}`, fields);
      return err({ code: 'rate_limited', retryAfterS: Math.ceil(seconds) });
    },
    give(who: string): void {
      for (const budget of budgets) budget.give(who, 1);
    },
    isUsedUp: (who: string): boolean => waitOf(who) > 0,
  };
}

export type PersonBudget = ReturnType<typeof createPersonBudget>;

/** Creates rate limits for what one person does with keys, in this process. */
export function createPersonBudget(rates: readonly Rate[], clock: Clock, log: Log) {
  const budget = createBudget('user', rates, clock, log);
  return {
    take: (actor: Actor) => budget.take(personOf(actor), actorFields(actor)),
    isUsedUp: (actor: Actor) => budget.isUsedUp(personOf(actor)),
  };
}
