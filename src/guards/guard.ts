// A guard decides whether a call may go on. It returns what it adds to the context, or a problem; it never responds
// itself.

import { beside, type RateLimitState } from '../lib/rate-limit.ts';
import { type Awaitable, isPromise, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

/** What a caller is asked to bring: a user's token, or an API key. */
export type Credential = 'user_jwt' | 'api_key';

/**
 * A decision over a context. `In` is what must already be there, `Add` what the guard adds: because `sequence`
 * checks both, a scope guard before the key guard does not compile.
 */
export interface Guard<In, Add extends object = object> {
  (context: In): Awaitable<Result<Add, Problem>>;
  /** The credential it asks for, if any; used in descriptions and challenges. */
  readonly credential?: Credential | undefined;
  /** The scopes it demands of an API key, if any. */
  readonly requiredScopes?: readonly string[] | undefined;
  /** The full quota of its rate limit, if any, for the RateLimit headers of calls that an earlier guard refuses. */
  readonly fullQuota?: RateLimitState | undefined;
}

/** The result of a guard that allows the call and adds nothing. */
export const PASS: { readonly ok: true; readonly value: object } = { ok: true, value: {} };

/**
 * Puts what a guard added into the context, which belongs to one call. A sequence has done so already and returns the
 * context itself.
 */
export function addTo<Context extends object, Add extends object>(context: Context, added: Add): Context & Add {
  if ((added as object) === context || added === PASS.value) return context as Context & Add;
  return Object.assign(context, added);
}

/**
 * Guards one after another, each with what those before it added; the first refusal is the result. Asks for the
 * credential of the first guard that has one, and for the scopes of all. NoInfer: the types come from the guards, not from
 * the type expected of the result.
 *
 * Throws an Error for what the compiler would refuse too, because tool files start without it.
 */
export function sequence<In extends object, A extends object, B extends object>(
  a: Guard<In, A>,
  b: Guard<In & A, B>,
): NoInfer<Guard<In, A & B>>;
export function sequence<In extends object, A extends object, B extends object, C extends object>(
  a: Guard<In, A>,
  b: Guard<In & A, B>,
  c: Guard<In & A & B, C>,
): NoInfer<Guard<In, A & B & C>>;
export function sequence<In extends object, A extends object, B extends object, C extends object, D extends object>(
  a: Guard<In, A>,
  b: Guard<In & A, B>,
  c: Guard<In & A & B, C>,
  d: Guard<In & A & B & C, D>,
): NoInfer<Guard<In, A & B & C & D>>;
export function sequence(...guards: readonly Guard<object>[]): Guard<object> {
  const odd = guards.findIndex((guard) => typeof guard !== 'function');
  if (odd !== -1) throw new Error(`sequence: expected a guard in place ${odd + 1}, got ${typeof guards[odd]}`);
  const scopesAt = guards.findIndex(({ credential, requiredScopes = [] }) => !credential && requiredScopes.length > 0);
  if (scopesAt !== -1 && guards.findIndex(({ credential }) => credential !== undefined) > scopesAt) {
    throw new Error('sequence: expected the guard of scopes after that of the API key');
  }
  const quotas = guards.flatMap(({ fullQuota }) => fullQuota ?? []);
  return Object.assign((context: object) => runFrom(guards, 0, context), {
    credential: guards.find(({ credential }) => credential !== undefined)?.credential,
    requiredScopes: guards.flatMap(({ requiredScopes = [] }) => requiredScopes),
    fullQuota: quotas.reduce<RateLimitState | undefined>(beside, undefined),
  });
}

/** Runs the guards from position `start` on. */
function runFrom(guards: readonly Guard<object>[], start: number, context: object): ReturnType<Guard<object>> {
  for (let at = start; at < guards.length; at += 1) {
    const result = (guards[at] as Guard<object>)(context);
    if (isPromise(result)) return resumeAfter(result, guards, at, context);
    if (!result.ok) return result;
    addTo(context, result.value);
  }
  return ok(context);
}

/** Waits for the guard at position `at`, then runs the rest. A call whose guards are all synchronous makes no promise. */
async function resumeAfter(
  result: Promise<Result<object, Problem>>,
  guards: readonly Guard<object>[],
  at: number,
  context: object,
): Promise<Result<object, Problem>> {
  const arrived = await result;
  if (!arrived.ok) return arrived;
  addTo(context, arrived.value);
  return runFrom(guards, at + 1, context);
}
