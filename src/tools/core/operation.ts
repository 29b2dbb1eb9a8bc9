// What a call runs, whether a tool or a prompt is called: guards, then input, then one function, then the check of its
// output. run.ts runs it.

import { addTo, type Credential, type Guard } from '../../guards/guard.ts';
import type { RateLimitState } from '../../lib/rate-limit.ts';
import { type Awaitable, chain, type Result } from '../../lib/result.ts';
import type { InvalidInput, Problem } from '../../problem.ts';
import type { Call } from './call.ts';

/** A successful call as JSON text, encoded once and used by every transport: the output, or a ToolContent. */
export type Output = { readonly json: string } | { readonly contentJson: string; readonly isError: boolean };

export interface Operation {
  readonly kind: 'tool' | 'prompt' | 'completion';
  readonly name: string;
  /** What its guards ask for; null: no credential. */
  readonly credential: Credential | null;
  /** The scopes its guards demand. */
  readonly requiredScopes: readonly string[];
  /** Milliseconds a call may take. */
  readonly timeoutMs: number;
  /** The rate limit as answers show it when the call was refused before it; null: there is none. */
  readonly fullQuota: RateLimitState | null;
  /** Guards, then input, then run, then output check. Use the runner. */
  readonly invoke: (input: unknown, call: Call) => Awaitable<Result<Output, Problem>>;
}

interface Parts<Kind, Added extends object, I, O> {
  readonly kind: Kind;
  readonly name: string;
  readonly timeoutMs: number | undefined;
  readonly parse: (input: unknown) => Result<I, InvalidInput>;
  readonly run: (input: I, context: Call & Added) => Awaitable<Result<O, Problem>>;
  readonly encode: (result: Result<O, Problem>) => Result<Output, Problem>;
}

/** The longest a timer can wait, 24 days; with a longer time it would go off at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

export const TOOL_TIMEOUT_MS = 60_000; // the MCP SDK's clients also give up then

/** Throws an Error for a `timeoutMs` that no timer can keep. */
export function operationOf<Kind extends Operation['kind'], Added extends object, I, O>(
  guard: Guard<Call, Added>,
  { kind, name, timeoutMs = TOOL_TIMEOUT_MS, parse, run, encode }: Parts<Kind, Added, I, O>,
): Operation & { readonly kind: Kind } {
  if (!(timeoutMs > 0 && timeoutMs <= TIMEOUT_MS_MAX)) {
    throw new Error(`${name}: timeoutMs: expected above 0 and at most ${TIMEOUT_MS_MAX}, got ${timeoutMs}`);
  }

  function afterGuards(
    guarded: Result<Added, Problem>,
    { raw, call }: { readonly raw: unknown; readonly call: Call },
  ): Awaitable<Result<Output, Problem>> {
    if (!guarded.ok) {
      if (guarded.error.code === 'rate_limited') call.rateLimit = guarded.error.rateLimit ?? call.rateLimit;
      return guarded;
    }
    const parsed = parse(raw);
    if (!parsed.ok) return parsed;
    return chain(run(parsed.value, addTo(call, guarded.value)), encode);
  }

  return {
    kind,
    name,
    credential: guard.credential ?? null,
    requiredScopes: guard.requiredScopes ?? [],
    timeoutMs,
    fullQuota: guard.fullQuota ?? null,
    invoke: (raw, call) => chain(guard(call), afterGuards, { raw, call }),
  };
}
