// Makes the headers in which MCP 2026-07-28 clients repeat marked parameters (basic/transports/streamable-http, "Schema
// Extension"). The server refuses calls without them.

import { once } from '../../../ground/cache.ts';

/** What is read of the server's /openapi.json: the input of each tool, with the header that repeats a field. */
interface OpenApi {
  readonly paths: Readonly<Record<string, { readonly post: { readonly requestBody: RequestBody } }>>;
}
interface RequestBody {
  readonly content: { readonly 'application/json': { readonly schema: Schema } };
}
interface Schema {
  readonly properties?: Readonly<Record<string, { readonly 'x-mcp-header'?: string }>>;
}

/**
 * Returns a function that makes these headers. It reads the marks from /openapi.json, once, because a list of tools leaves
 * out those that the caller may not call.
 */
export function headerParamsAt(url: string) {
  const openApi = once(async () => (await fetch(`${url}/openapi.json`)).json() as Promise<OpenApi>);
  return async (tool: string, input: object): Promise<Record<string, string>> => {
    const { paths } = await openApi();
    const { properties = {} } = paths[`/tools/${tool}`]?.post.requestBody.content['application/json'].schema ?? {};
    const given = new Map<string, unknown>(Object.entries(input));
    return Object.fromEntries(
      Object.entries(properties).flatMap(([field, { 'x-mcp-header': name }]) => {
        const value = name === undefined ? null : encoded(given.get(field));
        return value === null ? [] : [[`Mcp-Param-${name}`, value]];
      }),
    );
  };
}

/** Printable ASCII without leading or trailing white space, which a header would lose. */
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Encodes a value for a header; null: it isn't sent. */
function encoded(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return null;
  const isPlain = PLAIN.test(value) && !value.startsWith('=?base64?');
  return isPlain ? value : `=?base64?${new TextEncoder().encode(value).toBase64()}?=`;
}
