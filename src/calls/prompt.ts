// Defines prompts: data, a function that creates the messages, and functions that complete arguments.

import * as v from 'valibot';
import type { Problem } from '../ground/problem.ts';
import { type Awaitable, ok, type Result } from '../ground/result.ts';
import { isObject, type JsonObject, jsonOf } from '../ground/text.ts';
import type { InputRequired } from './ask.ts';
import type { Call } from './call.ts';
import { type ContentBlock, contentBlock } from './content.ts';
import { assertCompleters, assertDefinition } from './definition-checks.ts';
import type { Guard } from './guard.ts';
import { type CompleteOutput, type Operation, operationOf } from './operation.ts';
import { assertObject, inputParserOf, jsonSchemaOf, type ObjectSchema, outputValidatorOf, parserOf } from './schema.ts';

/** What a prompt returns: messages that the client puts into the conversation. */
export interface PromptMessages {
  readonly description?: string | undefined;
  readonly messages: readonly { readonly role: 'user' | 'assistant'; readonly content: ContentBlock }[];
}

export interface PromptArgument {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly required: boolean;
}

export interface PromptFacts {
  readonly name: string;
  readonly title: string;
  /** What the prompt is for, written for a person. */
  readonly description: string;
  /** Milliseconds a call may take; 60,000 by default. */
  readonly timeoutMs?: number;
}

export interface Prompt extends PromptFacts, Operation {
  readonly kind: 'prompt';
  readonly arguments: readonly PromptArgument[];
  readonly timeoutMs: number;
  /** Completes arguments behind the same guard. */
  readonly complete: Operation;
  /** Whether any argument has completions. */
  readonly completes: boolean;
}

/** Suggests completions of `value`, the typed part of an argument. `given` has the arguments already filled in. */
type Complete<Added extends object> = (
  value: string,
  context: Call & Added & { readonly given: Readonly<Record<string, string>> },
) => Awaitable<Result<readonly string[], Problem>>;

interface Definition<Added extends object, A extends ObjectSchema> extends PromptFacts {
  /** An object of strings: clients send no other type. */
  readonly arguments: A;
  readonly run: (
    given: v.InferOutput<A>,
    context: Call & Added,
  ) => Awaitable<Result<PromptMessages, Problem | InputRequired>>;
  readonly complete?: { readonly [Name in keyof v.InferInput<A>]?: Complete<Added> };
}

const promptMessages = v.object({
  description: v.optional(v.string()),
  messages: v.array(v.object({ role: v.picklist(['user', 'assistant']), content: contentBlock })),
});

const completions = v.array(v.string());

/** Accepts no array, which valibot takes for an object. */
const anObject = v.custom<JsonObject>(isObject, 'Expected an object');

/** The most completions in a response (server/utilities/completion). */
const COMPLETIONS_MAX = 100;

/** Creates a prompt behind `guard`. Throws an Error for an invalid definition, like an argument that isn't a string. */
export function definePrompt<Added extends object, A extends ObjectSchema>(
  guard: Guard<Call, Added>,
  definition: Definition<Added, A>,
): Prompt {
  assertDefinition('definePrompt', guard, definition);
  const { name, title, description, timeoutMs, arguments: schema, run, complete = {} } = definition;
  const listed = argumentsOf(name, schema);
  assertCompleters(name, listed, complete);
  const validate = outputValidatorOf(name, promptMessages, 'it returns what are no messages of MCP');
  const encode = (messages: PromptMessages): CompleteOutput => ({ json: jsonOf(messages) });
  return {
    title,
    description,
    arguments: listed,
    ...operationOf(guard, { kind: 'prompt', name, parse: inputParserOf(schema), run, validate, encode }, timeoutMs),
    complete: completion(guard, name, listed, complete, timeoutMs),
    completes: Object.keys(complete).length > 0,
  };
}

/** Creates the operation that completes an argument, given those already filled in. */
function completion<Added extends object>(
  guard: Guard<Call, Added>,
  prompt: string,
  listed: readonly PromptArgument[],
  complete: Readonly<Record<string, Complete<Added> | undefined>>,
  timeoutMs?: number,
): Operation {
  const completers = new Map(Object.entries(complete));
  const given = v.optional(v.pipe(anObject, v.record(v.string(), v.string())), {});
  const input = v.object({
    argument: v.object({ name: v.picklist(listed.map(({ name }) => name)), value: v.string() }),
    context: v.optional(v.pipe(anObject, v.object({ arguments: given })), {}),
  });
  return operationOf(
    guard,
    {
      kind: 'completion',
      name: prompt,
      parse: parserOf(input),
      run: ({ argument, context: { arguments: given } }: v.InferOutput<typeof input>, call) =>
        completers.get(argument.name)?.(argument.value, Object.assign(call, { given })) ?? ok(NONE),
      validate: outputValidatorOf(prompt, completions, 'it completes with what are no texts'),
      encode: (found) => ({ json: completionJson(found) }),
    },
    timeoutMs,
  );
}

const NONE: readonly string[] = [];

const completionJson = (found: readonly string[]): string => {
  const values = found.slice(0, COMPLETIONS_MAX);
  return jsonOf({ completion: { values, total: found.length, hasMore: found.length > values.length } });
};

function argumentsOf(prompt: string, schema: ObjectSchema): PromptArgument[] {
  const { properties = {}, required = [] } = jsonSchemaOf(`${prompt}: arguments`, schema);
  assertObject(`${prompt}: arguments`, schema);
  return Object.entries(properties as Record<string, JsonObject>).map(([name, { type, title, description }]) => {
    if (type !== 'string') throw new Error(`${prompt}: arguments: expected strings, got another type for "${name}"`);
    return {
      name,
      ...(typeof title === 'string' && { title }),
      ...(typeof description === 'string' && { description }),
      required: (required as readonly string[]).includes(name),
    };
  });
}
