// Reads and writes JSON-RPC 2.0 messages as MCP uses them: requests, results with the fields that an era adds, errors
// and progress. Validates by hand, because this runs on every call.

import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { isObject, type JsonObject, jsonOf } from '../ground/text.ts';
import { apiKeyInMeta } from '../web/context.ts';

/** `legacy` is up to 2025-11-25; `modern` is 2026-07-28, in which each request is self-contained. */
export type Era = 'legacy' | 'modern';

export type Id = string | number;

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** Here `_meta` is an object; in a tool's input it may have any type. */
export type Params = JsonObject & { readonly _meta?: JsonObject };

export interface RequestMessage {
  readonly kind: 'request';
  readonly id: Id;
  readonly method: string;
  readonly params: Params;
}

interface NotificationMessage {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: Params;
}

/** An invalid message keeps its id if it could be read. */
export type Message =
  | RequestMessage
  | NotificationMessage
  | { readonly kind: 'response' }
  | { readonly kind: 'invalid'; readonly id: Id | undefined; readonly error: RpcError };

/** The codes of JSON-RPC 2.0 §5.1, and of MCP (basic/index, "Error Codes"). */
export const CODES = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  /** This server's own code, outside the reserved ranges; `data.code` names the problem. */
  denied: -31000,
  /** Only up to 2025-11-25; later it is invalidParams. */
  resourceNotFound: -32002,
  headerMismatch: -32020,
  missingClientCapability: -32021,
  unsupportedVersion: -32022,
} as const;

export const PARSE_ERROR: RpcError = { code: CODES.parse, message: 'The body is not JSON' };

const NOT_A_MESSAGE: RpcError = { code: CODES.invalidRequest, message: 'Not a JSON-RPC 2.0 message' };
const BAD_ID: RpcError = { code: CODES.invalidRequest, message: 'The id must be a string or an integer' };
const BAD_PARAMS: RpcError = { code: CODES.invalidParams, message: 'params must be an object' };
const BAD_META: RpcError = { code: CODES.invalidParams, message: '_meta must be an object' };
const NO_PARAMS: Params = {};

/** Returns whether a value is an id. MCP forbids null, and an integer beyond 2^53 would be echoed as another one. */
const isId = (id: unknown): id is Id => typeof id === 'string' || Number.isSafeInteger(id);

/** Reads a message from parsed JSON; undefined if there was no body. */
export function readMessage(body: unknown): Message {
  if (body === undefined) return { kind: 'invalid', id: undefined, error: PARSE_ERROR };
  if (!isObject(body)) return { kind: 'invalid', id: undefined, error: NOT_A_MESSAGE };
  const { jsonrpc, id, method, params = NO_PARAMS } = body;
  const readId = isId(id) ? id : undefined;
  if (jsonrpc !== '2.0') return { kind: 'invalid', id: readId, error: NOT_A_MESSAGE };
  if (typeof method !== 'string') {
    const isResponse = method === undefined && (body.result !== undefined || body.error !== undefined);
    return isResponse ? { kind: 'response' } : { kind: 'invalid', id: readId, error: NOT_A_MESSAGE };
  }
  if (id !== undefined && readId === undefined) return { kind: 'invalid', id: undefined, error: BAD_ID };
  if (!isObject(params)) return { kind: 'invalid', id: readId, error: BAD_PARAMS };
  if (!isParams(params)) return { kind: 'invalid', id: readId, error: BAD_META };
  return readId === undefined
    ? { kind: 'notification', method, params }
    : { kind: 'request', id: readId, method, params };
}

const isParams = (params: JsonObject): params is Params => params._meta === undefined || isObject(params._meta);

/** Returns the API key in the metadata of a message, or of a call's arguments. */
export const apiKeyIn = ({ _meta: meta, arguments: given }: JsonObject): string | null =>
  apiKeyInMeta(meta) ?? (isObject(given) ? apiKeyInMeta(given._meta) : null);

/** Returns the `_meta` of a message, also of one that is refused. */
export const metaOf = (message: unknown): unknown =>
  isObject(message) && isObject(message.params) ? message.params._meta : undefined;

/** Returns whether any message of the body has an API key in its metadata. */
export const carriesApiKey = (body: unknown): boolean =>
  (Array.isArray(body) ? body : [body]).some(
    (message: unknown) => isObject(message) && isObject(message.params) && apiKeyIn(message.params) !== null,
  );

/** Returns the JSON text of an object without its braces. */
export const fieldsOf = (value: object): string => jsonOf(value).slice(1, -1);

export const SERVER_INFO = { name: SERVER_NAME, version: SERVER_VERSION };

/** The types of results (2026-07-28, basic, "Responses"). */
type ResultType = 'complete' | 'input_required';

const SERVER_META = fieldsOf({ 'io.modelcontextprotocol/serverInfo': SERVER_INFO });

const modernFields = (type: ResultType, meta?: string) =>
  `"resultType":"${type}","_meta":{${meta === undefined ? SERVER_META : `${SERVER_META},${meta}`}},`;

const COMPLETE = modernFields('complete');

/** Returns the fields that the era adds to a result, with a comma at the end. `meta` has more fields of `_meta`. */
export function eraFields(era: Era, type: ResultType = 'complete', meta?: string): string {
  if (era === 'legacy') return meta === undefined ? '' : `"_meta":{${meta}},`;
  return type === 'complete' && meta === undefined ? COMPLETE : modernFields(type, meta);
}

/** Returns the text of a result. `fields` is the JSON text of the result object without its braces. */
export const resultText = (id: Id, fields: string): string =>
  `{"jsonrpc":"2.0","id":${typeof id === 'number' ? id : JSON.stringify(id)},"result":{${fields}}}`;

/** Returns the text of an error. It has no id if none could be read, because MCP's schema allows no `null`. */
export const errorText = (id: Id | undefined, error: RpcError): string => JSON.stringify({ jsonrpc: '2.0', id, error });

type ProgressToken = string | number;

/** The longest progress token: each notification repeats it. Clients send numbers and short names. */
const TOKEN_CHARS_MAX = 1024;

/** Returns the progress token. A longer one is ignored: progress is optional. */
export function progressTokenOf(meta: JsonObject | undefined): ProgressToken | undefined {
  const token = meta?.progressToken;
  if (typeof token === 'string') return token.length <= TOKEN_CHARS_MAX ? token : undefined;
  return Number.isSafeInteger(token) ? (token as number) : undefined;
}

/** Returns the fields with valid types. Clients would report a broken message for others. */
const progressFields = (total: unknown, message: unknown) => ({
  ...(Number.isFinite(total) && { total }),
  ...(typeof message === 'string' && { message: message.toWellFormed() }),
});

/**
 * Creates the reporter of a call's progress (basic/utilities/progress). It drops progress that doesn't increase, as the
 * specification demands, and any after `stop`.
 */
export function progressReporter(token: ProgressToken, send: (message: string) => void) {
  let last = Number.NEGATIVE_INFINITY;
  return {
    report(progress: number, total?: number, message?: string): void {
      if (!Number.isFinite(progress) || progress <= last) return;
      last = progress;
      const params = { progressToken: token, progress, ...progressFields(total, message) };
      send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params }));
    },
    stop(): void {
      last = Number.POSITIVE_INFINITY;
    },
  };
}
