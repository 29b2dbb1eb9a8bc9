// Schemas of tools: parses with valibot, words the issues, converts to JSON Schema for clients, and defines common
// fields.

import { toJsonSchema } from '@valibot/to-json-schema';
import * as v from 'valibot';
import { LIMITS } from '../ground/limits/index.ts';
import { type InputIssue, type InvalidInput, invalidInput } from '../ground/problem.ts';
import { err, isPromise, ok, type Result } from '../ground/result.ts';
import { hasLength, isJson, isObject, isStorable } from '../ground/text.ts';
import { redactKeys } from '../watch/redact.ts';

export type Schema = v.GenericSchema;

/** The schema of a tool's input or output. With any other root type, MCP clients refuse the whole list of tools. */
export type ObjectSchema = v.GenericSchema<Record<string, unknown>>;

export type JsonSchema = Readonly<Record<string, unknown>>;

/** The most issues in a response: enough to fix a call, too few for a hostile call to get a large response. */
const ISSUES_MAX = 10;

/**
 * An input with more values is refused with its first issue only, because valibot creates an issue for each wrong
 * value. A full body can hold half a million, which would take 0.6 s and 150 MB.
 */
const VALUES_MAX = 1000;

/** The greatest depth of a field. Deeper values overflow the stack of a recursive schema, or of code that runs later. */
const DEPTH_MAX = 1000;

type Parse<S extends Schema> = (input: unknown) => Result<v.InferOutput<S>, InvalidInput>;

/** Creates a parser. Its issues don't name unknown fields, and keys in them are redacted: a name could be a misplaced key. */
export function parserOf<S extends Schema>(schema: S): Parse<S> {
  return (input) => {
    const parsed = v.safeParse(schema, input, FIRST_ISSUE);
    if (parsed.success) return ok(parsed.output);
    const all = isSmall(input) ? v.safeParse(schema, input, ALL_ISSUES) : parsed;
    const issues = (all.issues ?? parsed.issues)
      .slice(0, ISSUES_MAX)
      .map((issue) => withoutKeys(issueOf(schema, issue)));
    return err({ code: 'invalid_input', issues });
  };
}

/**
 * Creates a validator of what a tool or prompt returns. It keeps only what the schema names, and throws an Error if the
 * value doesn't fit; `what` says so in the message.
 */
export function outputValidatorOf<S extends Schema>(
  name: string,
  schema: S,
  what = 'the output does not fit its schema',
): (returned: unknown) => v.InferOutput<S> {
  const parse = parserOf(schema);
  return (returned) => {
    if (isPromise(returned)) throw new Error(`${name}: ${what}: it is a promise`);
    const parsed = parse(returned);
    if (!parsed.ok) throw new Error(`${name}: ${what}: ${inWords(parsed.error.issues)}`);
    return parsed.value;
  };
}

/** No output with more objects and lists, of three bytes each, can be sent. */
const PARTS_MAX = LIMITS.output.each / 3;

/**
 * Throws an Error if the output is nested too deep, has a number that JSON can't express (clients would read null; a widget
 * may), or has too many parts, as one that holds the same object twice at each level. Bun needs seconds to find out that it
 * can't write such a one as JSON.
 */
export function assertWritable(name: string, output: unknown, isForWidget = false): void {
  let parts = 0;
  function walk(value: object, depth: number): void {
    parts += 1;
    if (depth > DEPTH_MAX) {
      throw new Error(`${name}: expected an output nested at most ${DEPTH_MAX} deep, without circles`);
    }
    if (parts > PARTS_MAX) throw new Error(`${name}: expected an output of at most ${PARTS_MAX} objects and lists`);
    for (const inside of insideOf(value)) {
      if (typeof inside === 'object' && inside !== null) walk(inside, depth + 1);
      else if (typeof inside === 'number' && !Number.isFinite(inside) && !isForWidget) {
        throw new Error(`${name}: the output has a number that JSON can't express: ${inside}`);
      }
    }
  }
  if (typeof output === 'object' && output !== null) walk(output, 0);
}

/** Returns what JSON writes of an object or list; nothing of one with `toJSON`, which isn't called twice. */
function insideOf(value: object): readonly unknown[] {
  if (Array.isArray(value)) return value;
  return 'toJSON' in value && typeof value.toJSON === 'function' ? [] : Object.values(value);
}

/** Creates a parser of callers' input. It bounds depth and numbers, which a tool author's schema may not. */
export function inputParserOf<S extends Schema>(schema: S): Parse<S> {
  const parse = parserOf(schema);
  const known = fieldsOf(schema);
  return (input) => {
    if (!isObject(input)) return parse(input);
    for (const name of Object.keys(input)) {
      const message = excessIn(input[name], DEPTH_MAX);
      if (message === null) continue;
      return err(invalidInput(known.includes(name) ? name : '', message));
    }
    return parse(input);
  };
}

