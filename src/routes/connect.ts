// Routes for OAuth clients: metadata (RFC 8414), registration (RFC 7591), and the token.
// All decisions are connect/'s.

import { callerOf } from '../calls/call.ts';
import type { Config } from '../config/config.ts';
import type { RegistrationError, TokenError } from '../connect/requests.ts';
import { type Body, formIn } from '../http/body.ts';
import type { RequestContext } from '../http/context.ts';
import { UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { oauthErrorResponse } from '../http/problem-response.ts';
import type { Route } from '../http/router.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import { type AuthorizeRouteOptions, authorizeRoute } from './authorize.ts';

export interface ConnectRoutesOptions extends AuthorizeRouteOptions {
  readonly config: AuthorizeRouteOptions['config'] & Pick<Config, 'basePath'>;
  readonly publicPath: string;
  /** Those that tools and prompts ask keys for. */
  readonly scopes: readonly string[];
}

/** Room for all that clients register beside their URIs. */
const REGISTRATION_BYTES_MAX = 16 * 1024;

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

export function connectRoutes(options: ConnectRoutesOptions): Route[] {
  const { connect, config, publicUrl, publicPath, scopes } = options;
  const { basePath } = config;
  const metadata = () => json(200, metadataOf(publicUrl(), scopes));

  async function register(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) {
      return body.error.code === 'invalid_json' ? oauthError('invalid_client_metadata') : refuse(context, body.error);
    }
    if (context.bodyBytes > REGISTRATION_BYTES_MAX) return refuse(context, { code: 'payload_too_large' });
    const answer = await connect.register(body.value);
    return answer.ok ? json(201, answer.value) : failed(context, answer.error);
  }

  async function token(context: RequestContext, body: Body): Promise<Response> {
    if (!body.ok) return refuse(context, body.error);
    const answer = await connect.redeem(formIn(body.value), callerOf(context));
    return answer.ok ? json(200, answer.value) : failed(context, answer.error);
  }

  return [...new Set([WELL_KNOWN, WELL_KNOWN + publicPath])]
    .map((path): Route => ({ path, get: metadata, openToAnyOrigin: true }))
    .concat(
      { path: `${basePath}/register`, post: register, openToAnyOrigin: true, refuse },
      { path: `${basePath}/token`, post: token, takes: 'form', takesSecrets: true, openToAnyOrigin: true, refuse },
      { path: `${basePath}/authorize`, takesSecrets: true, ...authorizeRoute(options) },
    );
}

/** RFC 8414 §2. No revocation endpoint: clients that revoke before they sign in again would end the key everywhere. */
const metadataOf = (url: string, scopes: readonly string[]) => ({
  issuer: url,
  authorization_endpoint: `${url}/authorize`,
  token_endpoint: `${url}/token`,
  registration_endpoint: `${url}/register`,
  response_types_supported: ['code'],
  response_modes_supported: ['query'],
  grant_types_supported: ['authorization_code'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none'],
  authorization_response_iss_parameter_supported: true,
  ...(scopes.length > 0 && { scopes_supported: scopes }),
});

const json = (status: number, body: object) =>
  new Response(JSON.stringify(body), { status, headers: UNCACHED_JSON_HEADERS });

const oauthError = (error: TokenError | RegistrationError) => json(error === 'invalid_client' ? 401 : 400, { error });

const failed = (context: RequestContext, error: TokenError | RegistrationError | Problem | StoreUnavailable) =>
  typeof error === 'string' ? oauthError(error) : refuse(context, error);

const refuse = (_context: RequestContext, problem: Problem): Response => oauthErrorResponse(problem, null);
