// /verify: says whether the key of a request is good, to a proxy that asks before it passes the request on
// (forward_auth, auth_request, ext_authz). Guarded like a tool; status and headers are the whole response.

import { type Call, callOf } from '../calls/call.ts';
import type { Leave } from '../calls/leave.ts';
import type { Config } from '../config/config.ts';
import type { KeyAuth } from '../guards/api-key.ts';
import { type Guard, sequence } from '../guards/guard.ts';
import type { scopesGuard } from '../guards/scopes.ts';
import { challengeFor } from '../http/challenge.ts';
import type { RequestContext } from '../http/context.ts';
import { createResponseHeaders, UNCACHED_HEADERS } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { queryOf, type Route } from '../http/router.ts';
import { rfc3339 } from '../lib/duration.ts';
import { memoize } from '../lib/memoize.ts';
import { type Awaitable, chain, type Result } from '../lib/result.ts';
import { isScope, joinScopes, splitScopes } from '../lib/scope.ts';
import type { Log } from '../log/log.ts';
import { redact } from '../log/redact.ts';
import type { Problem } from '../problem.ts';

export interface VerifyRouteOptions {
  readonly guards: {
    readonly apiKey: Guard<Call, KeyAuth>;
    readonly scopes: ReturnType<typeof scopesGuard>;
  };
  readonly leave: Leave;
  readonly config: Pick<Config, 'trustProxy'>;
  readonly log: Log;
}

export function verifyRoute({ guards, leave, config, log }: VerifyRouteOptions): Pick<Route, 'any' | 'refuse'> {
  const responseHeaders = createResponseHeaders(UNCACHED_HEADERS);
  // A proxy demands the same scopes again and again, and reading them would be a third of the work.
  const guardFor = memoize((demand: string): Guard<Call, KeyAuth> => {
    const scopes = scopesIn(demand);
    return scopes.length === 0 ? guards.apiKey : sequence(guards.apiKey, guards.scopes(...scopes));
  });
  const { fullQuota } = guards.apiKey;
  const verification = { operation: { name: '', fullQuota: fullQuota ?? null } };
  let isWarned = config.trustProxy > 0;

  /** Without TRUST_PROXY all clients of a proxy share one budget of unknown keys. */
  function warnOnce({ request, requestId }: RequestContext): void {
    if (isWarned || !request.headers.has('x-forwarded-for')) return;
    isWarned = true;
    log.warn('X-Forwarded-For not believed', { requestId, setting: 'TRUST_PROXY' });
  }

  /** A proxy passes on the client's own identity headers unless the response replaces them: so a refusal has them. */
  function refuse({ requestId }: RequestContext, problem: Problem, limit = fullQuota): Response {
    const shown = problem.code === 'insufficient_scope' ? withoutSent(problem) : problem;
    const isLimit = problem.code === 'rate_limited' || problem.code === 'quota_exceeded';
    const reached = isLimit ? (problem.rateLimit ?? limit) : limit;
    const response = problemResponse(shown, requestId, challengeFor(shown, null), reached);
    identify(response.headers, null);
    return response;
  }

  function verify(context: RequestContext): Awaitable<Response> {
    warnOnce(context);
    const call = callOf(context, null, verification);
    const guarded = guardFor(demandOf(context.request))(call);
    return chain(chain(guarded, leave<KeyAuth>, call), (left) => respond(left, context, call));
  }

  function respond(guarded: Result<KeyAuth, Problem>, context: RequestContext, call: Call): Response {
    if (!guarded.ok) return refuse(context, guarded.error, call.rateLimit);
    const headers = responseHeaders(call.rateLimit);
    identify(headers, guarded.value.auth);
    return new Response(null, { headers });
  }

  return { any: verify, refuse };
}

type InsufficientScope = Extract<Problem, { code: 'insufficient_scope' }>;

/** Demands come with the request: what is not a scope, or could be a key in the wrong place, is not sent back. */
const withoutSent = (problem: InsufficientScope): Problem => ({
  ...problem,
  required: problem.required.filter((scope) => isScope(scope) && redact(scope) === scope),
});

/** Query and header, in which the request demands scopes, as they were sent. Empty: it has neither. */
function demandOf({ url, headers }: Request): string {
  const start = url.indexOf('?');
  const header = headers.get('x-required-scope');
  return start === -1 && header === null ? '' : `${start === -1 ? '' : url.slice(start)}\n${header ?? ''}`;
}

/** Each scope demanded, once. Query and header can only add to each other. */
function scopesIn(demand: string): readonly string[] {
  const [query = '', header = ''] = demand.split('\n');
  return [...new Set(splitScopes([...queryOf(query).getAll('scope'), header].join(' ')))];
}

/** All five headers for the identity behind the request; null: none. */
function identify(headers: Headers, auth: KeyAuth['auth'] | null): void {
  // An id that was typed into the database may have what no header takes.
  headers.set('X-Key-Id', percentEncode(auth?.keyId ?? ''));
  headers.set('X-Key-Owner', percentEncode(auth?.subject ?? ''));
  headers.set('X-Key-Name', percentEncode(auth?.keyName ?? ''));
  headers.set('X-Key-Scopes', joinScopes(auth?.scopes ?? []));
  const expiresAtMs = auth?.expiresAtMs ?? null;
  headers.set('X-Key-Expires', expiresAtMs === null ? '' : rfc3339(expiresAtMs));
}

/** Unreserved characters (RFC 3986 §2.3), and `@ : /`, which owners are full of, stay as they are. */
const STAYS = /^[\w.~@:/-]*$/;

/** Characters that encodeURIComponent leaves, but are reserved. */
const RESERVED = /[!'()*]/g;

/** Percent-encoding (RFC 3986 §2.1) of free text for header values: UTF-8, exact and reversible. */
export function percentEncode(text: string): string {
  if (STAYS.test(text)) return text;
  return encodeURIComponent(text)
    .replace(RESERVED, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%40|%3A|%2F/g, decodeURIComponent);
}
