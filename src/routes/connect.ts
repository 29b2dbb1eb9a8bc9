// Routes for OAuth clients: metadata (RFC 8414), registration (RFC 7591), the page that asks for a key, and the token.
// All decisions are connect/'s.

import { apiKeyGuard, type VerifyKey } from '../calls/api-key.ts';
import { Call, callerOf } from '../calls/call.ts';
import type { Config } from '../config/config.ts';
import type { Connect } from '../connect/index.ts';
import {
  type AuthorizationRequest,
  locationOf,
  type RegistrationError,
  serverOf,
  type TokenError,
} from '../connect/requests.ts';
import { type Body, formIn } from '../http/body.ts';
import { challengeFor } from '../http/challenge.ts';
import type { RequestContext } from '../http/context.ts';
import { UNCACHED_HEADERS, UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import { oauthErrorResponse, problemHeaders } from '../http/problem-response.ts';
import { queryOf, type Route } from '../http/router.ts';
import type { Awaitable } from '../lib/result.ts';
import { keysPageUrl } from '../lib/urls.ts';
import type { Log } from '../log/log.ts';
import { excerptOf } from '../log/redact.ts';
import { type Problem, publicPart, type StoreUnavailable } from '../problem.ts';

export interface ConnectRoutesOptions {
  readonly connect: Connect;
  readonly config: Pick<Config, 'basePath' | 'keysPage'>;
  readonly publicUrl: () => string;
  readonly publicPath: string;
  /** Those that tools and prompts ask keys for. */
  readonly scopes: readonly string[];
  readonly pasteKey: VerifyKey;
  readonly log: Log;
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
      { path: `${basePath}/authorize`, takes: 'form', takesSecrets: true, ...authorizeRoute(options) },
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

function authorizeRoute(options: ConnectRoutesOptions): Pick<Route, 'get' | 'post' | 'refuse'> {
  const { connect, config, publicUrl, pasteKey, log } = options;
  const { audience } = connect;
  const guard = apiKeyGuard(pasteKey, log);
  const pages = () => import('../connect/page.ts'); // at first use: start-up doesn't wait for it

  async function html(status: number, make: (page: Awaited<ReturnType<typeof pages>>) => string, problem?: Problem) {
    const page = await pages();
    const common = {
      ...UNCACHED_HEADERS,
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': page.POLICY,
      'Referrer-Policy': 'same-origin', // with `no-referrer` the form's Origin would be `null`
      'X-Frame-Options': 'DENY',
    };
    const headers = problem === undefined ? common : problemHeaders(common, problem, challengeFor(problem, null));
    return new Response(make(page), { status, headers });
  }

  function stopFor(problem: Problem): Promise<Response> {
    const { status, detail } = publicPart(problem);
    return html(status, (page) => page.stopPage(detail), problem);
  }

  /** `refused`: what was wrong with a key; the page is shown again. */
  function ask(request: AuthorizationRequest, refused?: Refused): Promise<Response> {
    const keysUrl = config.keysPage === null ? null : keysPageUrl(publicUrl());
    const { status = 200, detail = null, problem } = refused ?? {};
    return html(status, (page) => page.askPage({ request, audience, keysUrl, problem: detail }), problem);
  }

  const askAgain = (request: AuthorizationRequest, problem: Problem) =>
    ask(request, { ...publicPart(problem), problem });

  async function answer(
    parameters: URLSearchParams,
    next: (request: AuthorizationRequest) => Awaitable<Response>,
  ): Promise<Response> {
    const decided = await connect.decide(parameters);
    if (!decided.ok) return stopFor(decided.error);
    const decision = decided.value;
    switch (decision.kind) {
      case 'stop':
        return html(400, (page) => page.stopPage(decision.why));
      case 'send_back':
        return seeOther(decision.location);
      case 'ask':
        return next(decision.request);
    }
  }

  async function hand(context: RequestContext, request: AuthorizationRequest, pasted: string): Promise<Response> {
    const credentials = { xApiKey: pasted || null, bearer: null, metaApiKey: null };
    const resource = serverOf(request, audience);
    const call = new Call(context.requestId, credentials, () => context.clientAddress(), { resources: [resource] });
    const verified = await guard(call);
    // Another server would be sent a key that is good here too.
    const isForeign = resource !== audience.own();
    if (isForeign && (verified.ok ? verified.value.auth.resource !== resource : isBoundElsewhere(verified.error))) {
      return ask(request, WORKS_ELSEWHERE);
    }
    if (!verified.ok) return askAgain(request, verified.error);
    const granted = await connect.grant(request, pasted, verified.value.auth, call);
    return granted.ok ? seeOther(granted.value) : askAgain(request, granted.error);
  }

  return {
    get: ({ request }) => answer(queryOf(request.url), (asked) => ask(asked)),
    post(context, body) {
      // A form of another page could hand over a key that the visitor did not choose.
      const { requestId, origin } = context;
      if (origin !== new URL(publicUrl()).origin) {
        log.warn('request refused', { requestId, code: 'origin_denied', origin: excerptOf(origin ?? '') });
        return stopFor({ code: 'origin_denied' });
      }
      if (!body.ok) return stopFor(body.error);
      const form = formIn(body.value);
      return answer(form, (asked) =>
        form.has('cancel')
          ? seeOther(locationOf(asked, { error: 'access_denied' }, publicUrl()))
          : hand(context, asked, form.get('key')?.trim() ?? ''),
      );
    },
  };
}

interface Refused {
  readonly status: number;
  readonly detail: string;
  readonly problem?: Problem;
}

const WORKS_ELSEWHERE: Refused = {
  status: 403,
  detail: 'This key works at other servers too. Make one for this connection.',
};

const isBoundElsewhere = (problem: Problem) =>
  problem.code === 'invalid_api_key' && problem.reason === 'other resource';

const json = (status: number, body: object) =>
  new Response(JSON.stringify(body), { status, headers: UNCACHED_JSON_HEADERS });

const seeOther = (location: string) =>
  new Response(null, { status: 303, headers: { ...UNCACHED_HEADERS, Location: location } });

const oauthError = (error: TokenError | RegistrationError) => json(error === 'invalid_client' ? 401 : 400, { error });

const failed = (context: RequestContext, error: TokenError | RegistrationError | Problem | StoreUnavailable) =>
  typeof error === 'string' ? oauthError(error) : refuse(context, error);

const refuse = (_context: RequestContext, problem: Problem): Response => oauthErrorResponse(problem, null);
