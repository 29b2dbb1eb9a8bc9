// A guard decides whether a call may go on. It returns what it adds to the context, or a problem; it never answers
// itself.

import type { RateLimitState } from '../http/headers.ts';
import { type Awaitable, chain, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';

/** What a caller is asked to bring: a user's token, or an API key. */
export type Credential = 'user_jwt' | 'api_key';

/**
 * A decision over a context. `In` is what must already be there, `Add` what the guard adds: because composition
 * checks both, a scope guard before the key guard does not compile.
 */
export interface Guard<In, Add extends object = object> {
  (context: In): Awaitable<Result<Add, Problem>>;
  /** The credential it asks for, if any; used in descriptions and challenges. */
  readonly credential?: Credential | undefined;
  /** Full quota, for the RateLimit headers of calls that an earlier guard refuses. */
  readonly unusedLimit?: RateLimitState | undefined;
}

/** The result of a guard that allows the call and adds nothing. */
export const ADDS_NOTHING: { readonly ok: true; readonly value: object } = { ok: true, value: {} };

/** `context` with what a guard added. A composed guard has put it there already and returns the context itself. */
export function extend<Context extends object, Add extends object>(context: Context, added: Add): Context & Add {
  if ((added as object) === context || added === ADDS_NOTHING.value) return context as Context & Add;
  const extended = context as Context & Add;
  for (const name of Object.keys(added) as (keyof Add)[]) extended[name] = added[name] as (Context & Add)[keyof Add];
  return extended;
}

/**
 * `first`, then `second` with what `first` added; the first refusal is the answer. The context belongs to one call, so
 * what guards add is put into it rather than into a copy. NoInfer: the types come from the guards, not from the type
 * expected of the result.
 */
export function both<In extends object, A extends object, B extends object>(
  first: Guard<In, A>,
  second: Guard<In & A, B>,
): NoInfer<Guard<In, A & B>> {
  function goOn(added: Result<A, Problem>, context: In): Awaitable<Result<A & B, Problem>> {
    if (!added.ok) return added;
    const extended = extend(context, added.value);
    return chain(second(extended), finish, extended);
  }
  const finish = (more: Result<B, Problem>, extended: In & A): Result<A & B, Problem> =>
    more.ok ? ok(extend(extended, more.value)) : more;
  const decide = (context: In) => chain(first(context), goOn, context);
  return Object.assign(decide, {
    credential: first.credential ?? second.credential,
    unusedLimit: second.unusedLimit ?? first.unusedLimit,
  });
}
