// Defines tools: data plus one function. Clients repeat some parameters in headers.

import type * as v from 'valibot';
import { once } from '../ground/cache.ts';
import type { Problem } from '../ground/problem.ts';
import { limitInWords } from '../ground/rate-limit.ts';
import type { Awaitable, Result } from '../ground/result.ts';
import { jsonOf } from '../ground/text.ts';
import type { InputRequired } from './ask.ts';
import type { Call, CallResponse } from './call.ts';
import { type ToolContent, toolContent } from './content.ts';
import { assertDefinition } from './definition-checks.ts';
import type { Guard } from './guard.ts';
import { type CompleteOutput, type Operation, operationOf } from './operation.ts';
import { inputParserOf, type JsonSchema, jsonSchemaOf, type ObjectSchema, outputValidatorOf } from './schema.ts';

/** Hints for agents and their users (2025-11-25, "ToolAnnotations"). */
export interface ToolHints {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  readonly openWorldHint: boolean;
}

export interface ToolFacts {
  readonly name: string;
  readonly title: string;
  /** Tells an agent what the tool does and when to use it. The guards' demands are appended. */
  readonly description: string;
  readonly annotations: ToolHints;
  /** The URI (`ui://…`) of the widget that shows the output. */
  readonly widget?: string;
  /** A sample output, which `/widgets/preview?tool=…` shows in development. */
  readonly sample?: object;
  /** The capabilities that the client must declare (MCP 2026-07-28). */
  readonly requiresClient?: Readonly<Record<string, object>>;
  /** Milliseconds a call may take; 60,000 by default. */
  readonly timeoutMs?: number;
  /** The units that a call spends of each limit and quota of its key and owner: 1 to 1,000; 1 by default. */
  readonly cost?: number;
}

export interface Tool extends ToolFacts, Operation {
  readonly kind: 'tool';
  readonly inputSchema: () => JsonSchema;
  /** Returns the parameters that clients of MCP 2026-07-28 repeat in headers. */
  readonly headerParams: () => readonly HeaderParam[];
  /** Returns the schema of the output; null instead if the tool returns content blocks. */
  readonly outputSchema: (() => JsonSchema) | null;
  readonly timeoutMs: number;
}

interface Definition<Added extends object, I extends ObjectSchema, Returned> extends ToolFacts {
  readonly input: I;
  readonly run: (
    input: v.InferOutput<I>,
    context: Call & Added,
  ) => Awaitable<Result<Returned, Problem | InputRequired>>;
}

interface WithOutput<Added extends object, I extends ObjectSchema, O extends ObjectSchema>
  extends Definition<Added, I, v.InferInput<O>> {
  readonly output: O;
}

interface WithContent<Added extends object, I extends ObjectSchema> extends Definition<Added, I, ToolContent> {
  readonly output?: undefined;
}

/**
 * Creates a tool behind `guard`. With `output`, `run` returns that object, else content blocks. Throws an Error for an
 * invalid definition.
 *
 * The guard is a separate argument because TypeScript infers from left to right: `run` then knows what the guard adds.
 * If no overload fits, the compiler explains the last one, so the most common comes last.
 */
