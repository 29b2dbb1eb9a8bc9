// What tools share about schemas: parsing with valibot, the issues it finds, JSON Schema for clients, common fields.

import { toJsonSchema } from '@valibot/to-json-schema';
import type { GenericSchema } from 'valibot';
import * as v from 'valibot';
import { err, ok, type Result } from '../lib/result.ts';
import { hasLength, isObject, isStorable } from '../lib/text.ts';
import type { InputIssue, InvalidInput } from '../problem.ts';

export type Schema = v.GenericSchema;

/** What a tool takes and returns. With any other root type, MCP clients refuse the whole list of tools. */
export type ObjectSchema = v.GenericSchema<Record<string, unknown>>;

export type JsonSchema = Readonly<Record<string, unknown>>;

/** Issues reported at once: enough to fix a call, not enough to make a large response out of a hostile one. */
const ISSUES_MAX = 10;

/**
 * In a larger input only the first issue is looked for: valibot would make one for every wrong value, and a full body
 * can hold half a million of them, which takes 0.6 s and 150 MB.
 */
const VALUES_MAX = 1000;

/** Of a field. What is nested deeper overflows the stack of a recursive schema, or of whatever walks through the input later. */
const DEPTH_MAX = 1000;

/** Takes a value of any shape; the issues say what was expected and where. */
export type Parse<S extends Schema> = (input: unknown) => Result<v.InferOutput<S>, InvalidInput>;

/**
 * The parser of a schema. Its issues never say what was sent: a key pasted into the wrong field must not come back. For
 * the same reason an unknown field is not named.
 */
export const parserOf = <S extends Schema>(schema: S): Parse<S> => parserWith(schema, conformsTo(schema));

function parserWith<S extends Schema>(schema: S, conforms: Conforms | null): Parse<S> {
  return (input) => {
    if (conforms?.(input)) return ok(input as v.InferOutput<S>);
    const parsed = v.safeParse(schema, input, { message: expectation, abortEarly: !isSmall(input) });
    if (parsed.success) return ok(parsed.output);
    const issues = parsed.issues.slice(0, ISSUES_MAX).map((issue) => issueOf(schema, issue));
    return err({ code: 'invalid_input', issues });
  };
}

/** The parser of a schema that a tool's author chose, for what callers send. It may let through whatever there is. */
export function inputParserOf<S extends Schema>(schema: S): Parse<S> {
  const conforms = conformsTo(schema);
  const parse = parserWith(schema, conforms);
  if (conforms !== null) return parse; // a schema with known parts alone has an end
  const known = fieldsOf(schema);
  return (input) => {
    const fields = isObject(input) ? Object.entries(input) : [];
    const [deep] = fields.find(([, value]) => !nestsWithin(value, DEPTH_MAX)) ?? [];
    if (deep === undefined) return parse(input);
    return err({ code: 'invalid_input', issues: [{ path: known.includes(deep) ? deep : '', message: TOO_DEEP }] });
  };
}

/** Of an object, the names of its fields; none for a schema without a fixed list of them. */
const fieldsOf = (schema: Schema): readonly string[] =>
  'entries' in schema ? Object.keys(schema.entries as object) : [];

const TOO_DEEP = `Expected values nested at most ${DEPTH_MAX} deep`;

/** True when no value stands inside more than `levels` others. */
function nestsWithin(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inside.every((one) => nestsWithin(one, levels - 1));
}

/** True when there are at most VALUES_MAX values in `input`, counting itself. However deep it is nested. */
export function isSmall(input: unknown): boolean {
  const values = [input];
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue;
    const inside: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (values.length + inside.length > VALUES_MAX) return false;
    values.push(...inside);
  }
  return true;
}

// For a format, like `email` or `integer`, or a conversion, like `to_number` or `parse_json`, valibot tells only the name;
// for a check by a function, nothing of use.
const expectation = ({ expected, type }: v.BaseIssue<unknown>) =>
  `Expected ${expected ?? (/check|item/.test(type) ? 'another value' : wordsOf(type))}`;

const wordsOf = (type: string) =>
  type
    .replace(/^to_/, 'a ')
    .replace(/^parse_/, '')
    .replaceAll('_', ' ');

function issueOf(schema: Schema, issue: v.BaseIssue<unknown>): InputIssue {
  const keys = (issue.path ?? []).map((item) => String(item.key));
  if (/object/.test(issue.type) && issue.expected?.startsWith('"'))
    // the name of a field that isn't there
    return { path: keys.join('.'), message: 'This field is required' };
  if (issue.type !== 'strict_object' || issue.expected !== 'never')
    return { path: keys.join('.'), message: issue.message };
  const known = keys.length === 1 ? fieldsOf(schema) : [];
  const hint = known.length > 0 ? `the fields are ${known.join(', ')}` : 'it takes no fields';
  return { path: keys.slice(0, -1).join('.'), message: `Unknown field; ${hint}` };
}

/** Text of `min` to `max` characters (code points) without control characters. */
export const text = (min: number, max: number) =>
  v.pipe(
    v.string(),
    v.check((value) => hasLength(value, min, max), `Expected ${min} to ${max} characters`),
    v.check(isStorable, 'Expected text without control characters or lone surrogates'),
    v.metadata({ minLength: min, maxLength: max }),
  );

