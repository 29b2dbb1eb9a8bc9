// Parameters that clients of MCP 2026-07-28 repeat in headers: `x-mcp-header` on fields of a tool's input
// (basic/transports/streamable-http, "Schema Extension"). Clients drop a tool that marks others.

import { isObject } from '../ground/text.ts';
import type { JsonSchema } from './schema.ts';

export interface HeaderParam {
  readonly header: string;
  readonly field: string;
}

const MARK = 'x-mcp-header';
/** With a name as its value; a field of this name has a schema. */
const MARKS = new RegExp(`"${MARK}":(?!\\{)`, 'g');
/** A token (RFC 9110 §5.6.2). */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean'];

/** The marked parameters of a tool's input. Throws an Error, with tool and field, for one that clients refuse. */
export function headerParams(tool: string, schema: JsonSchema): readonly HeaderParam[] {
  const { properties = {} } = schema;
  const found: HeaderParam[] = [];
  for (const [field, property] of Object.entries(properties as JsonSchema)) {
    if (isObject(property) && MARK in property) found.push(headerParam(tool, field, property, found));
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