/** Returns the schemas of an object's fields; none of another schema. */
export const entriesOf = (schema: Schema): Readonly<Record<string, Schema>> =>
  'entries' in schema && isObject(schema.entries) ? (schema.entries as Record<string, Schema>) : {};

/** Throws an Error for a schema whose fields aren't known, such as alternatives: nobody could be told of them. */
export function assertObject(schemaName: string, schema: Schema): void {
  if ('entries' in schema) return;
  throw new Error(`${schemaName}: expected the schema of an object, like v.strictObject({}), got v.${schema.type}()`);
}

const fieldsOf = (schema: Schema): readonly string[] => Object.keys(entriesOf(schema));

const TOO_DEEP = `Expected values nested at most ${DEPTH_MAX} deep`;
const TOO_LARGE = `Expected numbers of at most ${Number.MAX_VALUE}`;

/**
 * Returns what is wrong with a value: it is nested deeper than `levels`, or has an infinite number. JSON writes
 * infinity as null, so two inputs would look the same. Null if nothing is wrong.
 */
function excessIn(value: unknown, levels: number): string | null {
  if (typeof value === 'number') return Number.isFinite(value) ? null : TOO_LARGE;
  if (typeof value !== 'object' || value === null) return null;
  if (levels === 0) return TOO_DEEP;
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const one of inside) {
    const excess = excessIn(one, levels - 1);
    if (excess !== null) return excess;
  }
  return null;
}

/** Returns whether `input` has at most VALUES_MAX values, itself included. It isn't recursive, so any depth will do. */
function isSmall(input: unknown): boolean {
  const values = [input];
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue;
    const inside: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (values.length + inside.length > VALUES_MAX) return false;
    values.push(...inside);
  }
  return true;
}

// For formats (`email`, `integer`) and conversions (`to_number`, `parse_json`) valibot gives only the name, for checks
// by a function nothing useful.
const expectation = ({ expected, received, type, kind }: v.BaseIssue<unknown>) => {
  if (expected === null) return `Expected ${/check|item/.test(type) ? 'another value' : wordsOf(type)}`;
  const measured = kind === 'validation' ? measureOf(type) : '';
  const unawaited = received === 'Promise' ? ', got a promise' : ''; // of an output: JSON has none
  return `Expected ${measured}${expected.replace(/^!/, 'not ')}${unawaited}`;
};

/** Says what is compared unless it is the value itself: valibot expects `<=5` of a length, too. */
function measureOf(type: string): string {
  const measure = type.replace('non_empty', 'length').replace(/^(min|max|not|gt|lt)_/, '');
  return /^(value|regex|excludes)/.test(measure) ? '' : `${wordsOf(measure)} `;
}

/** Finds all issues; with `abortPipeEarly` only one per value. */
const ALL_ISSUES = { message: expectation, abortPipeEarly: true };
const FIRST_ISSUE = { ...ALL_ISSUES, abortEarly: true };

const wordsOf = (type: string) =>
  type
    .replace(/^to_/, 'a ')
    .replace(/^parse_/, '')
    .replaceAll('_', ' ');

function issueOf(schema: Schema, issue: v.BaseIssue<unknown>): InputIssue {
  const keys = (issue.path ?? []).map((item) => String(item.key));
  if (/object/.test(issue.type) && issue.expected?.startsWith('"'))
    // a field is missing
    return { path: keys.join('.'), message: 'This field is required' };
  if (issue.type !== 'strict_object' || issue.expected !== 'never')
    return { path: keys.join('.'), message: issue.message };
  const within = keys.slice(0, -1);
  const path = within.join('.');
  const object = schemaAt(schema, within);
  if (object === undefined || !('entries' in object)) return { path, message: 'Unknown field' };
  const known = fieldsOf(object);
  const hint = known.length > 0 ? `the fields are ${known.join(', ')}` : 'it takes no fields';
  return { path, message: `Unknown field; ${hint}` };
}

/** Returns the schema of a field or of a list's items; undefined within alternatives and records. */
function schemaAt(schema: Schema, path: readonly string[]): Schema | undefined {
  if ('wrapped' in schema) return schemaAt(schema.wrapped as Schema, path);
  const shape = schema.type === 'unknown' ? lastShapeOf(schema) : undefined;
  if (shape !== undefined) return schemaAt(shape, path);
  const [key, ...rest] = path;
  if (key === undefined) return schema;
  const entries = entriesOf(schema);
  const inside = 'item' in schema ? (schema.item as Schema) : Object.hasOwn(entries, key) ? entries[key] : undefined;
  return inside && schemaAt(inside, rest);
}

/** Returns the last schema of a pipe, which checks what those before have made of the input. */
function lastShapeOf(schema: Schema): Schema | undefined {
  const parts = 'pipe' in schema ? (schema.pipe as readonly unknown[]) : [];
  return parts.findLast((part): part is Schema => isObject(part) && part.kind === 'schema');
}

