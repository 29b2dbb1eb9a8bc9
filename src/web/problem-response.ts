// A problem as an HTTP response, with the headers for its kind: application/problem+json (RFC 9457), or an OAuth error.

import { type Problem, protocolNames, publicPart, retryAfterSeconds } from '../ground/problem.ts';
import type { RateLimitState } from '../ground/rate-limit.ts';
import { SECURITY_HEADERS, setRateLimit, UNCACHED_JSON_HEADERS } from './headers.ts';

/**
 * RFC 9110 §15; the title of a problem whose type is about:blank (RFC 9457 §4.2.1). For the server's own statuses, and
 * those that tools are likely to report.
 */
const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  423: 'Locked',
  424: 'Failed Dependency',
  429: 'Too Many Requests',
  451: 'Unavailable For Legal Reasons',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  507: 'Insufficient Storage',
};

/** Filled once: copying costs a fraction of filling. */
const HEADERS = new Headers({
  'Content-Type': 'application/problem+json',
  'Cache-Control': 'no-store',
  ...SECURITY_HEADERS,
});

/** `challenge`: the WWW-Authenticate value. `limit`: for the RateLimit headers. */
export function problemResponse(
  problem: Problem,
  requestId: string,
  challenge?: string | null,
  limit?: RateLimitState | null,
): Response {
  const { status, code, detail } = publicPart(problem);
  const headers = problemHeaders(HEADERS, problem, challenge);
  if (limit) setRateLimit(headers, limit);
  const body = {
    type: 'about:blank',
    title: TITLES[status] ?? (status < 500 ? 'Client Error' : 'Server Error'),
    status,
    detail,
    code,
    requestId,
    ...(problem.code === 'invalid_input' && { issues: problem.issues }),
    ...(problem.code === 'rotation_under_way' && { previousUntil: problem.untilMs }),
    ...(problem.code === 'insufficient_scope' && { requiredScopes: problem.required }),
  };
  return new Response(JSON.stringify(body), { status, headers });
}

export function problemHeaders(common: HeadersInit, problem: Problem, challenge?: string | null): Headers {
  const headers = new Headers(common);
  const retryAfterS = retryAfterSeconds(problem);
  if (retryAfterS !== null) headers.set('Retry-After', String(retryAfterS));
  if (problem.code === 'method_not_allowed') headers.set('Allow', problem.allow);
  if (challenge) headers.set('WWW-Authenticate', challenge);
  return headers;
}

/** {"error": …} (RFC 6749 §5.2), with the problem's usual status and headers. */
export function oauthErrorResponse(problem: Problem, challenge: string | null): Response {
  const { status, code } = publicPart(problem);
  return new Response(JSON.stringify({ error: protocolNames(problem).oauth ?? code }), {
    status,
    headers: problemHeaders(UNCACHED_JSON_HEADERS, problem, challenge),
  });
}
