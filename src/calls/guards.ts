// Creates the guards for tools: API key, user token, admin, scopes and rate limits. Limits add their state for the
// response's headers (draft-ietf-httpapi-ratelimit-headers), also to refusals.

import { createWindowCounter } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { type LimitName, limitOf, type RateLimit, type RateLimitStates, withLimits } from '../ground/rate-limit.ts';
import { err } from '../ground/result.ts';
import { type Clock, parseDuration } from '../ground/runtime.ts';
import type { KeyIdentity, VerifiedKey } from '../keys/verify.ts';
import type { LogFields, RequestIds } from '../watch/log.ts';
import {
  apiKeyGuard,
  callerIds,
  type GuardedCall,
  type KeyAuth,
  type RevalidateKey,
  refuseScopes,
  type VerifyKey,
} from './api-key.ts';
import type { Call, CallProof } from './call.ts';
import { assertFields, CREATES_GUARDS, RATE_LIMIT } from './definition-checks.ts';
import { type Guard, PASS, type Rights, sequence } from './guard.ts';
import { type UserAuth, type UserJwtOptions, userJwtGuard } from './user-jwt.ts';

export interface Guards {
  /** Demands a signed-in person. Adds `auth`: the owner of the keys, the person, and what the person may grant. */
  readonly userJwt: Guard<Call, UserAuth>;
  /** Demands an admin (ADMIN_CLAIM); comes after `userJwt`. */
  readonly admin: Guard<Call & UserAuth>;
  /** Demands an API key within its rate limit and quota. Adds `auth`: the key's identity and scopes. */
  readonly apiKey: Guard<Call, KeyAuth>;
  /** Checks the limits of a verified key: the second half of `apiKey`. */
  readonly limits: Guard<Call & KeyAuth>;
  /** Demands each named scope, at least one, by exact string; comes after `apiKey`. */
  readonly scopes: (...required: readonly string[]) => Guard<ScopedCall>;
  /** Sets a tool's own limit: requests per bucket and window (`30s`, `5m`, `1h`, `1d`), in this process. */
  readonly rateLimit: <In extends Call>(limit: ToolLimit<In>) => Guard<In>;
}

/**
 * A call whose scopes are checked; without `scopes` it has none. The caller is for the log, the proof for the check before
 * the result.
 */
interface ScopedCall {
  readonly caller: RequestIds;
  readonly proof?: Pick<CallProof, 'demand'>;
  readonly auth: Partial<KeyIdentity>;
}

export interface ToolLimit<In> {
  /** A whole number, 1 or more. */
  readonly requests: number;
  readonly window: string;
  /** Picks the bucket; calls without one share the bucket `unknown`. A key's id stands for its children, too. */
  readonly key: (call: In) => string | undefined;
}

interface Admission {
  /** The state of all limits that count for the call. */
  readonly limits: RateLimitStates;
  /** Why it isn't admitted; null: it is. */
  readonly refusal: Problem | null;
}

export interface GuardsOptions extends UserJwtOptions {
  readonly verifyKey: VerifyKey;
  readonly revalidateKey: RevalidateKey;
  /** The limit of each key without its own. */
  readonly rateLimit: RateLimit | null;
  /** The limit of each person, for tools that demand a user token. */
  readonly userRateLimit: RateLimit | null;
  /** Counts a call of a key if all its limits and those of its owner admit it. All processes on a database share them. */
  readonly admit: (holder: VerifiedKey['holder'], units: number) => Admission;
  readonly clock: Clock;
  readonly observe?: (<In, Add extends object>(guard: Guard<In, Add>) => Guard<In, Add>) | undefined;
}