/** Redacts keys and half characters in an issue. The name of a record's field, or a tool's message, may quote the input. */
export const withoutKeys = ({ path, message }: InputIssue): InputIssue => ({
  path: redactKeys(path).toWellFormed(),
  message: redactKeys(message).toWellFormed(),
});

export const inWords = (issues: readonly InputIssue[]): string =>
  issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');

/** Describes text of `min` to `max` characters (code points) without control characters. */
export const text = (min: number, max: number) =>
  v.pipe(
    v.string(),
    v.check((value) => hasLength(value, min, max), `Expected ${min} to ${max} characters`),
    v.check(isStorable, 'Expected text without control characters or lone surrogates'),
    v.metadata({ minLength: min, maxLength: max }),
  );

export function wholeNumber(min: number, max: number) {
  const expected = `Expected a whole number from ${min} to ${max}`;
  return v.pipe(v.number(), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected));
}

/** A whole number that the server has counted. */
export const count = v.pipe(v.number(), v.integer());

export const epochMs = count;

/** What a schema accepts, or what it turns that into. */
type Side = 'input' | 'output';

/**
 * Converts one side of a schema to JSON Schema (2020-12), which may accept a little more: it leaves out checks that it
 * can't express, and checks by a function without metadata. Throws for types that it can't express, like a date, for
 * async parts, and for a root that is no object. `schemaName`, like `list_orders: input`, is for the message.
 */
export function jsonSchemaOf(schemaName: string, schema: Schema, side: Side = 'input'): JsonSchema {
  assertParts(schemaName, schema);
  const { $schema: _, ...converted } = convert(schemaName, schema, side);
  const json = { type: 'object', ...converted }; // alternatives have no type, which MCP clients require
  if (json.type !== 'object')
    throw new Error(`${schemaName}: expected the schema of an object, got one of type ${json.type}`);
  if (!isJson(json)) throw new Error(`${schemaName}: expected metadata that JSON can express`);
  const { properties, required, ...bare } = json;
  // Tools without arguments must have `{"type":"object","additionalProperties":false}` (MCP, server/tools).
  return properties !== undefined && Object.keys(properties).length === 0 ? bare : json;
}

/**
 * Throws an Error for a schema with async parts, which would let anything pass, with a field that is none, like `v.string`
 * without parentheses, with a choice of nothing, for which clients refuse all tools, or with a pattern that remembers its last
 * match. The compiler refuses most, too.
 */
export function assertParts(schemaName: string, schema: Schema): void {
  const parts = new Set<unknown>([schema]); // grows while it is walked
  for (const part of parts) {
    if (typeof part !== 'object' || part === null) continue;
    const fault = faultOfPart(part);
    if (fault !== null) throw new Error(`${schemaName}: ${fault}`);
    for (const inside of Object.values(part)) parts.add(inside);
  }
}

function faultOfPart(part: object): string | null {
  if (part instanceof RegExp && (part.global || part.sticky)) {
    return `expected a pattern without the flags g and y, which fails every second time, got ${part}`;
  }
  if (!('kind' in part)) return null;
  if ('async' in part && part.async === true) {
    return 'expected a schema that decides at once, got an async part; that belongs into run';
  }
  if (part.kind !== 'schema') return null;
  if ('options' in part && 'type' in part && Array.isArray(part.options) && part.options.length === 0) {
    return `expected options of v.${part.type}(), got none`;
  }
  if (!('entries' in part)) return null;
  if (part.entries === undefined) return 'expected fields, like v.object({}), got none';
  const odd = Object.entries(Object(part.entries)).find(([, field]) => !isObject(field) || field.kind !== 'schema');
  return odd === undefined ? null : `${odd[0]}: expected a schema, like v.string(), got ${typeof odd[1]}`;
}

function isUnicodePattern(source: string): boolean {
  try {
    new RegExp(source, 'u');
    return true;
  } catch {
    return false;
  }
}

const patternIn = (action: object): string =>
  'requirement' in action && action.requirement instanceof RegExp ? action.requirement.source : '';

/** Actions that change a value's type. */
const CONVERSIONS: readonly string[] = [
  ...['transform', 'raw_transform', 'map_items', 'find_item', 'reduce_items'],
  ...['parse_boolean', 'parse_json', 'stringify_json'],
  ...['to_bigint', 'to_boolean', 'to_date', 'to_number', 'to_string'],
];

/** Actions of the kind `transformation` that change only the type for TypeScript. */
const TYPINGS: readonly string[] = ['brand', 'flavor', 'guard', 'readonly'];

const changesValue = ({ kind, type }: { readonly kind: string; readonly type: string }): boolean =>
  kind === 'transformation' && !TYPINGS.includes(type);

