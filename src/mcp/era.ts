// Classifies a POST once, by body and headers, as one of two families of protocol revisions: "legacy", up to
// 2025-11-25, and "modern", 2026-07-28, in which each request is self-contained.

import type { HeaderParam } from '../calls/tool.ts';
import { isObject, type JsonObject } from '../ground/text.ts';
import { redact } from '../watch/redact.ts';
import { CODES, type Era, type Id, type Message, type RequestMessage, type RpcError, readMessage } from './message.ts';

export const MODERN_VERSIONS: readonly string[] = ['2026-07-28'];
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
export const LATEST_LEGACY_VERSION = '2025-11-25';
export const ALL_VERSIONS: readonly string[] = [...MODERN_VERSIONS, ...LEGACY_VERSIONS];

const FIRST_MODERN_VERSION = '2026-07-28';
const A_VERSION = /^\d{4}-\d\d-\d\d$/;
/** Returns whether a version is 2026-07-28 or later. */
const isModern = (version: string) => version >= FIRST_MODERN_VERSION && A_VERSION.test(version);

/** The revisions with batches. Without the header a request counts as 2025-03-26. */
const BATCH_VERSIONS: readonly string[] = ['2025-03-26', '2024-11-05'];
const BATCH_MAX = 100;

const META_VERSION = 'io.modelcontextprotocol/protocolVersion';
const META_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

export interface IncomingRequest {
  readonly kind: 'request';
  readonly request: RequestMessage;
  readonly era: Era;
  /** Empty in the legacy era. */
  readonly capabilities: JsonObject;
}

export type Classified =
  | IncomingRequest
  | { readonly kind: 'batch'; readonly messages: readonly Message[] }
  /** A notification, or a response that nobody awaits: 202. */
  | { readonly kind: 'accepted' }
  | Refused;

/** An invalid request: HTTP 400. */
export interface Refused {
  readonly kind: 'refused';
  readonly id: Id | undefined;
  readonly error: RpcError;
  readonly request?: RequestMessage;
}

export const NO_CAPABILITIES: JsonObject = {};

const refuse = (id: Id | undefined, code: number, message: string, data?: unknown): Refused => ({
  kind: 'refused',
  id,
  error: { code, message, data },
});

export function classify(body: unknown, headers: Headers): Classified {
  if (Array.isArray(body)) return classifyBatch(body, headers);
  const message = readMessage(body);
  switch (message.kind) {
    case 'invalid':
      return { kind: 'refused', id: message.id, error: message.error };
    case 'notification':
    case 'response':
      return versionFault(headers, ALL_VERSIONS) ?? { kind: 'accepted' };
    case 'request': {
      const classified = classifyRequest(message, headers);
      return classified.kind === 'refused' ? { ...classified, request: message } : classified;
    }
  }
}

function classifyRequest(request: RequestMessage, headers: Headers): IncomingRequest | Refused {
  const { id, method, params } = request;
  const meta = params._meta;
  const claimed = meta?.[META_VERSION];
  if (claimed !== undefined && !(method === 'initialize' && typeof claimed !== 'string')) {
    return classifyModern(request, claimed, meta?.[META_CAPABILITIES], headers);
  }
  const version = headers.get('mcp-protocol-version');
  if (version !== null && isModern(version)) {
    if (method === 'initialize') return refuse(id, CODES.headerMismatch, 'MCP-Protocol-Version differs from the body');
    if (!MODERN_VERSIONS.includes(version)) return unsupported(id, version);
    return refuse(id, CODES.invalidParams, `_meta must name ${META_VERSION} and ${META_CAPABILITIES}`);
  }
  // Accept any other version in the header of `initialize`, because that negotiates.
  if (version !== null && method !== 'initialize' && !LEGACY_VERSIONS.includes(version)) {
    return refuse(id, CODES.invalidRequest, 'Unsupported protocol version');
  }
  return { kind: 'request', era: 'legacy', request, capabilities: NO_CAPABILITIES };
}

function classifyModern(
  request: RequestMessage,
  version: unknown,
  capabilities: unknown,
  headers: Headers,
): IncomingRequest | Refused {
  const { id, method, params } = request;
  if (typeof version !== 'string') return refuse(id, CODES.invalidParams, `${META_VERSION} must be a string`);
  const isKnown = MODERN_VERSIONS.includes(version);
  // Other revisions may have another envelope.
  if (isKnown && !isObject(capabilities))
    return refuse(id, CODES.invalidParams, `${META_CAPABILITIES} must be an object`);
  const versionHeader = headers.get('mcp-protocol-version');
  const methodHeader = headers.get('mcp-method');
  if (versionHeader !== null && versionHeader !== version) return mismatch(id, 'MCP-Protocol-Version');
  if (methodHeader !== null && methodHeader !== method) return mismatch(id, 'Mcp-Method');
  if (!isKnown || !isObject(capabilities)) return unsupported(id, version);
  if (versionHeader === null) return mismatch(id, 'MCP-Protocol-Version');
  if (methodHeader === null) return mismatch(id, 'Mcp-Method');
  if (!hasRightName(method, params, headers)) return mismatch(id, 'Mcp-Name');
  return { kind: 'request', era: 'modern', request, capabilities };
}

