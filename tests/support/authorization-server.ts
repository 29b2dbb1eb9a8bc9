// A small but real OAuth 2.1 authorization server on loopback: metadata, dynamic registration (RFC 7591), authorization
// code with PKCE (everybody is let in at once, as alice), resource indicators (RFC 8707), tokens that are JWTs.

import { createHash, randomUUID } from 'node:crypto';
import { createIssuer } from './issuer.ts';

export type AuthorizationServer = Awaited<ReturnType<typeof createAuthorizationServer>>;

const TOKEN_S = 3600;

interface Grant {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly resource: string;
}

/** `nowMs`: the clock of the server that is to accept the tokens. */
export async function createAuthorizationServer({ nowMs = Date.now, path = '' } = {}) {
  const issuer = await createIssuer({ path });
  const { origin } = new URL(issuer.url);
  const clients = new Map<string, readonly string[]>(); // redirect URIs by client id
  const grants = new Map<string, Grant>(); // by code
  /** The resources tokens were issued for, in order. */
  const issuedFor: string[] = [];
  const refuse = (error: string) => Response.json({ error }, { status: 400 });

  issuer.overrides.set(`/.well-known/oauth-authorization-server${path}`, () =>
    Response.json({
      issuer: issuer.url,
      authorization_endpoint: `${origin}/authorize`,
      token_endpoint: `${origin}/token`,
      registration_endpoint: `${origin}/register`,
      jwks_uri: issuer.jwksUrl,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none'],
      authorization_response_iss_parameter_supported: true,
    }),
  );

  issuer.overrides.set('/register', async (request) => {
    const asked = (await request.json()) as { redirect_uris: string[] };
    const clientId = randomUUID();
    clients.set(clientId, asked.redirect_uris);
    return Response.json({ ...asked, client_id: clientId, token_endpoint_auth_method: 'none' }, { status: 201 });
  });

  issuer.overrides.set('/authorize', (request) => {
    const { searchParams: asked } = new URL(request.url);
    const clientId = asked.get('client_id') ?? '';
    const redirectUri = asked.get('redirect_uri') ?? '';
    const challenge = asked.get('code_challenge');
    const resource = asked.get('resource');
    if (!clients.get(clientId)?.includes(redirectUri)) return refuse('invalid_client');
    if (asked.get('response_type') !== 'code' || asked.get('code_challenge_method') !== 'S256' || !challenge) {
      return refuse('invalid_request');
    }
    if (!resource) return refuse('invalid_target');
    const code = randomUUID();
    grants.set(code, { clientId, redirectUri, challenge, resource });
    const back = new URL(redirectUri);
    back.searchParams.set('code', code);
    back.searchParams.set('iss', issuer.url);
    const state = asked.get('state');
    if (state !== null) back.searchParams.set('state', state);
    return Response.redirect(back.href, 302);
  });

  issuer.overrides.set('/token', async (request) => {
    const asked = new URLSearchParams(await request.text());
    const code = asked.get('code') ?? '';
    const grant = grants.get(code);
    grants.delete(code);
    const challenge = createHash('sha256')
      .update(asked.get('code_verifier') ?? '')
      .digest('base64url');
    const fits =
      asked.get('grant_type') === 'authorization_code' &&
      grant?.clientId === asked.get('client_id') &&
      grant?.redirectUri === asked.get('redirect_uri') &&
      grant?.resource === asked.get('resource') &&
      grant?.challenge === challenge;
    if (grant === undefined || !fits) return refuse('invalid_grant');
    issuedFor.push(grant.resource);
    const nowS = Math.floor(nowMs() / 1000);
    const token = await issuer.token({ sub: 'alice', aud: grant.resource, iat: nowS, exp: nowS + TOKEN_S });
    return Response.json({ access_token: token, token_type: 'Bearer', expires_in: TOKEN_S });
  });

  return Object.assign(issuer, { issuedFor });
}
