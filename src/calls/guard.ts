// Defines guards and their composition. A guard decides whether a call may proceed: it returns what it adds to the
// context, or a problem. It never responds.

import type { Problem } from '../ground/problem.ts';
import { type RateLimitStates, withLimits } from '../ground/rate-limit.ts';
import { type Awaitable, isPromise, ok, type Result } from '../ground/result.ts';
import type { Call } from './call.ts';
import { assertSequence } from './definition-checks.ts';

export type Credential = 'user_jwt' | 'api_key';

/** What a good credential gives whoever presents it. */
export interface Rights {
  readonly scopes?: readonly string[];
  readonly isAdmin?: boolean;
}

/**
 * A decision on a call. It needs `In` in the context and adds `Add`. `sequence` checks both, so that a scope guard
 * before the key guard doesn't compile.
 */
export interface Guard<In, Add extends object = object> {
  (context: In): Awaitable<Result<Add, Problem>>;
  /** The credential that it demands, for descriptions and challenges. */
  readonly credential?: Credential | undefined;
  /** The scopes it demands of an API key. */
  readonly requiredScopes?: readonly string[] | undefined;
  /** The credential that a guard before it must have checked. */
  readonly follows?: Credential | undefined;
  /** Returns whether it admits these rights, for lists of what one may call; by default any. */
  readonly admits?: ((rights: Rights) => boolean) | undefined;
  /** Its limits before any call, for the RateLimit headers if an earlier guard refuses. */
  readonly initialLimits?: RateLimitStates | undefined;
}

/** The result of a guard that allows the call and adds nothing. */
export const PASS: { readonly ok: true; readonly value: object } = { ok: true, value: {} };

/** What every call has, and whether a guard may set it. */
const SET_BY_GUARDS: Readonly<Record<keyof Call, boolean>> = {
  caller: false,
  proof: false,
  response: false,
  tool: false,
  progress: false,
  clientCapabilities: false,
  asking: false,
  audience: false,
  cost: false,
  reportsProgress: false,
  isAborted: false,
  abort: false,
  begin: false,
  end: false,
  requestId: false,
  trace: false,
  clientAddress: false,
  forWidget: true,
  limits: false,
  ask: false,
  signal: false,
};

/**
 * Adds a guard's result to the call's context. A sequence returns the context itself, which has everything already. Throws
 * an Error for what would replace a part of the call: tool files may add anything, or return no value at all.
 */
export function addTo<Context extends object, Add extends object>(context: Context, added: Add): Context & Add {
  if ((added as object) === context || added === PASS.value) return context as Context & Add;
  for (const name in added) {
    // Set as a field, `__proto__`, which parsed JSON may have, would replace the methods of the call.
    const isTaken = SET_BY_GUARDS[name as keyof Call] === false || name === '__proto__';
    if (isTaken && added[name] !== Reflect.get(context, name)) {
      throw new Error(`guard: expected it to add another name than ${name}, which every call has`);
    }
  }
  return Object.assign(context, added);
}

/**
 * Runs guards one after another, each with what the earlier ones added. The first refusal is the result. Demands the
 * credential of the first guard that has one, and the scopes of all. NoInfer: only the guards determine the types.
 *
 * Throws an Error for what the compiler refuses, because tool files may run without it.
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
  assertSequence(guards);
  const credential = guards.find((guard) => guard.credential !== undefined)?.credential;
  return Object.assign((context: object) => runFrom(guards, 0, context), {
    credential,
    requiredScopes: guards.flatMap(({ requiredScopes = [] }) => requiredScopes),
    follows: guards.find(({ follows }) => follows !== undefined && follows !== credential)?.follows,
    admits: (rights: Rights) => guards.every(({ admits }) => admits?.(rights) ?? true),
    initialLimits: guards.map(({ initialLimits = [] }) => initialLimits).reduce(withLimits, []),
  });
}

function runFrom(guards: readonly Guard<object>[], start: number, context: object): ReturnType<Guard<object>> {
  for (let at = start; at < guards.length; at += 1) {
    const result = (guards[at] as Guard<object>)(context);
    if (isPromise(result)) return resumeAfter(result, guards, at, context);
    if (!result?.ok) return result; // in JavaScript a guard may return nothing
    addTo(context, result.value);
  }
  return ok(context);
}

/** Waits for the guard at position `at`, then runs the rest. Synchronous guards need no promise. */
async function resumeAfter(
  pending: Promise<Result<object, Problem>>,
  guards: readonly Guard<object>[],
  at: number,
  context: object,
): Promise<Result<object, Problem>> {
  const result = await pending;
  return result?.ok ? runFrom(guards, at + 1, addTo(context, result.value)) : result;
}
