// POST /token (RFC 6749 §3.2): calls the grant type that the form names. Doors hand them in, and what the server's metadata
// (RFC 8414) says beside this route.

import { logRefused } from '../calls/api-key.ts';
import { callerOf } from '../calls/call.ts';
import type { Problem } from '../ground/problem.ts';
import type { Result } from '../ground/result.ts';
import { joinScopes } from '../ground/text.ts';
import type { Caller } from '../keys/actor.ts';
import { isJwtShaped } from '../keys/record.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import type { Log } from '../watch/log.ts';
import { excerptOf } from '../watch/redact.ts';
import { type Body, formIn } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { json } from '../web/headers.ts';
import { createRefuse, hasRepeatedField, parameter, type Refusal, refused } from './oauth.ts';
import { ROUTES } from './table.ts';

/** A successful response (RFC 6749 §5.1). */
type AccessToken = ReturnType<typeof accessToken>;

/** Resolves with the client's token, a refusal, or a problem; that of a key is `invalid_grant`. The form has no field twice. */
export type Redeem = (form: URLSearchParams, caller: Caller) => Promise<Result<AccessToken, Refusal | Problem>>;

export type GrantTypes = ReadonlyMap<string, Redeem>;

interface TokenOptions {
  readonly grantTypes: GrantTypes;
  /** Returns what an authorization server's metadata says beside /token; null: this server is none. */
  readonly authorizationServer: ((url: string) => object) | null;
  /** The path of this server: empty or `/…`. */
  readonly publicPath: string;
  readonly keyScopes: readonly string[];
  readonly log: Log;
}

/** Creates the routes of /token and of the metadata, which is at the root of the host, too. */
export function tokenRoutes(options: TokenOptions) {
  const { grantTypes, authorizationServer, publicPath, keyScopes, log } = options;
  const describe = ({ publicUrl: issuer }: RequestContext) =>
    json(200, {
      issuer,
      token_endpoint: `${issuer}/token`,
      grant_types_supported: [...grantTypes.keys()],
      token_endpoint_auth_methods_supported: ['none'],
      ...authorizationServer?.(issuer),
      ...(keyScopes.length > 0 && { scopes_supported: keyScopes }),
    });
  const { path } = ROUTES.serverMetadata;
  const places = [...new Set([path, path + publicPath])];
  return {
    token: tokenRoute(grantTypes, log),
    serverMetadata: places.map((path) => ({ path, ...(authorizationServer === null ? NOT_THERE : { get: describe }) })),
  };
}

const NOT_THERE = { missing: { code: 'not_found' } } as const;

function tokenRoute(grantTypes: GrantTypes, log: Log) {
  const refuse = createRefuse('token', log);

  async function redeem(form: URLSearchParams, caller: Caller): ReturnType<Redeem> {
    const grantType = parameter(form, 'grant_type');
    if (hasRepeatedField(form)) return refused('invalid_request', 'a field twice');
    if (grantType === null) return refused('invalid_request', 'no grant_type');
    const redeemAs = grantTypes.get(grantType);
    if (redeemAs !== undefined) return redeemAs(form, caller);
    return refused('unsupported_grant_type', 'not a grant type of this server', { grantType: excerptOf(grantType) });
  }

  async function post(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const form = formIn(body.value);
    const redeemed = await redeem(form, callerOf(context));
    if (redeemed.ok) return json(200, redeemed.value);
    const { error } = redeemed;
    if (!('code' in error) || error.code !== 'invalid_api_key') return refuse(context, error);
    logRefused(log, error, context);
    const isToken = ['assertion', 'subject_token'].some((name) => isJwtShaped(form.get(name) ?? ''));
    const description = `No rule lets this token in; the log says why, under request ${context.requestId}`;
    return refuse(context, { error: 'invalid_grant', reason: null, ...(isToken && { description }) });
  }
  return { post, refuse };
}

/**
 * Returns the response with a key. `expires_in` counts from `fromMs`: the creation of a new key, so that it is the
 * requested life; now for a pasted one.
 */
export function accessToken(
  key: string,
  { scopes, expiresAtMs }: Pick<KeyIdentity, 'scopes' | 'expiresAtMs'>,
  fromMs: number,
) {
  const left = expiresAtMs === null ? null : Math.max(0, Math.floor((expiresAtMs - fromMs) / 1000));
  return {
    access_token: key,
    token_type: 'Bearer' as const,
    scope: joinScopes(scopes),
    ...(left !== null && { expires_in: left }),
  };
}
