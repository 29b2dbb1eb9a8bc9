// An issuer that signs in alice without asking, as a page's public client, or does it wrong in whatever way a test wants.

import { createIssuer } from './issuer.ts';

export interface Answers {
  /** Changes what the issuer sends back. */
  readonly back?: (params: URLSearchParams) => void;
  readonly claims?: Record<string, unknown>;
  /** In place of the token. */
  readonly refusal?: object;
  readonly withoutCors?: true;
  readonly sendsIss?: boolean;
}

/** An issuer that signs in alice at once, or does it as wrong as its `answers` say now, at the time of its clock. */
export async function lenientIssuer(answers: Answers = {}) {
  const issuer = Object.assign(await createIssuer(), { answers, nowMs: Date.now });
  const { url } = issuer;
  issuer.overrides.set('/.well-known/oauth-authorization-server', () =>
    Response.json({
      issuer: url,
      jwks_uri: issuer.jwksUrl,
      authorization_endpoint: `${url}/authorize`,
      token_endpoint: `${url}/token`,
      authorization_response_iss_parameter_supported: issuer.answers.sendsIss ?? true,
    }),
  );
  let resource = '';
  issuer.overrides.set('/authorize', (request) => {
    const asked = new URL(request.url).searchParams;
    resource = asked.get('resource') ?? '';
    const back = new URL(asked.get('redirect_uri') ?? '');
    back.searchParams.set('code', 'a-code');
    back.searchParams.set('state', asked.get('state') ?? '');
    back.searchParams.set('iss', url);
    issuer.answers.back?.(back.searchParams);
    return Response.redirect(back.href, 302);
  });
  issuer.overrides.set('/token', async () => {
    const nowS = Math.floor(issuer.nowMs() / 1000);
    const { claims: own, refusal, withoutCors } = issuer.answers;
    const claims = { sub: 'alice', aud: resource, iat: nowS, exp: nowS + 3600, ...own };
    const body = refusal ?? { access_token: await issuer.token(claims), token_type: 'Bearer' };
    return Response.json(body, {
      status: refusal === undefined ? 200 : 400,
      headers: withoutCors ? {} : { 'access-control-allow-origin': '*' },
    });
  });
  return issuer;
}