const mismatch = (id: Id, header: string) => refuse(id, CODES.headerMismatch, mismatchMessage(header));

const unsupported = (id: Id | undefined, version: string) =>
  refuse(id, CODES.unsupportedVersion, 'Unsupported protocol version', {
    supported: MODERN_VERSIONS,
    requested: redact(version),
  });

/** The parameter that Mcp-Name mirrors. */
const NAMED_BY: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

function hasRightName(method: string, params: JsonObject, headers: Headers): boolean {
  const field = NAMED_BY.get(method);
  if (field === undefined) return true;
  const named = params[field];
  return typeof named === 'string' && headerEquals(headers.get('mcp-name'), named);
}

function classifyBatch(items: readonly unknown[], headers: Headers): Classified {
  const fault = versionFault(headers, BATCH_VERSIONS);
  if (fault !== null) return fault;
  if (items.length === 0) return refuse(undefined, CODES.invalidRequest, 'The batch is empty');
  if (items.length > BATCH_MAX) {
    return refuse(undefined, CODES.invalidRequest, `A batch may have at most ${BATCH_MAX} messages`);
  }
  const messages = items.map(readMessage);
  const ids = new Set<Id>();
  for (const message of messages) {
    if (message.kind !== 'request' && message.kind !== 'notification') continue;
    if (message.params._meta?.[META_VERSION] !== undefined) {
      return refuse(undefined, CODES.invalidRequest, 'This revision has no batches');
    }
    if (message.kind !== 'request') continue;
    const { id, method } = message;
    if (method === 'initialize') return refuse(undefined, CODES.invalidRequest, 'initialize may not be in a batch');
    // Refuse before anything runs, because the client couldn't tell the responses apart.
    if (ids.has(id)) return refuse(undefined, CODES.invalidRequest, 'Two requests of the batch have the same id');
    ids.add(id);
  }
  return { kind: 'batch', messages };
}

function versionFault(headers: Headers, allowed: readonly string[]): Refused | null {
  const version = headers.get('mcp-protocol-version');
  if (version === null || allowed.includes(version)) return null;
  if (isModern(version) && !MODERN_VERSIONS.includes(version)) return unsupported(undefined, version);
  const message = ALL_VERSIONS.includes(version) ? 'This revision has no batches' : 'Unsupported protocol version';
  return refuse(undefined, CODES.invalidRequest, message);
}

// Headers repeat parts of the body (2026-07-28, Streamable HTTP, "Request Metadata"), for proxies that route without
// reading it. A server must refuse a request in which they differ.

const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;
// An HTTP field value (RFC 9110 §5.5) without obs-text that does not look encoded.
const PLAIN = /^(?!=\?base64\?.*\?=$)[\x20-\x7e\t]*$/;

const DECIMAL = /^-?\d+(\.\d+)?$/;

const headerEquals = (header: string | null, value: string): boolean =>
  header === value ? PLAIN.test(value) : header !== null && decode(header) === value;

export const mismatchMessage = (header: string): string =>
  `Header mismatch: ${header} is missing or differs from the body`;

/** Decodes a header's value. Returns null for one that clients may not send. */
function decode(header: string): string | null {
  if (PLAIN.test(header)) return header;
  const base64 = ENCODED.exec(header)?.[1];
  if (base64 === undefined || base64.length % 4 !== 0) return null;
  try {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null; // not UTF-8
  }
}

/** Returns the first header that is missing, unexpected or different; undefined if none is. */
export function mismatchedParam(
  params: readonly HeaderParam[],
  input: JsonObject,
  headers: Headers,
): string | undefined {
  const given = (field: string) => (Object.hasOwn(input, field) ? input[field] : undefined);
  return params.find(({ header, field }) => !headerMatches(headers.get(header), given(field)))?.header;
}

function headerMatches(header: string | null, value: unknown): boolean {
  if (typeof value === 'string') return headerEquals(header, value);
  if (typeof value === 'boolean') return headerEquals(header, String(value));
  // Compared as numbers: 42.0 is 42.
  if (typeof value === 'number') {
    const text = decode(header ?? '') ?? '';
    return DECIMAL.test(text) && Number(text) === value;
  }
  return header === null; // there is no value, or the schema will refuse it
}