type Json = ConversionContext['jsonSchema'];
type ConversionContext = Parameters<NonNullable<ConversionConfig['overrideSchema']>>[0];
type ConversionConfig = NonNullable<Parameters<typeof toJsonSchema>[1]>;

const literalOf = ({ const: value, ...json }: Json): Json =>
  typeof value === 'string' ? { ...json, type: 'string', enum: [value] } : { ...json, type: typeof value as 'boolean' };

const boundOf = ({ exclusiveMinimum: minimum, exclusiveMaximum: maximum, ...json }: Json): Json => ({
  ...json,
  ...(minimum !== undefined && { minimum }),
  ...(maximum !== undefined && { maximum }),
});

/** Leaves out what checks said of a value before it was changed, such as trimmed or sorted. */
function unchecked(json: Json): Json {
  const kept = Object.entries(json).filter(([keyword]) => !CHECKS.includes(keyword));
  return Object.fromEntries(kept);
}

const CHECKS: readonly string[] = [
  ...['const', 'enum', 'not', 'pattern', 'format', 'minLength', 'maxLength', 'minItems', 'maxItems'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minProperties', 'maxProperties'],
];

/** Requires no field whose value may be undefined, as JSON leaves it out: clients would refuse such an output. */
const withoutUndefined = (json: Json, entries: Readonly<Record<string, Schema>>): Json => ({
  ...json,
  required: json.required?.filter((name) => !mayBeUndefined(entries[name])),
});

function mayBeUndefined(schema: Schema | undefined): boolean {
  if (schema === undefined) return false;
  try {
    const parsed = v.safeParse(schema, undefined);
    return parsed.success && parsed.output === undefined; // not so with a default or fallback
  } catch {
    return false; // a function of the schema takes no undefined
  }
}

function convert(schemaName: string, schema: Schema, side: Side, path: readonly string[] = []) {
  function fail(expected: string): never {
    for (const [name, field] of Object.entries(entriesOf(schema))) convert(schemaName, field, side, [...path, name]);
    const place = path.length === 0 ? schemaName : `${schemaName}: ${path.join('.')}`; // inner fields throw first
    throw new Error(`${place}: expected ${expected}`);
  }
  const afterChange = (type: string, json: Json): Json =>
    CONVERSIONS.includes(type)
      ? fail(`the schema of its result at the end of a pipe with ${type}, like v.string()`)
      : unchecked(json);
  return toJsonSchema(schema, {
    target: 'draft-2020-12',
    typeMode: side,
    overrideSchema({ valibotSchema, jsonSchema, errors }) {
      const { type } = valibotSchema;
      // Hosts of Gemini refuse all tools for a word that they don't know. What is said instead accepts a little more.
      if (type === 'record') return { ...jsonSchema, propertyNames: undefined }; // so any type of its names will do
      if (errors) fail(`what JSON Schema can express, got v.${type}()`);
      if (type === 'literal') return literalOf(jsonSchema);
      // Without the number of a literal, several of them may fit.
      if (type === 'variant') return { ...jsonSchema, anyOf: jsonSchema.oneOf, oneOf: undefined };
      // Clients of older drafts would apply `items` to all items, despite `prefixItems`.
      if (type === 'strict_tuple') return { ...jsonSchema, items: undefined, maxItems: jsonSchema.minItems };
      if (type === 'tuple_with_rest') return { ...jsonSchema, items: undefined };
      if (side === 'output' && 'required' in jsonSchema) return withoutUndefined(jsonSchema, entriesOf(valibotSchema));
      return undefined;
    },
    overrideAction({ valibotAction: action, jsonSchema, errors }) {
      const { type } = action;
      const source = patternIn(action);
      if (side === 'output' && changesValue(action)) return afterChange(type, jsonSchema);
      // Its flags are lost. Clients compile patterns in Unicode mode, and refuse all tools if one doesn't compile.
      if (type === 'regex' && (errors || !isUnicodePattern(source))) return { ...jsonSchema, pattern: undefined };
      // JSON Schema's formats differ: they demand seconds and a time zone.
      if (type === 'iso_time' || type === 'iso_date_time') return { ...jsonSchema, format: undefined, pattern: source };
      // Valibot counts UTF-16 units, JSON Schema code points, which have one or two of them.
      if (/^(min_)?length$/.test(type) && side === 'output' && jsonSchema.minLength)
        return { ...jsonSchema, minLength: Math.ceil(jsonSchema.minLength / 2) };
      if (/^[gl]t_value$/.test(type)) return boundOf(jsonSchema);
      // `uri` allows only ASCII, `ipv6` no zone, and clients demand a dot in the domain of an `email`.
      if (/^(url|rfc_email|ipv6)$/.test(type) && side === 'output') return { ...jsonSchema, format: undefined };
      return errors && jsonSchema;
    },
  });
}
