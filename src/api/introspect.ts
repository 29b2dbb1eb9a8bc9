// POST /introspect: whether a token is a good API key, and whose (RFC 7662), for services that accept this server's
// keys. The caller has a key with the scope `introspect`. Neither key's rate limit is counted.

import { apiKeyGuard, type KeyAuth, logRefused, type VerifyKey } from '../calls/api-key.ts';
import { Call, callOf } from '../calls/call.ts';
import { type Guard, PASS, sequence } from '../calls/guard.ts';
import type { Recheck } from '../calls/proof.ts';
import type { Problem } from '../ground/problem.ts';
import { type RateLimitStates, tightestOf } from '../ground/rate-limit.ts';
import { err } from '../ground/result.ts';
import { SERVER_NAME } from '../ground/server-info.ts';
import { joinScopes } from '../ground/text.ts';
import type { Usage } from '../uses/usage.ts';
import type { Log } from '../watch/log.ts';
import { type Body, formIn } from '../web/body.ts';
import { type ClientCredentials, carriesCredential, type RequestContext, readBasic } from '../web/context.ts';
import { UNCACHED_JSON_HEADERS } from '../web/headers.ts';
import { challengeFor, oauthErrorResponse } from '../web/problem-response.ts';
import type { Route } from '../web/router.ts';
import type { VerifyRouteOptions } from './verify.ts';

export interface IntrospectRouteOptions {
  readonly verifyKey: VerifyKey;
  readonly confirmKey: VerifyKey;
  readonly guards: Pick<VerifyRouteOptions['guards'], 'scopes'>;
  readonly recheck: Recheck;
  readonly limitsOf: Usage['limitsOf'];
  readonly publicUrl: string;
  readonly log: Log;
}

/** The caller's id and secret; null if its key came in a header of its own. */
interface ClientCall {
  readonly client: ClientCredentials | null;
}

export function introspectRoute(options: IntrospectRouteOptions): Pick<Route, 'post' | 'refuse'> {
  const { verifyKey, confirmKey, guards, recheck, limitsOf, publicUrl, log } = options;
  const keyGuard = apiKeyGuard(verifyKey, log, confirmKey);
  const callerGuard = sequence<Call & ClientCall, KeyAuth, object, object>(
    keyGuard,
    clientIdGuard(log),
    guards.scopes('introspect'),
  );

  async function post(context: RequestContext, body: Body) {
    if (!body.ok) return refuse(context, body.error);
    const fields = fieldsOf(formIn(body.value));
    if (fields === null) return refuse(context, INVALID);
    const { headers } = context;
    const client = carriesCredential(context.credentials) ? null : (readBasic(headers) ?? fields.client);
    const caller = Object.assign(callOf(context, client?.secret || null), { client });
    const allowed = await callerGuard(caller);
    if (!allowed.ok) return refuse(context, allowed.error);
    const { token, resources } = fields;
    if (token === '') return refuse(context, INVALID);
    // Unknown keys count against the calling key: a service sends tokens from strangers, all from one address.
    const credentials = { xApiKey: token, bearer: null, metaApiKey: null };
    const asked = new Call(context.requestId, credentials, caller.clientAddress, {
      lookupKeyId: allowed.value.auth.keyId,
      resources,
    });
    const found = await keyGuard(asked);
    if (!found.ok) return refuseToken(context, found.error);
    // The response tells the holder of one key that another is good: both must still be.
    const ended = await recheck([caller, asked]);
    const [refused, askedEnded] = [ended.get(caller), ended.get(asked)];
    if (refused !== undefined) return refuse(context, refused);
    if (askedEnded !== undefined) return refuseToken(context, askedEnded);
    return json({ ...activeToken(found.value, publicUrl), ...membersOf(limitsOf(found.value.auth.keyId)) });
  }

  return { post, refuse };
}

const INVALID: Problem = { code: 'invalid_input', issues: [] };

interface Fields {
  /** Empty unless sent exactly once. */
  readonly token: string;
  /** The servers that the token is for; undefined: this one. */
  readonly resources: readonly string[] | undefined;
  readonly client: ClientCredentials | null;
}

/** Null if a field of the caller's own is repeated (RFC 6749 §3.2). */
function fieldsOf(form: URLSearchParams): Fields | null {
  const [tokens, ids, secrets] = [form.getAll('token'), form.getAll('client_id'), form.getAll('client_secret')];
  const resources = form.getAll('resource').filter((resource) => resource !== '');
  if (ids.length > 1 || secrets.length > 1) return null;
  const [token = '', ...more] = tokens;
  const [id = ''] = ids;
  const [secret = ''] = secrets;
  return {
    token: more.length > 0 ? '' : token,
    resources: resources.length > 0 ? resources : undefined,
    client: secret === '' ? null : { id, secret },
  };
}

/** A client id must be the id of the key that is its secret. */
function clientIdGuard(log: Log): Guard<Call & ClientCall & KeyAuth> {
  return (call) => {
    const { client, auth } = call;
    const { keyId, subject: userId } = auth;
    if (client === null || client.id === keyId) return PASS;
    const problem = { code: 'invalid_api_key', reason: 'other_client_id', keyId, userId } as const;
    logRefused(log, problem, call);
    return err(problem);
  };
}

const activeToken = ({ auth }: KeyAuth, iss: string) => ({
  active: true,
  scope: joinScopes(auth.scopes),
  client_id: auth.keyId,
  sub: auth.subject,
  token_type: 'api_key',
  ...(auth.expiresAtMs !== null && { exp: Math.floor(auth.expiresAtMs / 1000) }),
  iat: Math.floor(auth.createdAtMs / 1000),
  iss,
  jti: auth.keyId,
  key_name: auth.keyName,
});

/** What is left of the key's limit or quota. */
function membersOf(states: RateLimitStates) {
  const tightest = tightestOf(states);
  if (tightest === undefined) return {};
  const { limit, remaining, resetS } = tightest;
  return { limit: limit.requests, remaining, reset: resetS };
}

/** Filled once: copying costs a fraction of filling. */
const HEADERS = new Headers(UNCACHED_JSON_HEADERS);

const json = (body: object) => new Response(JSON.stringify(body), { headers: HEADERS });

/** A bad key is inactive, whatever is wrong with it (RFC 7662 §2.2); other problems say nothing about it. */
const refuseToken = (context: RequestContext, problem: Problem): Response =>
  problem.code === 'invalid_api_key' ? json({ active: false }) : refuse(context, problem);

function refuse(_context: RequestContext, problem: Problem): Response {
  const isUnknown = problem.code === 'missing_api_key' || problem.code === 'invalid_api_key';
  return oauthErrorResponse(problem, isUnknown ? `Basic realm="${SERVER_NAME}"` : challengeFor(problem, null));
}
