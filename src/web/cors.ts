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
/** Of bounded length: a longer one could be a misplaced key, which must not be sent back. */
const MCP_PARAM = /\bmcp-param-[\w-]{1,48}(?![\w-])/gi;

/** Lets pages of `origin` read a response; if it is `open`, any page. */
export function allowOrigin(headers: Headers, origin: string, open: boolean): void {
  headers.set('Access-Control-Allow-Origin', open ? '*' : origin);
  headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS);
  if (!open) headers.append('Vary', 'Origin');
}

export function preflight(request: Request, allow: string): Response {
  const headers = new Headers({ Allow: allow, ...SECURITY_HEADERS });
  if (request.headers.has('access-control-request-method')) {
    headers.set('Access-Control-Allow-Methods', allow);
    // Tools choose the names of Mcp-Param-<x> headers, so whichever are asked for are allowed.
    const params = (request.headers.get('access-control-request-headers') ?? '').match(MCP_PARAM) ?? [];
    headers.set('Access-Control-Allow-Headers', [ALLOWED_HEADERS, ...params].join(', '));
    headers.set('Access-Control-Max-Age', PREFLIGHT_MAX_AGE_S);
  }
  return new Response(null, { status: 204, headers });
}
