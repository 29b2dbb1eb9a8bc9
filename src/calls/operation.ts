// Defines what a call of a tool or prompt runs: guard, input, one function, output. run.ts runs it.

import type { InvalidInput, Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import type { Awaitable, Result } from '../ground/result.ts';
import type { InputRequired } from './ask.ts';
import type { Call, CallResponse } from './call.ts';
import type { Credential, Guard, Rights } from './guard.ts';

/**
 * The JSON text of a success, encoded once for every transport: the output, a ToolContent, or the fields of the result
 * that asks for more input (MCP 2026-07-28). `widgetJson` is only for the widget.
 */
export type Output = CompleteOutput | { readonly inputRequired: string };

export type CompleteOutput =
  | { readonly json: string; readonly widgetJson?: string }
  | { readonly contentJson: string; readonly isError: boolean; readonly widgetJson?: string };

/** Returns the JSON text that is not for the widget alone. */
export const jsonIn = (output: CompleteOutput): string => ('json' in output ? output.json : output.contentJson);

export type ToolResult = Result<Output, Problem>;

type Kind = 'tool' | 'prompt' | 'completion';

interface Definition<K extends Kind, Added extends object, Input, Returned> {
  readonly kind: K;
  readonly name: string;
  readonly parse: (input: unknown) => Result<Input, InvalidInput>;
  readonly run: (input: Input, context: Call & Added) => Awaitable<Result<Returned, Problem | InputRequired>>;
  /**
   * Validates what the operation returned, and keeps what may be sent; throws an Error if it is invalid. Null: send all
   * of it unchecked, for the server's own tools.
   */
  readonly validate: ((returned: unknown) => Returned) | null;
  readonly encode: (returned: Returned, response: CallResponse) => CompleteOutput;
}

export interface Operation<K extends Kind = Kind> extends Definition<K, object, unknown, unknown> {
  readonly guard: Guard<Call>;
  /** The credential that its guards demand; null: none. */
  readonly credential: Credential | null;
  readonly requiredScopes: readonly string[];
  readonly admits: (rights: Rights) => boolean;
  /** The rate limits that responses show if an earlier guard refused; empty if there are none. */
  readonly initialLimits: RateLimitStates;
  readonly timeoutMs: number;
}

export const TOOL_TIMEOUT_MS = 60_000; // the MCP SDK's clients give up then, too

/** Creates an operation from a definition that `assertDefinition` has checked. */
export function operationOf<K extends Kind, Added extends object, Input, Returned>(
  guard: Guard<Call, Added>,
  definition: Definition<K, Added, Input, Returned>,
  timeoutMs = TOOL_TIMEOUT_MS,
): Operation<K> {
  const operation = {
    ...definition,
    guard,
    credential: guard.credential ?? null,
    requiredScopes: guard.requiredScopes ?? [],
    admits: guard.admits ?? (() => true),
    timeoutMs,
    initialLimits: guard.initialLimits ?? [],
  };
  // `run` gets only what `parse` and `guard` returned, and `encode` only what `run` did: see run.ts.
  return operation as unknown as Operation<K>;
}