export function defineTool<Added extends object, I extends ObjectSchema>(
  guard: Guard<Call, Added>,
  definition: WithContent<Added, I>,
): Tool;
export function defineTool<Added extends object, I extends ObjectSchema, O extends ObjectSchema>(
  guard: Guard<Call, Added>,
  definition: WithOutput<Added, I, O>,
): Tool;
export function defineTool<Added extends object, I extends ObjectSchema, O extends ObjectSchema>(
  guard: Guard<Call, Added>,
  definition: WithOutput<Added, I, O> | WithContent<Added, I>,
): Tool {
  assertDefinition('defineTool', guard, definition);
  const { input, output, run, timeoutMs, ...facts } = definition as WithOutput<Added, I, O>;
  const { name, description } = facts;
  const parse = inputParserOf(input);
  const validate =
    output === undefined
      ? outputValidatorOf(name, toolContent, 'it returns what is no content of MCP')
      : outputValidatorOf(name, output);

  function encode(returned: unknown, { forWidget }: CallResponse): CompleteOutput {
    const encoded = output === undefined ? encodedContent(returned as ToolContent) : { json: jsonOf(returned) };
    return forWidget === undefined ? encoded : { ...encoded, widgetJson: jsonOf(forWidget) };
  }

  if (facts.sample !== undefined) {
    outputValidatorOf(name, output ?? toolContent, 'the sample does not fit the output')(facts.sample);
  }

  const inputSchema = once(() => jsonSchemaOf(`${name}: input`, input));
  const operation = operationOf(guard, { kind: 'tool', name, parse, run, validate, encode }, timeoutMs);

  return {
    ...facts,
    ...operation,
    description: withRequirements(description, operation),
    inputSchema,
    headerParams: once(() => headerParams(name, inputSchema())),
    outputSchema: output === undefined ? null : once(() => jsonSchemaOf(`${name}: output`, output, 'output')),
  };
}

/** Appends the guards' demands to the description, for agents and for OpenAPI. */
function withRequirements(description: string, { credential, initialLimits, requiredScopes }: Operation): string {
  const [limit] = initialLimits;
  const requirements = [
    credential === 'user_jwt' && 'Needs a user token.',
    credential === 'api_key' &&
      `Needs an API key${scopesInWords(requiredScopes)} (X-API-Key, or Authorization: Bearer).`,
    limit && limit.name !== 'user' && `At most ${limitInWords(limit.limit)}.`,
  ];
  return [description, ...requirements].filter(Boolean).join(' ');
}

function scopesInWords(scopes: readonly string[]): string {
  if (scopes.length === 0) return '';
  return ` with the scope${scopes.length > 1 ? 's' : ''} ${scopes.map((scope) => `\`${scope}\``).join(', ')}`;
}

function encodedContent({ content, isError = false }: ToolContent): CompleteOutput {
  return { contentJson: jsonOf(isError ? { content, isError } : { content }), isError };
}

// Parameters that clients of MCP 2026-07-28 repeat in headers: `x-mcp-header` on fields of a tool's input
// (basic/transports/streamable-http, "Schema Extension"). Clients drop a tool that marks others.

export interface HeaderParam {
  readonly header: string;
  readonly field: string;
}

const MARK = 'x-mcp-header';
/** Finds the mark with a name as its value. A field of that name has a schema there. */
const MARKS = new RegExp(`"${MARK}":(?!\\{)`, 'g');
/** A token (RFC 9110 §5.6.2). */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean'];

/** Returns the marked parameters of a tool's input. Throws an Error with tool and field if clients would refuse one. */
function headerParams(tool: string, schema: JsonSchema): readonly HeaderParam[] {
  const { properties = {} } = schema;
  const found: HeaderParam[] = [];
  for (const [field, property] of Object.entries(properties as Record<string, JsonSchema>)) {
    if (MARK in property) found.push(headerParam(tool, field, property, found));
  }
  const marks = JSON.stringify(schema).match(MARKS) ?? [];
  if (marks.length > found.length) throw new Error(`${tool}: ${MARK}: expected it on fields of the input itself alone`);
  return found;
}

function headerParam(
  tool: string,
  field: string,
  { [MARK]: name, type }: JsonSchema,
  others: readonly HeaderParam[],
): HeaderParam {
  const faulty = (expected: string, got: unknown) =>
    new Error(`${tool}: ${MARK} of ${field}: expected ${expected}, got ${JSON.stringify(got)}`);
  if (typeof name !== 'string' || !HEADER_NAME.test(name)) {
    throw faulty('a name for a header, of letters, digits and "-"', name);
  }
  if (!TYPES.includes(type)) throw faulty('a parameter that is text, an integer or a boolean', type ?? 'another');
  const header = `Mcp-Param-${name}`;
  const same = others.find((other) => other.header.toLowerCase() === header.toLowerCase());
  if (same !== undefined) throw faulty(`another name than that of ${same.field}`, name);
  return { header, field };
}
