// POST /token (RFC 6749 §3.2): calls the grant type that the form names. Each is a function in its own file.

import { callerOf } from '../calls/call.ts';
import type { Problem } from '../ground/problem.ts';
import type { Result } from '../ground/result.ts';
import { joinScopes } from '../ground/text.ts';
import type { Caller } from '../keys/actor.ts';
import type { KeyIdentity } from '../keys/verify.ts';
import { type Body, formIn } from '../web/body.ts';
import type { RequestContext } from '../web/context.ts';
import { hasTwice, parameter } from './parameters.ts';
import { failed, json, oauthError, refuse } from './responses.ts';

/** A successful response (RFC 6749 §5.1). */
export interface AccessToken {
  readonly access_token: string;
  readonly token_type: 'Bearer';
  readonly scope: string;
  /** The seconds until the key expires; missing if it doesn't. */
  readonly expires_in?: number;
}

/** The errors of /token (RFC 6749 §5.2, RFC 8707 §2). */
export type TokenError =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unsupported_grant_type'
  | 'invalid_target';

/** Resolves with the client's token, an error's name, or a problem. No field of the form is repeated. */
export type Redeem = (form: URLSearchParams, caller: Caller) => Promise<Result<AccessToken, string | Problem>>;

/** The grant types, by name. */
export type GrantTypes = ReadonlyMap<string, Redeem>;

export function tokenRoute(grantTypes: GrantTypes) {
  async function post(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const form = formIn(body.value);
    const grantType = parameter(form, 'grant_type');
    if (grantType === null || hasTwice(form)) return oauthError('invalid_request' satisfies TokenError);
    const redeem = grantTypes.get(grantType);
    if (redeem === undefined) return oauthError('unsupported_grant_type' satisfies TokenError);
    const redeemed = await redeem(form, callerOf(context));
    return redeemed.ok ? json(200, redeemed.value) : failed(context, redeemed.error);
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
): AccessToken {
  const left = expiresAtMs === null ? null : Math.max(0, Math.floor((expiresAtMs - fromMs) / 1000));
  return {
    access_token: key,
    token_type: 'Bearer',
    scope: joinScopes(scopes),
    ...(left !== null && { expires_in: left }),
  };
}