export function createGuards(options: GuardsOptions): Guards {
  const { verifyKey, revalidateKey, rateLimit, userRateLimit, admit, clock, log, observe = (guard) => guard } = options;

  const logRefused = (call: GuardedCall, bucket: string, fields?: LogFields): void =>
    log.warnThrottled('Rate limit exceeded', bucket, { ...callerIds(call), ...fields });

  // One guard for all tools: the limit is per key, not per key and tool.
  const countKey: Guard<Call & KeyAuth> = (call) => {
    const { key } = call.proof;
    if (key === null) throw new Error('limits: expected a call whose key was verified');
    const { limits, refusal } = admit(key.holder, call.cost);
    call.response.limits = limits;
    if (refusal === null) return PASS;
    const of = ('of' in refusal && refusal.of) || 'key';
    const event = refusal.code === 'quota_exceeded' ? 'Quota exceeded' : 'Rate limit exceeded';
    // An owner's keys share his bucket, however many of them are refused.
    const bucket = of === 'owner' ? `owner ${call.auth.subject}` : `key ${key.holder.id}`;
    log.warnThrottled(event, bucket, { ...callerIds(call), of });
    return err(refusal);
  };
  const perKey = Object.assign(countKey, { initialLimits: initialLimits(rateLimit, 'key') });

  const perPerson = createCountingGuard<Call & UserAuth>(userRateLimit, {
    name: 'user',
    clock,
    key: ({ auth }) => auth.actor,
    onRefused: (call, actor) => logRefused(call, `person ${actor}`),
  });

  const isAdmin = (rights: Rights) => rights.isAdmin === true;
  const admin: Guards['admin'] = (call) => {
    if (isAdmin(call.auth)) return PASS;
    log.warn('Admin required', callerIds(call));
    return err({ code: 'admin_required' });
  };

  function scopes(...required: readonly string[]): Guard<ScopedCall> {
    if (required.length === 0) throw new Error('scopes: expected one scope or more, got none: every key would pass');
    const admits = ({ scopes: held = [] }: Rights) => required.every((scope) => held.includes(scope));
    const decide: Guard<ScopedCall> = (call) => {
      const { auth } = call;
      if (!admits(auth)) return refuseScopes(log, call, required);
      call.proof?.demand(required);
      return PASS;
    };
    return observe(Object.assign(decide, { requiredScopes: required, follows: 'api_key' as const, admits }));
  }

  const rateLimitOf: Guards['rateLimit'] = (limit) =>
    observe(
      createCountingGuard(checkedLimit(limit), {
        clock,
        key: (call) => bucketOf(limit.key(call), call),
        onRefused: (call, bucket) => logRefused(call, `${call.tool} ${bucket}`, { tool: call.tool }),
      }),
    );

  return {
    limits: observe(perKey),
    userJwt: observe(sequence<Call, UserAuth, object>(userJwtGuard(options), perPerson)),
    admin: observe(Object.assign(admin, { follows: 'user_jwt' as const, admits: isAdmin })),
    apiKey: observe(sequence<Call, KeyAuth, object>(apiKeyGuard(verifyKey, log, revalidateKey), perKey)),
    scopes: Object.assign(scopes, CREATES_GUARDS),
    rateLimit: Object.assign(rateLimitOf, CREATES_GUARDS),
  };
}

/** Returns a tool's bucket. A child counts as its parent: else a key would get the limit again for each child. */
function bucketOf(bucket: string | undefined, { auth }: GuardedCall): string | undefined {
  return bucket === auth?.keyId ? (auth?.parentId ?? bucket) : bucket;
}

interface CountingOptions<In> {
  /** The limit's name in headers; `key` by default. */
  readonly name?: LimitName;
  readonly key: (call: In) => string | undefined;
  readonly onRefused: (call: In, bucket: string) => void;
  readonly clock: Clock;
}

/** Creates a guard that counts the calls of each bucket in this process. */
function createCountingGuard<In extends Call>(
  limit: RateLimit | null,
  { name = 'key', key, onRefused, clock }: CountingOptions<In>,
): Guard<In> {
  const [initial] = initialLimits(limit, name);
  if (initial === undefined) return () => PASS;
  const count = createWindowCounter(initial.limit, clock);
  const decide: Guard<In> = (call) => {
    const bucket = key(call) ?? 'unknown';
    if (typeof bucket !== 'string') throw new Error(`rate limit: expected key to return text, got ${typeof bucket}`);
    const { isAdmitted, remaining, resetS } = count(bucket);
    const { response } = call;
    response.limits = withLimits(response.limits, [{ ...initial, remaining, resetS }]);
    if (isAdmitted) return PASS;
    onRefused(call, bucket);
    return err({ code: 'rate_limited', retryAfterS: resetS });
  };
  return Object.assign(decide, { initialLimits: [initial] });
}

/** Returns the limit before any call; an empty list if it is off. */
const initialLimits = (limit: RateLimit | null, name: LimitName): RateLimitStates =>
  limit === null ? [] : [{ name, limit, remaining: limit.requests, resetS: limit.windowS }];

/** Parses a tool's own limit. Throws an Error if it is invalid. */
function checkedLimit(limit: ToolLimit<never>): RateLimit {
  assertFields('rate limit', RATE_LIMIT, { ...limit });
  return limitOf(limit.requests, (parseDuration(limit.window) ?? 0) / 1000); // not null: RATE_LIMIT has a rule
}