/** Milliseconds since the Unix epoch. */
export const epochMs = v.pipe(v.number(), v.integer());

/**
 * The JSON Schema (2020-12) of what a schema of `tool` accepts, or of a little more: checks that JSON Schema can't
 * express are left out. What it can say of a check by a function stands beside that as metadata. Throws for a type that
 * it can't express, like a date, and for a root that is no object.
 */
export function jsonSchemaOf(tool: string, schema: Schema): JsonSchema {
  const { $schema: _, ...converted } = toJsonSchema(schema, {
    target: 'draft-2020-12',
    typeMode: 'input',
    overrideSchema: ({ errors }) => {
      if (errors) throw new Error(`${tool}: ${errors.join(' ')}`);
    },
    overrideAction: ({ valibotAction, jsonSchema, errors }) => {
      if (valibotAction.type === 'regex' && errors) return { ...jsonSchema, pattern: undefined }; // its flags are lost
      return errors && jsonSchema;
    },
  });
  const json = { type: 'object', ...converted }; // alternatives have no type of their own; MCP clients ask for one
  if (json.type !== 'object')
    throw new Error(`${tool}: expected the schema of an object, got one of type ${json.type}`);
  const { properties, required, ...bare } = json;
  // What tools without arguments must say (MCP, server/tools): `{"type":"object","additionalProperties":false}`.
  return properties !== undefined && Object.keys(properties).length === 0 ? bare : json;
}

type Conforms = (value: unknown) => boolean;

// The parts of valibot's schema objects that are read here.
interface Part {
  readonly kind: string;
  readonly type: string;
  readonly pipe?: readonly Part[];
  readonly item?: Part;
  readonly wrapped?: Part;
  readonly entries?: Readonly<Record<string, Part>>;
  readonly options?: readonly unknown[];
  readonly literal?: unknown;
  readonly default?: unknown;
  readonly fallback?: unknown;
  readonly '~run': (
    dataset: { typed: true; value: unknown },
    config: object,
  ) => { readonly issues?: readonly unknown[] };
}

/**
 * Null for a schema with a part that may change the value or that isn't known here. A false result decides nothing: the
 * parse does, and tells what is wrong. To have valibot alone parse input and output would make a call of get_data a
 * tenth slower.
 */
export const conformsTo = (schema: GenericSchema): Conforms | null => compile(schema as unknown as Part);

function compile(part: Part): Conforms | null {
  const checks = part.pipe?.map(compileStep) ?? [compileType(part)]; // a pipe begins with the schema it extends
  if (!checks.every((check) => check !== null)) return null;
  const needed = checks.filter((check) => check !== passes);
  const [only] = needed;
  if (needed.length === 1 && only !== undefined) return only;
  return (value) => needed.every((check) => check(value));
}

const passes: Conforms = () => true;

function compileStep(step: Part): Conforms | null {
  if (step.kind === 'metadata') return passes;
  if (step.kind === 'validation') return (value) => step['~run']({ typed: true, value }, {}).issues === undefined;
  return step.kind === 'schema' ? compile(step) : null; // a transformation changes the value
}

function compileType(part: Part): Conforms | null {
  if (part.fallback !== undefined) return null; // a fallback also replaces a missing field
  switch (part.type) {
    case 'string':
      return (value) => typeof value === 'string';
    case 'number':
      return (value) => typeof value === 'number' && !Number.isNaN(value);
    case 'boolean':
      return (value) => typeof value === 'boolean';
    case 'literal':
      return (value) => value === part.literal;
    case 'picklist':
      return (value) => part.options?.includes(value) ?? false;
    case 'nullable':
      return orElse(part, null);
    case 'optional':
      return orElse(part, undefined);
    case 'array':
      return arrayOf(part.item);
    case 'strict_object':
      return objectOf(part.entries);
    default:
      return null;
  }
}

function orElse({ wrapped, default: fallback }: Part, nothing: null | undefined): Conforms | null {
  const inner = wrapped === undefined || fallback !== undefined ? null : compile(wrapped);
  return inner && ((value) => value === nothing || inner(value));
}

function arrayOf(item: Part | undefined): Conforms | null {
  const inner = item === undefined ? null : compile(item);
  if (inner === null) return null;
  return (value) => {
    if (!Array.isArray(value)) return false;
    for (const one of value) if (!inner(one)) return false;
    return true;
  };
}

function objectOf(entries: Readonly<Record<string, Part>> = {}): Conforms | null {
  const fields: { readonly name: string; readonly inner: Conforms; readonly optional: boolean }[] = [];
  for (const [name, entry] of Object.entries(entries)) {
    const inner = compile(entry);
    if (inner === null) return null;
    fields.push({ name, inner, optional: entry.type === 'optional' });
  }
  return (value) => {
    if (!isObject(value)) return false;
    let unknown = Object.keys(value).length;
    for (const { name, inner, optional } of fields) {
      const field = value[name];
      if (field === undefined && optional) continue; // if present but undefined, it stays counted as unknown
      if (!inner(field)) return false;
      unknown -= 1;
    }
    return unknown === 0;
  };
}
