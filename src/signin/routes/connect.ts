// Routes for OAuth clients: metadata (RFC 8414), registration (RFC 7591), and the token.
// What they decide is in signin/index.ts.

import { callerOf } from '../../calls/call.ts';
import { type Body, formIn } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { DEVICE_GRANT, type Device } from '../device.ts';
import type { Connect } from '../index.ts';
import { grantTypeOf, type TokenError } from '../requests.ts';
import { type AuthorizeRouteOptions, authorizeRoute } from './authorize.ts';
import { deviceRoutes } from './device.ts';
import { failed, json, oauthError, refuse } from './oauth-responses.ts';

export interface ConnectRoutesOptions extends Omit<AuthorizeRouteOptions, 'connect'> {
  /** Null: no key is handed to OAuth clients. */
  readonly connect: Connect | null;
  /** Null: no program without a browser may ask for a key. */
  readonly device: Device | null;
  readonly publicPath: string;
  /** Those that tools and prompts ask keys for. */
  readonly scopes: readonly string[];
}

/** Room for all that clients register beside their URIs. */
const REGISTRATION_BYTES_MAX = 16 * 1024;

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

export function connectRoutes(options: ConnectRoutesOptions) {
  const { connect, device, publicUrl, publicPath, scopes } = options;
  const metadata = () => json(200, metadataOf(publicUrl, scopes, connect !== null, device !== null));

  async function token(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const form = formIn(body.value);
    const redeem = redeemFor(form);
    if (typeof redeem === 'string') return oauthError(redeem);
    const redeemed = await redeem(form, callerOf(context));
    return redeemed.ok ? json(200, redeemed.value) : failed(context, redeemed.error);
  }

  function redeemFor(form: URLSearchParams): Connect['redeem'] | Device['redeem'] | TokenError {
    const grantType = grantTypeOf(form);
    if (!grantType.ok) return grantType.error;
    switch (grantType.value) {
      case 'authorization_code':
        return connect?.redeem ?? 'unsupported_grant_type';
      case DEVICE_GRANT:
        return device?.redeem ?? 'unsupported_grant_type';
      default:
        return 'unsupported_grant_type';
    }
  }

  return {
    server: [...new Set([WELL_KNOWN, WELL_KNOWN + publicPath])].map((path) => ({ path, get: metadata })),
    token: { post: token, refuse },
    register: connect && { post: registerWith(connect), refuse },
    authorize: connect && authorizeRoute({ ...options, connect }),
    ...(device ? deviceRoutes({ ...options, device }) : NO_DEVICE),
  };
}

const NO_DEVICE = { ask: null, request: null, decision: null };

const registerWith = (connect: Connect) => async (context: RequestContext, body: Body) => {
  if (!body.ok) {
    return body.error.code === 'invalid_json' ? oauthError('invalid_client_metadata') : refuse(context, body.error);
  }
  if (context.bodyBytes > REGISTRATION_BYTES_MAX) return refuse(context, { code: 'payload_too_large' });
  const answer = await connect.register(body.value);
  return answer.ok ? json(201, answer.value) : failed(context, answer.error);
};

/** RFC 8414 §2. No revocation endpoint: clients that revoke before they sign in again would end the key everywhere. */
const metadataOf = (url: string, scopes: readonly string[], handsOver: boolean, isAsked: boolean) => ({
  issuer: url,
  ...(handsOver && { authorization_endpoint: `${url}/authorize` }),
  token_endpoint: `${url}/token`,
  ...(handsOver && { registration_endpoint: `${url}/register` }),
  ...(isAsked && { device_authorization_endpoint: `${url}/device_authorization` }),
  response_types_supported: handsOver ? ['code'] : [],
  ...(handsOver && { response_modes_supported: ['query'] }),
  grant_types_supported: [...(handsOver ? ['authorization_code'] : []), ...(isAsked ? [DEVICE_GRANT] : [])],
  ...(handsOver && { code_challenge_methods_supported: ['S256'] }),
  token_endpoint_auth_methods_supported: ['none'],
  ...(handsOver && { authorization_response_iss_parameter_supported: true }),
  ...(scopes.length > 0 && { scopes_supported: scopes }),
});
