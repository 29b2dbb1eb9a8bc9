// Cross-origin requests (Fetch, CORS protocol): what a browser may send and read, once its origin is allowed.

import { SECURITY_HEADERS } from './headers.ts';

const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'X-API-Key',
  'Accept',
  'MCP-Protocol-Version',
  'Mcp-Method',
  'Mcp-Name',
  'Mcp-Session-Id',
  'Last-Event-ID',
].join(', ');
const EXPOSED_HEADERS = 'WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy';
const PREFLIGHT_MAX_AGE_S = '600';
/** Names of sensible length: what is longer could be a key put into the wrong place, and must not come back. */
const MCP_PARAM = /\bmcp-param-[\w-]{1,48}(?![\w-])/gi;

/** Adds to an answer what lets the page of `origin` read it; `*` for what is open to any. */
export function allowOrigin(headers: Headers, origin: string, open: boolean): void {
  headers.set('Access-Control-Allow-Origin', open ? '*' : origin);
  headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS);
  if (!open) headers.append('Vary', 'Origin');
}

/** The answer to OPTIONS, CORS preflight or not. */
export function preflight(request: Request, allow: string): Response {
  const headers = new Headers({ Allow: allow, ...SECURITY_HEADERS });
  if (request.headers.has('access-control-request-method')) {
    headers.set('Access-Control-Allow-Methods', allow);
    // Mcp-Param-<x> headers carry names of a tool's own: they are allowed as they are asked for.
    const params = (request.headers.get('access-control-request-headers') ?? '').match(MCP_PARAM) ?? [];
    headers.set('Access-Control-Allow-Headers', [ALLOWED_HEADERS, ...params].join(', '));
    headers.set('Access-Control-Max-Age', PREFLIGHT_MAX_AGE_S);
  }
  return new Response(null, { status: 204, headers });
}
