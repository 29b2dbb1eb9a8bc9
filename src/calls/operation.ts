// What a call of a tool or prompt runs: guards, then input, then one function, then the output check. run.ts runs it.

import { addTo, type Credential, type Guard } from '../guards/guard.ts';
import type { UserIdentity } from '../guards/user-jwt.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import type { RateLimitState } from '../lib/rate-limit.ts';
import { type Awaitable, chain, err, ok, type Result } from '../lib/result.ts';
import { bytesInMemory, isObject } from '../lib/text.ts';
import { LIMITS } from '../limits/index.ts';
import type { InvalidInput, Problem } from '../problem.ts';
import type { Asking, InputRequired } from './ask.ts';
import type { Call } from './call.ts';
import { isProblem } from './failure.ts';

/**
 * The JSON text of a success, encoded once for every transport: the output, a ToolContent, or the members of the result
 * that asks for more input (MCP 2026-07-28).
 */
export type Output = CompleteOutput | { readonly inputRequired: string };

export type CompleteOutput =
  | { readonly json: string; readonly widgetJson?: string } // with what is for the widget alone
  | { readonly contentJson: string; readonly isError: boolean };

export interface Operation {
  readonly kind: 'tool' | 'prompt' | 'completion';
  readonly name: string;
  /** What its guards ask for; null: no credential. */
  readonly credential: Credential | null;
  readonly requiredScopes: readonly string[];
  readonly timeoutMs: number;
  /** The rate limit that responses show when an earlier guard refused; null: there is none. */
  readonly initialLimit: RateLimitState | null;
  /** Guards, then input, then run, then output check. Call it through run.ts. */
  readonly invoke: (input: unknown, call: Call) => Awaitable<Result<Output, Problem>>;
}

interface Parts<Kind, Added extends object, I, O> {
  readonly kind: Kind;
  readonly name: string;
  readonly timeoutMs: number | undefined;
  readonly parse: (input: unknown) => Result<I, InvalidInput>;
  readonly run: (input: I, context: Call & Added) => Awaitable<Result<O, Problem | InputRequired>>;
  readonly encode: (output: O, call: Call) => CompleteOutput;
}

interface Invocation {
  readonly input: unknown;
  readonly call: Call;
}

/** The longest a timer can wait, 24 days; with a longer time it would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

export const TOOL_TIMEOUT_MS = 60_000; // the MCP SDK's clients also give up then

export function operationOf<Kind extends Operation['kind'], Added extends object, I, O>(
  guard: Guard<Call, Added>,
  { kind, name, timeoutMs = TOOL_TIMEOUT_MS, parse, run, encode }: Parts<Kind, Added, I, O>,
): Operation & { readonly kind: Kind } {
  if (!(timeoutMs > 0 && timeoutMs <= TIMEOUT_MS_MAX)) {
    throw new Error(`${name}: timeoutMs: expected above 0 and at most ${TIMEOUT_MS_MAX}, got ${timeoutMs}`);
  }

  function afterGuards(guarded: Result<Added, Problem>, invocation: Invocation): Awaitable<Result<Output, Problem>> {
    const { input, call } = invocation;
    if (!guarded.ok) {
      if (!isProblem(guarded.error)) throw new Error(`${name}: expected its guard to return ok(…) or err of a problem`);
      call.rateLimit = limitIn(guarded.error) ?? call.rateLimit;
      return guarded;
    }
    const parsed = parse(input);
    if (!parsed.ok) return parsed;
    const context = addTo(call, guarded.value);
    const { asking } = call;
    if (asking?.state !== undefined) return resume(parsed.value, context, invocation, asking, asking.state);
    return chain(run(parsed.value, context), finish, invocation);
  }

  async function resume(input: I, context: Call & Added, invocation: Invocation, asking: Asking, state: string) {
    const problem = await asking.resume(state, subjectOf(invocation));
    return problem === undefined ? chain(run(input, context), finish, invocation) : err(problem);
  }

  function finish(
    result: Result<O, Problem | InputRequired>,
    invocation: Invocation,
  ): Awaitable<Result<Output, Problem>> {
    if (result?.ok) return ok(ofAllowedSize(name, encode(result.value, invocation.call)));
    const error = result?.error;
    if (error === undefined) throw new Error(`${name}: expected run to return ok(…) or err(…)`);
    if (error.code === 'input_required') return suspend(error, invocation);
    if (!isProblem(error))
      throw new Error(`${name}: expected err(failure(…)) or err of a problem with all that it needs`);
    return err(error);
  }

  function suspend({ requests }: InputRequired, invocation: Invocation): Awaitable<Result<Output, Problem>> {
    if (!isObject(requests)) throw new Error(`${name}: expected the error of ask as it is`);
    const { asking } = invocation.call;
    if (asking === undefined) throw new Error(`${name}: it asks, but nobody can be asked`);
    return chain(asking.suspend(subjectOf(invocation), requests), (members) =>
      members.ok ? ok({ inputRequired: members.value }) : members,
    );
  }

  /** The caller, the operation, and its input as sent: JSON can't tell all parsed values apart. */
  const subjectOf = ({ input, call }: Invocation): string =>
    JSON.stringify([kind, name, identityOf(call), sorted(input)]);

  return {
    kind,
    name,
    credential: guard.credential ?? null,
    requiredScopes: guard.requiredScopes ?? [],
    timeoutMs,
    initialLimit: guard.initialLimit ?? null,
    invoke: (input, call) => chain(guard(call), afterGuards, { input, call }),
  };
}

/** Throws an Error for an output above the limit: a problem would invite to try again. */
function ofAllowedSize(name: string, output: CompleteOutput): CompleteOutput {
  const texts = 'json' in output ? [output.json, output.widgetJson ?? ''] : [output.contentJson];
  const { each: bytesMax } = LIMITS.output;
  const chars = texts.reduce((sum, { length }) => sum + length, 0);
  if (2 * chars <= bytesMax) return output; // an upper bound
  const bytes = texts.reduce((sum, text) => sum + bytesInMemory(text), 0);
  if (bytes > bytesMax) throw new Error(`${name}: expected an output of at most ${bytesMax} bytes, got ${bytes}`);
  return output;
}

const limitIn = (problem: Problem): RateLimitState | undefined =>
  problem.code === 'rate_limited' || problem.code === 'quota_exceeded' ? problem.rateLimit : undefined;

/** Empty without a guard for keys or users. */
function identityOf(context: Call): readonly unknown[] {
  const { auth = {} } = context as { readonly auth?: Partial<KeyIdentity & UserIdentity> };
  return [auth.keyId, auth.subject, auth.actor];
}

/** The same value with sorted fields: clients send them in any order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}
