// What a call of a tool or prompt runs: guard, then input, then one function, then the output. run.ts runs it. Checks at
// the start what the compiler demands of a definition: tool files start without it, and a mistake should stop the start
// rather than the first call.

import type { InvalidInput, Problem } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import type { Awaitable, Result } from '../ground/result.ts';
import { isObject, isScope } from '../ground/text.ts';
import type { InputRequired } from './ask.ts';
import type { Call } from './call.ts';
import { type Credential, type Guard, isGuard } from './guard.ts';

/**
 * The JSON text of a success, encoded once for every transport: the output, a ToolContent, or the members of the result
 * that asks for more input (MCP 2026-07-28). `widgetJson`: what is for the widget alone.
 */
export type Output = CompleteOutput | { readonly inputRequired: string };

export type CompleteOutput =
  | { readonly json: string; readonly widgetJson?: string }
  | { readonly contentJson: string; readonly isError: boolean; readonly widgetJson?: string };

export type ToolResult = Result<Output, Problem>;

type Kind = 'tool' | 'prompt' | 'completion';

interface OperationParts<K extends Kind, Added extends object, Input, Returned> {
  readonly kind: K;
  readonly name: string;
  readonly timeoutMs: number;
  readonly parse: (input: unknown) => Result<Input, InvalidInput>;
  readonly run: (input: Input, context: Call & Added) => Awaitable<Result<Returned, Problem | InputRequired>>;
  /**
   * Returns what is sent of what the operation returned, or throws an Error. Null: all of it is sent unchecked, for a
   * tool of the server's own.
   */
  readonly validate: ((returned: unknown) => Returned) | null;
  readonly encode: (returned: Returned, call: Call) => CompleteOutput;
}

export interface Operation<K extends Kind = Kind> extends OperationParts<K, object, unknown, unknown> {
  readonly guard: Guard<Call>;
  /** What its guards ask for; null: no credential. */
  readonly credential: Credential | null;
  readonly requiredScopes: readonly string[];
  /** Only tokens with the claim of ADMIN_CLAIM pass its guards. */
  readonly forAdmins: boolean;
  /** The rate limit that responses show when an earlier guard refused; null: there is none. */
  readonly initialLimits: RateLimitStates;
}

/** The longest a timer can wait, 24 days; with a longer time it would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

export const TOOL_TIMEOUT_MS = 60_000; // the MCP SDK's clients also give up then

type Definition<K extends Kind, Added extends object, Input, Returned> = Omit<
  OperationParts<K, Added, Input, Returned>,
  'timeoutMs'
> & { readonly timeoutMs: number | undefined };

/** What MCP allows (2025-11-25, server/tools, "Tool Names"), but no part of a path that goes to another one. */
const NAME = /^(?!\.\.?$)[\w.-]{1,128}$/;

/** Throws an Error for a bad name, a time that no timer can wait, and guards that no caller can pass. */
export function operationOf<K extends Kind, Added extends object, Input, Returned>(
  guard: Guard<Call, Added>,
  { timeoutMs = TOOL_TIMEOUT_MS, ...parts }: Definition<K, Added, Input, Returned>,
): Operation<K> {
  if (!(timeoutMs > 0 && timeoutMs <= TIMEOUT_MS_MAX)) {
    throw new Error(`${parts.name}: timeoutMs: expected above 0 and at most ${TIMEOUT_MS_MAX}, got ${timeoutMs}`);
  }
  const { kind, name } = parts;
  if (!NAME.test(name)) {
    throw new Error(`${kind} name: expected 1-128 letters, digits, "_", "-" or ".", got ${JSON.stringify(name)}`);
  }
  const { credential = null, requiredScopes = [] } = guard;
  checkScopes(name, credential, requiredScopes);
  if (guard.forAdmins && credential !== 'user_jwt') {
    throw new Error(`${name}: expected guards.userJwt before guards.admin: only people are admins`);
  }
  const operation = {
    ...parts,
    guard,
    credential,
    requiredScopes,
    forAdmins: guard.forAdmins ?? false,
    timeoutMs,
    initialLimits: guard.initialLimits ?? [],
  };
  // `run` gets only what `parse` and `guard` returned, and `encode` only what `run` did: see run.ts.
  return operation as unknown as Operation<K>;
}

function checkScopes(name: string, credential: Credential | null, scopes: readonly unknown[]): void {
  if (scopes.length > 0 && credential !== 'api_key') {
    throw new Error(`${name}: expected guards.apiKey before guards.scopes: only keys have scopes`);
  }
  const odd = scopes.findIndex((scope) => typeof scope !== 'string' || !isScope(scope));
  if (odd === -1) return;
  const got = JSON.stringify(scopes[odd]);
  throw new Error(`${name}: guards.scopes: expected scopes that a key can have, like "read", got ${got}`);
}

const isHint = ([name, hint]: readonly [string, unknown]): boolean =>
  typeof hint === (name === 'title' ? 'string' : 'boolean');

const KINDS = {
  text: { expected: 'text', fits: (value: unknown) => typeof value === 'string' },
  function: { expected: 'a function', fits: (value: unknown) => typeof value === 'function' },
  schema: {
    expected: 'a schema of valibot 1, like v.strictObject({})',
    fits: (value: unknown) => isObject(value) && value.kind === 'schema' && typeof value['~run'] === 'function',
  },
  // Clients would refuse the whole list of tools.
  hints: {
    expected: 'hints that are true or false, like { readOnlyHint: true }',
    fits: (value: unknown) => isObject(value) && Object.entries(value).every(isHint),
  },
  capabilities: {
    expected: 'capabilities, like { elicitation: {} }',
    fits: (value: unknown) => isObject(value) && Object.values(value).every(isObject),
  },
};

/** Throws an Error that names the wrong field, or says that the guard before the definition is missing. */
export function assertDefinition(
  definer: string,
  guard: unknown,
  definition: unknown,
  schemas: readonly string[],
): void {
  if (!isGuard(guard) || !isObject(definition)) {
    const examples = 'guards.apiKey, or () => ok({}) to let everybody call it';
    throw new Error(`${definer}: expected a guard, and then the definition: ${definer}(${examples}, { … })`);
  }
  const assertKind = (kind: keyof typeof KINDS, field: string, whose: unknown = definition.name): void => {
    const { expected, fits } = KINDS[kind];
    const value = definition[field];
    if (!fits(value)) throw new Error(`${whose}: ${field}: expected ${expected}, got ${typeof value}`);
  };
  assertKind('text', 'name', definer);
  assertKind('text', 'title');
  assertKind('text', 'description');
  for (const schema of schemas) assertKind('schema', schema);
  if (definition.annotations !== undefined) assertKind('hints', 'annotations');
  if (definition.requiresClient !== undefined) assertKind('capabilities', 'requiresClient');
  assertKind('function', 'run');
}
