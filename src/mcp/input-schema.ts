// The schema of a tool's input as MCP clients are told it: one object. The APIs of models refuse alternatives at the root
// of a schema, and with them every request that names the tool. So what is told accepts a little more than the tool does;
// and less only of a field that one alternative has, and another drops as unknown.

import type { JsonSchema } from '../calls/schema.ts';
import { isObject } from '../ground/text.ts';

/** The same, with `anyOf`, `oneOf`, `allOf` and `$ref` at its root merged into its fields. */
export function asOneObject(schema: JsonSchema, defs: unknown = schema.$defs): JsonSchema {
  const { $ref: ref, anyOf, oneOf = anyOf, allOf, ...own } = schema;
  if (typeof ref === 'string') return asOneObject({ ...own, ...definitionAt(ref, defs) }, defs);
  if (Array.isArray(oneOf)) return { ...own, ...merged(objectsIn(oneOf, defs), 'anyOf') };
  if (Array.isArray(allOf)) return { ...own, ...merged(objectsIn(allOf, defs), 'allOf') };
  return schema;
}

function definitionAt(ref: string, defs: unknown): JsonSchema {
  const found = isObject(defs) ? defs[ref.replace('#/$defs/', '')] : undefined;
  return isObject(found) ? found : {};
}

interface ObjectSchema extends JsonSchema {
  readonly properties: JsonSchema;
}

/** An input is an object: another alternative, like null, is none. */
const objectsIn = (parts: readonly unknown[], defs: unknown): readonly ObjectSchema[] =>
  parts.flatMap((part) => {
    const object = isObject(part) ? asOneObject(part, defs) : {};
    return object.type === 'object'
      ? { ...object, properties: isObject(object.properties) ? object.properties : {} }
      : [];
  });

function merged(objects: readonly ObjectSchema[], how: 'anyOf' | 'allOf'): JsonSchema {
  const names = [...new Set(objects.flatMap(({ properties }) => Object.keys(properties)))];
  const requires = (name: string) => (object: ObjectSchema) =>
    Array.isArray(object.required) && object.required.includes(name);
  const required = names.filter((name) =>
    how === 'anyOf' ? objects.every(requires(name)) : objects.some(requires(name)),
  );
  const isClosed = how === 'anyOf' && objects.every(({ additionalProperties }) => additionalProperties === false);
  const properties = names.map((name) => [
    name,
    together(
      objects.flatMap((object) => (Object.hasOwn(object.properties, name) ? [object.properties[name]] : [])),
      how,
    ),
  ]);
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    required,
    ...(isClosed && { additionalProperties: false }),
  };
}

/** What a field is in several of them. */
function together(schemas: readonly unknown[], how: 'anyOf' | 'allOf'): unknown {
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  if (distinct.length === 1) return distinct[0];
  const values = distinct.flatMap((schema) => (isObject(schema) && 'const' in schema ? [schema.const] : []));
  return how === 'anyOf' && values.length === distinct.length ? { enum: values } : { [how]: distinct };
}
