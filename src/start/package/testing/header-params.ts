// Makes the headers in which MCP 2026-07-28 clients repeat marked parameters (basic/transports/streamable-http, "Schema
// Extension"). The server refuses calls without them.

import { isObject, type JsonObject } from '../../../ground/text.ts';

/**
 * Returns a function that makes these headers. It reads the marks from /openapi.json, once, because a list of tools leaves
 * out those that the caller may not call.
 */
export function headerParamsAt(url: string) {
  let paths: Promise<JsonObject> | undefined;
  return async (tool: string, input: object): Promise<Record<string, string>> => {
    paths ??= pathsAt(url);
    const marked = Object.entries(markedIn((await paths)[`/tools/${tool}`]));
    const given = new Map<string, unknown>(Object.entries(input));
    return Object.fromEntries(
      marked.flatMap(([field, name]) => {
        const value = encoded(given.get(field));
        return value === null ? [] : [[`Mcp-Param-${name}`, value]];
      }),
    );
  };
}

async function pathsAt(url: string): Promise<JsonObject> {
  const response = await fetch(`${url}/openapi.json`);
  const { paths } = (await response.json()) as { readonly paths: JsonObject };
  return paths;
}

/** Returns header names by the input fields that they repeat. */
function markedIn(path: unknown): Record<string, string> {
  const schema = at(path, 'post', 'requestBody', 'content', 'application/json', 'schema', 'properties');
  const properties = isObject(schema) ? Object.entries(schema) : [];
  return Object.fromEntries(
    properties.flatMap(([field, property]) => {
      const name = at(property, 'x-mcp-header');
      return typeof name === 'string' ? [[field, name]] : [];
    }),
  );
}

const at = (value: unknown, ...names: readonly string[]): unknown =>
  names.reduce((inner, name) => (isObject(inner) ? inner[name] : undefined), value);

/** Printable ASCII without leading or trailing white space, which a header would lose. */
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Encodes a value for a header; null: it isn't sent. */
function encoded(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return null;
  const isPlain = PLAIN.test(value) && !value.startsWith('=?base64?');
  return isPlain ? value : `=?base64?${new TextEncoder().encode(value).toBase64()}?=`;
}
