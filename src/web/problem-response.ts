// Turns a problem into an HTTP response and its headers: application/problem+json (RFC 9457), or an OAuth error.

import { type Problem, problemText, protocolNames, publicPart, retryAfterSeconds } from '../ground/problem.ts';
import type { RateLimitStates } from '../ground/rate-limit.ts';
import { SERVER_NAME } from '../ground/server-info.ts';
import { joinScopes } from '../ground/text.ts';
import { setLimits, UNCACHED_HEADERS, UNCACHED_JSON_HEADERS } from './headers.ts';

/**
 * The title of a problem of type about:blank (RFC 9457 §4.2.1) is its status phrase (RFC 9110 §15). Covers the server's
 * own statuses, and those that tools are likely to report.
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

/** Filled once, because copying costs a fraction of filling. */
const HEADERS = new Headers({ 'Content-Type': 'application/problem+json', ...UNCACHED_HEADERS });

/** The problem code of each response that reports one. */
const CODES = new WeakMap<Response, string>();

/** Returns the problem code of a response, as its caller sees it; undefined if it reports no problem. */
export const codeOf = (response: Response): string | undefined => CODES.get(response);

/** Records the problem code of a response. */
export function withCode(response: Response, code: string): Response {
  CODES.set(response, code);
  return response;
}

/** Creates the response for a problem. `challenge` is for WWW-Authenticate, `limits` are for the RateLimit headers. */
export function problemResponse(
  problem: Problem,
  requestId: string,
  challenge?: string | null,
  limits: RateLimitStates = [],
): Response {
  const { status, code, detail } = publicPart(problem);
  const headers = problemHeaders(HEADERS, problem, challenge);
  setLimits(headers, limits);
  const body = {
    type: 'about:blank',
    title: TITLES[status] ?? (status < 500 ? 'Client Error' : 'Server Error'),
    status,
    detail,
    code,
    requestId,
    ...('of' in problem && { of: problem.of }),
    ...(problem.code === 'invalid_input' && { issues: problem.issues }),
    ...(problem.code === 'rotation_under_way' && { previousUntil: problem.untilMs }),
    ...(problem.code === 'insufficient_scope' && { requiredScopes: problem.required }),
  };
  return withCode(new Response(JSON.stringify(body), { status, headers }), code);
}

/** Returns the common headers, and those of a problem. */
export function problemHeaders(
  common: Headers | Readonly<Record<string, string>>,
  problem: Problem,
  challenge?: string | null,
): Headers {
  const headers = new Headers(common);
  const retryAfterS = retryAfterSeconds(problem);
  if (retryAfterS !== null) headers.set('Retry-After', String(retryAfterS));
  if (problem.code === 'method_not_allowed') headers.set('Allow', problem.allow);
  // RFC 9110 §15.5.16: name the codings that would have been accepted.
  if (problem.code === 'unsupported_media_type' && problem.isEncoded) headers.set('Accept-Encoding', 'identity');
  if (challenge) headers.set('WWW-Authenticate', challenge);
  return headers;
}

interface OAuthErrorOptions {
  /** The OAuth name; left out: the problem's. */
  readonly error?: string;
  /** Describes each problem, not only those whose description says more than their name. */
  readonly describesAll?: boolean;
}

/**
 * Creates a response with {"error": …} (RFC 6749 §5.2), and the problem's usual status and headers. A service passes on
 * whose limit is used up; a person reads what is wrong with a request.
 */
export function oauthErrorResponse(
  problem: Problem,
  challenge: string | null,
  { error, describesAll = false }: OAuthErrorOptions = {},
): Response {
  const { status, code, detail } = publicPart(problem);
  const body = {
    error: error ?? protocolNames(problem).oauth ?? code,
    ...(describesAll && { error_description: detail }),
    ...describing(problem, detail),
  };
  const headers = problemHeaders(UNCACHED_JSON_HEADERS, problem, challenge);
  return withCode(new Response(JSON.stringify(body), { status, headers }), body.error);
}

/** Problems that get a description if there is more to say than the code does. None describes a credential. */
const DESCRIBED: readonly string[] = [
  'rate_limited',
  'quota_exceeded',
  'method_not_allowed',
  'unsupported_media_type',
  'invalid_json',
];

/** Returns whose limit is used up, and the detail if it differs from the code's standard sentence. */
function describing(problem: Problem, detail: string) {
  const { code } = problem;
  if (code === 'tool_failure' || !DESCRIBED.includes(code)) return {};
  if (code === 'unsupported_media_type' && !problem.isEncoded) return {};
  return {
    ...(detail !== problemText(code).detail && { error_description: detail }),
    ...('of' in problem && { of: problem.of }),
  };
}

// WWW-Authenticate (RFC 6750 §3, RFC 9728 §5.1). Clients read it with simple patterns: `Bearer ` comes first, and no
// description contains a word that looks like a parameter.

/** Where a client signs in. */
export interface SignIn {
  /** Returns the URL of the protected resource metadata (RFC 9728), under the name by which the request called this server. */
  metadataUrl(publicUrl: string): string;
  /** The scopes that a client should request there. */
  readonly scopes: readonly string[];
  /** Whether a client gets an API key there, not a user token. */
  readonly handsOutKeys: boolean;
}

/** Returns the challenge, or null if the problem is not about credentials. It names no metadata if `signIn` is null. */
export function challengeFor(problem: Problem, signIn: SignIn | null, publicUrl = ''): string | null {
  const { code } = problem;
  const where = {
    scope: (signIn && joinScopes(signIn.scopes)) || null,
    resource_metadata: signIn?.metadataUrl(publicUrl) ?? null,
  };
  switch (code) {
    case 'missing_token':
    case 'missing_api_key':
      // RFC 6750 §3.1: no error code when no credential was sent.
      return bearerChallenge({ realm: SERVER_NAME, ...where });
    case 'invalid_token':
    case 'invalid_api_key':
      return bearerChallenge({
        error: 'invalid_token', // of keys, too: RFC 6750 §3.1 has no other name
        error_description: problemText(code).detail,
        ...where,
      });
    case 'insufficient_scope':
      return bearerChallenge({
        error: code,
        error_description: problemText(code).detail,
        // The grammar requires at least one scope (RFC 6749 §3.3).
        scope: joinScopes(problem.required) || null,
      });
    default:
      return null;
  }
}

/** Returns a challenge with the parameters that are given (RFC 6750 §3). */
export const bearerChallenge = (named: Readonly<Record<string, string | null>>): string =>
  `Bearer ${Object.entries(named)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}="${value}"`)
    .join(', ')}`;
