// Headers shared by many requests and responses: security, rate limits, Accept and CORS.

import type { RateLimit, RateLimitState, RateLimitStates } from '../ground/rate-limit.ts';

/** The headers of every response: no sniffing, no scripts, no framing. Pages set their own policy. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** The headers of pages with scripts. Each page adds its own policy. */
export const PAGE_HEADERS = {
  ...SECURITY_HEADERS,
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'X-Frame-Options': 'DENY', // frame-ancestors, for browsers that don't know it
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const;

/** Strict-Transport-Security (RFC 6797) for a year. It leaves out subdomains, which others may serve. */
export const STRICT_TRANSPORT = 'max-age=31536000';

export const UNCACHED_HEADERS = { 'Cache-Control': 'no-store', ...SECURITY_HEADERS } as const;

export const UNCACHED_JSON_HEADERS = { 'Content-Type': 'application/json', ...UNCACHED_HEADERS } as const;

/** Filled once, because copying costs a fraction of filling. */
const JSON_HEADERS = new Headers(UNCACHED_JSON_HEADERS);

/** Creates a response with JSON that nobody caches. */
export const json = (status: number, body: object): Response =>
  new Response(JSON.stringify(body), { status, headers: JSON_HEADERS });

/** Sets RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10 §3, §4). */
export function setLimits(headers: Headers, states: RateLimitStates): void {
  if (states.length === 0) return;
  headers.set('RateLimit-Policy', states.map(policyText).join(', '));
  headers.set('RateLimit', states.map(stateText).join(', '));
}

const policyText = ({ name, limit }: RateLimitState) => `"${name}";q=${limit.requests};w=${limit.windowS}`;
const stateText = ({ name, remaining, resetS }: RateLimitState) => `"${name}";r=${remaining};t=${resetS}`;

/** The most limits whose headers are cached. Keys may have their own limits. */
const FILLED_MAX = 1000;

/**
 * Returns a function that creates the headers for limits. It caches them by limit, because filling headers is the most
 * expensive part of a response. A Response must copy them at once: the next call changes them.
 */
export function createResponseHeaders(common: Readonly<Record<string, string>>) {
  const unlimited = new Headers(common);
  /** The cached headers, by the first limit of their list. */
  const limited = new Map<RateLimit, { readonly headers: Headers; readonly of: RateLimitStates }>();

  function fill(first: RateLimitState, states: RateLimitStates): Headers {
    const headers = new Headers(common);
    setLimits(headers, states);
    if (limited.size >= FILLED_MAX) limited.clear();
    limited.set(first.limit, { headers, of: states });
    return headers;
  }

  return (states: RateLimitStates): Headers => {
    const [first] = states;
    if (first === undefined) return unlimited;
    const filled = limited.get(first.limit);
    if (filled === undefined || !haveSamePolicy(filled.of, states)) return fill(first, states);
    filled.headers.set('RateLimit', states.map(stateText).join(', '));
    return filled.headers;
  };
}

const haveSamePolicy = (some: RateLimitStates, others: RateLimitStates): boolean =>
  some.length === others.length &&
  some.every(({ name, limit }, at) => limit === others[at]?.limit && name === others[at].name);

// Accept (RFC 9110 §12.5.1): whether a client accepts a media type at all. Preferences are not compared.

const REFUSED = /^q=0(\.0*)?$/;

/** Returns whether the header accepts `type` (lower case), by the most specific range. */
export function accepts(accept: string, type: string): boolean {
  const ranges = rangesIn(accept);
  const wholeKind = `${type.slice(0, type.indexOf('/'))}/*`;
  return ranges.get(type) ?? ranges.get(wholeKind) ?? ranges.get('*/*') ?? false;
}

/** Returns whether `accept` names `type` (lower case) itself, as clients do that know it. */
export const namesMediaType = (accept: string | null, type: string): boolean =>
  accept !== null && rangesIn(accept).get(type) === true;

const rangesIn = (accept: string) => new Map(accept.toLowerCase().split(',').map(parseRange));

function parseRange(range: string): [name: string, taken: boolean] {
  const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
  return [name, !parameters.some((parameter) => REFUSED.test(parameter))];
}

// CORS (Fetch, "CORS protocol"): what a browser may send and read, once its origin is allowed.

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
  'traceparent',
  'tracestate',
  'baggage',
].join(', ');
const EXPOSED_HEADERS = 'WWW-Authenticate, Retry-After, RateLimit, RateLimit-Policy';
const PREFLIGHT_MAX_AGE_S = '600';
/** Finds header names (RFC 9110 §5.6.2) of bounded length. A longer one could be a misplaced key, which must not be echoed. */
const MCP_PARAM = /\bmcp-param-[\w!#$%&'*+.^`|~-]{1,48}(?![\w!#$%&'*+.^`|~-])/gi;

/** Lets pages of `origin` read a response; `*`: any page. */
export function allowOrigin(headers: Headers, origin: string): void {
  headers.set('Access-Control-Allow-Origin', origin);
  headers.set('Access-Control-Expose-Headers', EXPOSED_HEADERS);
  if (origin !== '*') headers.append('Vary', 'Origin');
}

/** Responds to OPTIONS with the allowed methods. `isForPages`: also with what a page of an allowed origin may send. */
export function preflight(request: Request, allow: string, isForPages: boolean): Response {
  const headers = new Headers({ Allow: allow, ...SECURITY_HEADERS });
  if (isForPages && request.headers.has('access-control-request-method')) {
    headers.set('Access-Control-Allow-Methods', allow);
    // Tools choose the names of Mcp-Param-<x> headers, so all requested ones are allowed.
    const params = (request.headers.get('access-control-request-headers') ?? '').match(MCP_PARAM) ?? [];
    headers.set('Access-Control-Allow-Headers', [ALLOWED_HEADERS, ...params].join(', '));
    headers.set('Access-Control-Max-Age', PREFLIGHT_MAX_AGE_S);
  }
  return new Response(null, { status: 204, headers });
}
