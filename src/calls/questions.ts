// Defines the questions that a tool can ask through its caller's client (MCP 2026-07-28): forms for the person.

import * as v from 'valibot';
import type { InvalidInput } from '../ground/problem.ts';
import { ok, type Result } from '../ground/result.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import {
  assertObject,
  entriesOf,
  inputParserOf,
  type JsonSchema,
  jsonSchemaOf,
  type ObjectSchema,
  parserOf,
  type Schema,
} from './schema.ts';

export interface InputRequest {
  readonly method: 'elicitation/create';
  readonly params: JsonObject;
}

export interface Question<A> {
  readonly request: InputRequest;
  /** Parses a response. If it is `incomplete`, the question is asked again. */
  readonly read: (response: unknown) => Result<Read<A> | 'incomplete', InvalidInput>;
}

interface Read<A> {
  readonly answer: A;
  /** The part of the response that the answer needs. `read` accepts it again. */
  readonly response: unknown;
}

/** What the person did with a form. */
export type FormAnswer<T> =
  | { readonly action: 'accept'; readonly content: T }
  | { readonly action: 'decline' | 'cancel' };

const readAction = parserOf(
  v.object({ action: v.picklist(['accept', 'decline', 'cancel']), content: v.optional(v.unknown(), {}) }),
);

/**
 * Creates a form: `form(schema)(message)` is the question. Fields are strings, numbers, booleans, picklists and arrays
 * of picklists, because clients show no others. Throws an Error for any other type, so create the form where you define
 * the tool. Don't ask for secrets: the client can read the response. If a required field is missing, the form is asked
 * again; unknown fields are ignored (2026-07-28, basic/patterns/mrtr).
 */
export function form<S extends ObjectSchema>(schema: S): (message: string) => Question<FormAnswer<v.InferOutput<S>>> {
  const literal = Object.entries(entriesOf(schema)).find(([, field]) => isLiteral(field));
  if (literal !== undefined) throw otherType(literal[0]);
  const requestedSchema = flatSchemaOf(jsonSchemaOf('form', schema));
  assertObject('form', schema);
  const parse = inputParserOf(schema);
  const names = Object.keys(requestedSchema.properties);
  const required = names.filter((name) => requestedSchema.required?.includes(name));
  function read(response: unknown): Result<Read<FormAnswer<v.InferOutput<S>>> | 'incomplete', InvalidInput> {
    const acted = readAction(response);
    if (!acted.ok) return acted;
    const { action, content } = acted.value;
    if (action !== 'accept') return ok({ answer: { action }, response: { action } });
    const asked = isObject(content) ? fieldsNamed(names, content) : content;
    if (isObject(asked) && required.some((name) => !(name in asked))) return ok('incomplete');
    const parsed = parse(asked);
    return parsed.ok ? ok({ answer: { action, content: parsed.value }, response: { action, content: asked } }) : parsed;
  }
  return (message) => {
    if (typeof message !== 'string') throw new Error(`form: expected the question as a text, got ${typeof message}`);
    const params = { mode: 'form', message: message.toWellFormed(), requestedSchema };
    return { request: { method: 'elicitation/create', params }, read };
  };
}

/** Keywords that forms may have (2026-07-28, client/elicitation, "Requested Schema"), by type. */
const SHOWN = ['type', 'title', 'description', 'default'];
const KEYWORDS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['string', [...SHOWN, 'minLength', 'maxLength', 'format', 'enum']],
  ['number', [...SHOWN, 'minimum', 'maximum']],
  ['integer', [...SHOWN, 'minimum', 'maximum']],
  ['boolean', SHOWN],
  ['array', [...SHOWN, 'minItems', 'maxItems', 'items']],
]);

const FORMATS: readonly unknown[] = ['email', 'uri', 'date', 'date-time'];

/** Returns the fields with these names. Without a prototype: a form may have a field `constructor`, which every object has. */
function fieldsNamed(names: readonly string[], content: JsonObject): JsonObject {
  const fields: Record<string, unknown> = Object.create(null);
  for (const name of names) if (Object.hasOwn(content, name)) fields[name] = content[name];
  return fields;
}

/** Returns whether a field has one value: a form leaves nothing to decide. */
const isLiteral = (field: Schema): boolean =>
  field.type === 'literal' || ('wrapped' in field && isLiteral(field.wrapped as Schema));

const otherType = (name: string) =>
  new Error(
    `form: expected strings, numbers, booleans, picklists and arrays of picklists, got another type for "${name}"`,
  );

interface FormSchema extends JsonObject {
  readonly properties: JsonObject;
  readonly required?: readonly string[];
}

/** Leaves out keywords that clients don't know. Responses are checked against the whole schema anyway. */
function flatSchemaOf({ properties = {}, required }: JsonSchema): FormSchema {
  const shown = Object.entries(properties as Record<string, JsonObject>).map(([name, property]) => {
    const keywords = KEYWORDS.get(property.type);
    if (keywords === undefined || (property.type === 'array' && !isPicklist(property.items))) {
      throw otherType(name);
    }
    const known = Object.entries(property).filter(([keyword]) => keywords.includes(keyword));
    return [
      name,
      Object.fromEntries(known.filter(([keyword, value]) => keyword !== 'format' || FORMATS.includes(value))),
    ];
  });
  const names = required as readonly string[] | undefined; // JSON Schema's
  return { type: 'object', properties: Object.fromEntries(shown), ...(names !== undefined && { required: names }) };
}

const isPicklist = (items: unknown): boolean => isObject(items) && items.type === 'string' && 'enum' in items;
