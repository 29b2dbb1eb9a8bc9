// The requests that are sent, and the responses they get.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import type { Process } from './process.ts';

/** One kind of request. `{}` in a header's value is replaced in every request (load.lua). */
export interface Load {
  /** POST unless given. */
  readonly method?: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** A file of values for `{}`, used in turn; without it, new digits every time. */
  readonly valuesFile?: string;
}

/** A response as the bare limit repeats it. */
export interface CannedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How the bare limit reads a body. */
export type BodyRead = 'json' | 'text' | 'nothing';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const MCP_ACCEPT = { ...JSON_TYPE, Accept: 'application/json, text/event-stream' };

export const restGetData = (key: string): Load => ({
  path: '/tools/get_data',
  headers: { ...JSON_TYPE, 'X-API-Key': key },
  body: '{}',
});

export const verifyKey = (key: string): Load => ({
  method: 'GET',
  path: '/verify?scope=read',
  headers: { 'X-API-Key': key },
  body: '',
});

/** `caller`: the key of the service that asks. */
export const introspectKey = (caller: string, key: string): Load => ({
  path: '/introspect',
  headers: { 'Content-Type': 'application/x-www-form-urlencoded', 'X-API-Key': caller },
  body: `token=${key}&token_type_hint=access_token`,
});

export const mcp2025GetData = (key: string): Load => ({
  path: '/mcp',
  headers: { ...MCP_ACCEPT, 'MCP-Protocol-Version': '2025-11-25', 'X-API-Key': key },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'get_data', arguments: {} } }),
});

export const mcp2026GetData = (key: string): Load => ({
  path: '/mcp',
  headers: {
    ...MCP_ACCEPT,
    'MCP-Protocol-Version': '2026-07-28',
    'Mcp-Method': 'tools/call',
    'Mcp-Name': 'get_data',
    'X-API-Key': key,
  },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'get_data',
      arguments: {},
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  }),
});

/** get_data over each transport. */
export const getDataLoads = (key: string) => ({
  REST: restGetData(key),
  'MCP 2025-11-25': mcp2025GetData(key),
  'MCP 2026-07-28': mcp2026GetData(key),
});

export const listKeys = (tokens: readonly string[]): Load => ({
  path: '/tools/list_api_keys',
  headers: { ...JSON_TYPE, Authorization: 'Bearer {}' },
  body: '{}',
  valuesFile: fileOf(tokens),
});

export const createKey = (tokens: readonly string[]): Load => ({
  path: '/tools/create_api_key',
  headers: { ...JSON_TYPE, Authorization: 'Bearer {}' },
  body: JSON.stringify({ name: 'bench key', scopes: ['read'] }),
  valuesFile: fileOf(tokens),
});

/** Many keys in turn. */
export const manyKeys = (keys: readonly string[]): Load => ({ ...restGetData('{}'), valuesFile: fileOf(keys) });

export const malformedKeys: Load = restGetData('sk_test_not-a-key');

/** Every request brings a key never sent before. */
export const unknownKeys: Load = restGetData('sk_test_{}');

/** The load as arguments of load.lua. */
export const loadArguments = ({ method = 'POST', headers, body, valuesFile }: Load): string[] => [
  `method=${method}`,
  `body=${body}`,
  ...Object.entries(headers).map(([name, value]) => `header=${name}: ${value}`),
  ...(valuesFile === undefined ? [] : [`values=${valuesFile}`]),
];

function fileOf(values: readonly string[]): string {
  const path = join(temporaryFolder(), 'values');
  writeFileSync(path, values.join('\n'));
  return path;
}

/** Headers that the server's runtime adds by itself, to the bare limit's responses as well. */
const RUNTIME_HEADERS = ['date', 'content-length', 'connection'];

/** Sends the load's first request and returns the response; throws when its status is not the expected one. */
export async function responseTo(server: Process, load: Load, expected = 200): Promise<CannedResponse> {
  const first = load.valuesFile && readFileSync(load.valuesFile, 'utf8').split('\n', 1)[0];
  const headers = Object.entries(load.headers).map(([name, value]): [string, string] => [
    name,
    value.replace('{}', first ?? '0'.repeat(64)),
  ]);
  const { method = 'POST' } = load;
  const response = await fetch(server.url + load.path, {
    method,
    headers,
    ...(load.body !== '' && { body: load.body }),
  });
  const body = await response.text();
  if (response.status !== expected) throw new Error(`${server.name} responded ${response.status}: ${body}`);
  const kept = [...response.headers].filter(([name]) => !RUNTIME_HEADERS.includes(name));
  return { status: response.status, headers: Object.fromEntries(kept), body };
}
