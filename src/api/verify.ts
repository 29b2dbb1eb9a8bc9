// /verify: tells a proxy whether a request's key is good before it forwards the request (forward_auth, auth_request,
// ext_authz). Guarded like a tool; a success is a status and headers only.

import type { KeyAuth } from '../calls/api-key.ts';
import { type Call, callOf } from '../calls/call.ts';
import { type Guard, sequence } from '../calls/guard.ts';
import type { Guards } from '../calls/guards.ts';
import type { Recheck } from '../calls/proof.ts';
import { memoize } from '../ground/cache.ts';
import { metadataText } from '../ground/metadata.ts';
import { invalidInput, type Problem } from '../ground/problem.ts';
import { COST_MAX, parseCost } from '../ground/rate-limit.ts';
import { rfc3339 } from '../ground/runtime.ts';
import { isScope, joinScopes, percentEncode, splitScopes } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import { redact } from '../watch/redact.ts';
import type { RequestContext } from '../web/context.ts';
import { createResponseHeaders, UNCACHED_HEADERS } from '../web/headers.ts';
import { challengeFor, problemResponse } from '../web/problem-response.ts';
import { type Handlers, queryOf } from '../web/router.ts';

interface VerifyRouteOptions {
  readonly guards: Guards;
  readonly recheck: Recheck;
  /** The number of trusted proxies in front. */
  readonly trustProxy: number;
  readonly log: Log;
}

export function verifyRoute({ guards, recheck, trustProxy, log }: VerifyRouteOptions): Handlers {
  const responseHeaders = createResponseHeaders(UNCACHED_HEADERS);
  const { initialLimits = [] } = guards.apiKey;
  const operation = { name: '', initialLimits };
  // Memoized: a proxy demands the same scopes again and again, and parsing them is a third of the work.
  const guardFor = memoize((demand: string) => {
    const { scopes, resources, cost, mistake } = parseDemand(demand);
    const guard: Guard<Call, KeyAuth> =
      scopes.length === 0 ? guards.apiKey : sequence(guards.apiKey, guards.scopes(...scopes));
    return { guard, extras: { operation, cost, resources }, mistake };
  });
  let mayWarn = trustProxy === 0;

  /** Warns once that all clients of a proxy share one budget of unknown keys, because TRUST_PROXY isn't set. */
  function warnOnce({ request, requestId }: RequestContext): void {
    if (!mayWarn || !request.headers.has('x-forwarded-for')) return;
    mayWarn = false;
    log.warn('X-Forwarded-For not believed', { requestId, setting: 'TRUST_PROXY' });
  }

  /** Creates a refusal. Its identity headers are empty, not missing: else a proxy would pass on the client's own. */
  function refuse({ requestId }: RequestContext, problem: Problem, limits = initialLimits): Response {
    const shown = problem.code === 'insufficient_scope' ? withoutSent(problem) : problem;
    const response = problemResponse(shown, requestId, challengeFor(shown, null), limits);
    setIdentity(response.headers, null);
    return response;
  }

  async function verify(context: RequestContext): Promise<Response> {
    warnOnce(context);
    const { guard, extras, mistake } = guardFor(demandText(context.request));
    const call = callOf(context, null, extras);
    const { response } = call;
    const guarded = await guard(call);
    if (!guarded.ok) return refuse(context, guarded.error, response.limits);
    const ended = await recheck.one(call);
    const problem = ended ?? mistake; // mistakes in the input come last, as for tools
    if (problem !== null) return refuse(context, problem, response.limits);
    const headers = responseHeaders(response.limits);
    setIdentity(headers, guarded.value.auth);
    return new Response(null, { headers });
  }

  return { any: verify, refuse };
}

const WRONG_COST = invalidInput(
  'cost',
  `Expected it once, from 1 to ${COST_MAX}`,
  `cost: expected it once, a whole number from 1 to ${COST_MAX}`,
);

/** A variable in the proxy's configuration may be empty, which must not admit every key. */
const EMPTY_SCOPE = invalidInput('scope', 'Expected a scope', 'scope: expected a scope; it is empty');

type InsufficientScope = Extract<Problem, { code: 'insufficient_scope' }>;

/** Returns the problem without whatever isn't a scope or could be a misplaced key: the request named the scopes. */
const withoutSent = (problem: InsufficientScope): Problem => ({
  ...problem,
  required: problem.required.filter((scope) => isScope(scope) && redact(scope) === scope),
});

/** Returns the query and the header that demand something; empty: neither does. */
function demandText({ url, headers }: Request): string {
  const start = url.indexOf('?');
  const header = headers.get('x-required-scope');
  return start === -1 && header === null ? '' : `${start === -1 ? '' : url.slice(start)}\n${header ?? ''}`;
}

/**
 * Parses what the request demands. Query and header only add demands, and so does each further resource: whatever a
 * client added to the query admits no key that is bound to another server.
 */
function parseDemand(demand: string) {
  const [query = '', header = ''] = demand.split('\n');
  const parameters = ownParameters(queryOf(query));
  const named = parameters.getAll('scope').map(splitScopes);
  const isScopeEmpty = named.some((scopes) => scopes.length === 0);
  const [units = '1', ...more] = parameters.getAll('cost');
  const cost = more.length > 0 ? null : parseCost(units);
  const scopes = new Set([...named.flat(), ...splitScopes(header)]);
  return {
    scopes: [...scopes],
    resources: parameters.getAll('resource'),
    /** The units to spend; of an invalid request one. */
    cost: cost ?? 1,
    /** What is wrong with the request; null if nothing is. */
    mistake: isScopeEmpty ? EMPTY_SCOPE : cost === null ? WRONG_COST : null,
  };
}

/** Returns the parameters before the first `path`, where Envoy appends the path that the client requested, with its query. */
function ownParameters(all: URLSearchParams): URLSearchParams {
  const entries = [...all];
  const path = entries.findIndex(([name]) => name === 'path');
  return new URLSearchParams(path === -1 ? entries : entries.slice(0, path));
}

/** The identity headers, each with its value for a good key. Proxies must pass on every one. */
const IDENTITY_HEADERS: readonly (readonly [name: string, textOf: (auth: KeyAuth['auth']) => string])[] = [
  ['X-Key-Id', ({ keyId }) => percentEncode(keyId)], // typed into the database, it may have any characters
  ['X-Key-Owner', ({ subject }) => percentEncode(subject)],
  ['X-Key-Name', ({ keyName }) => percentEncode(keyName)],
  ['X-Key-Scopes', ({ scopes }) => joinScopes(scopes)],
  ['X-Key-Expires', ({ expiresAtMs }) => (expiresAtMs === null ? '' : rfc3339(expiresAtMs))],
  ['X-Key-Metadata', ({ metadata }) => metadataText(metadata)],
  ['X-Key-Parent', ({ parentId }) => percentEncode(parentId ?? '')],
];

/** Sets all identity headers, to empty values if `auth` is null. */
function setIdentity(headers: Headers, auth: KeyAuth['auth'] | null): void {
  for (const [name, textOf] of IDENTITY_HEADERS) headers.set(name, auth === null ? '' : textOf(auth));
}
