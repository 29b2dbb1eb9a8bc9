// Parameters that clients of MCP 2026-07-28 repeat in headers: `x-mcp-header` in the input schema of a tool, and where
// it may stand (basic/transports/streamable-http, "Schema Extension"). Clients drop a tool that marks others.

import { isObject } from '../lib/text.ts';
import type { JsonSchema } from './schema.ts';

export interface HeaderParam {
  readonly header: string;
  /** Property names from the root. */
  readonly path: readonly string[];
}

const MARK = 'x-mcp-header';
/** A token (RFC 9110 §5.6.2). */
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean'];
/** Keywords with values, not schemas. */
const VALUES = ['const', 'default', 'enum', 'examples'];
/** Keywords with schemas by name. */
const NAMED_SCHEMAS = ['properties', '$defs', 'patternProperties', 'dependentSchemas'];

/** The marked parameters of a tool's input. Throws an Error, with tool and parameter, for one that clients refuse. */
export function headerParams(tool: string, schema: JsonSchema): readonly HeaderParam[] {
  const found: HeaderParam[] = [];

  const faulty = (path: readonly string[], expected: string, got: unknown) =>
    new Error(`${tool}: ${MARK} of ${path.join('.') || 'the input'}: expected ${expected}, got ${JSON.stringify(got)}`);

  function take(path: readonly string[], { [MARK]: name, type }: JsonSchema): void {
    if (typeof name !== 'string' || !HEADER_NAME.test(name)) {
      throw faulty(path, 'a name for a header, of letters, digits and "-"', name);
    }
    if (!TYPES.includes(type))
      throw faulty(path, 'a parameter that is text, an integer or a boolean', type ?? 'another');
    const header = `Mcp-Param-${name}`;
    const same = found.find((other) => other.header.toLowerCase() === header.toLowerCase());
    if (same !== undefined) throw faulty(path, `another name than that of ${same.path.join('.')}`, name);
    found.push({ header, path });
  }

  /** `reached`: through the properties of objects alone. */
  function walk(schema: unknown, path: readonly string[], reached: boolean): void {
    if (Array.isArray(schema)) for (const one of schema) walk(one, path, false);
    if (!isObject(schema)) return;
    if (MARK in schema) {
      if (!reached || path.length === 0)
        throw faulty(path, 'it on a field, not in a list or an alternative', schema[MARK]);
      take(path, schema);
    }
    for (const [keyword, inside] of Object.entries(schema)) {
      if (VALUES.includes(keyword)) continue;
      if (!NAMED_SCHEMAS.includes(keyword) || !isObject(inside)) {
        walk(inside, path, false);
        continue;
      }
      for (const [name, one] of Object.entries(inside)) walk(one, [...path, name], reached && keyword === 'properties');
    }
  }

  walk(schema, [], true);
  return found;
}
