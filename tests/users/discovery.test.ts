// Finding an issuer's key set through its metadata (RFC 8414, OpenID Connect Discovery).

import { expect, test } from 'bun:test';
import { createIssuer, type Issuer, JWKS_PATH } from '../support/issuer.ts';
import { createTestApp, type TestApp, type TestResponse } from '../support/test-app.ts';

const appFor = (issuer: string) => createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer } });

async function present(app: TestApp, issuer: Issuer, claims: Record<string, unknown> = {}): Promise<TestResponse> {
  const exp = app.clock.nowMs() / 1000 + 36_000;
  const token = await issuer.token({ sub: 'alice', aud: app.url, exp, ...claims });
  return app.call('list_api_keys', {}, { authorization: `Bearer ${token}` });
}

test.each([
  ['', '/.well-known/oauth-authorization-server'],
  ['', '/.well-known/openid-configuration'],
  ['/', '/.well-known/oauth-authorization-server'],
  ['/', '/.well-known/openid-configuration'],
  ['/tenant', '/.well-known/oauth-authorization-server/tenant'],
  ['/tenant', '/.well-known/openid-configuration/tenant'],
  ['/tenant', '/tenant/.well-known/openid-configuration'],
  ['/tenant/', '/tenant/.well-known/openid-configuration'],
])('an issuer at "%s" is found by its metadata at %s', async (path, metadataAt) => {
  await using issuer = await createIssuer({ path, metadataAt });
  await using app = await appFor(issuer.url);
  expect((await present(app, issuer)).status).toBe(200);
});

const METADATA = '/.well-known/oauth-authorization-server';

/** What it says beside its issuer and key set, or in place of a response. */
const UNUSABLE: [string, Record<string, unknown> | ((issuer: Issuer) => Response), string][] = [
  ['is nowhere', () => new Response('', { status: 404 }), 'answered 404'],
  ['redirects to good metadata', ({ url }) => Response.redirect(`${url}/good`, 302), 'answered 302'],
  ['names another issuer', { issuer: 'http://127.0.0.1:1' }, 'names another issuer, "http://127.0.0.1:1"'],
  ['names no issuer', { issuer: undefined }, 'names no issuer'],
  ['names an issuer that is no text', { issuer: 5 }, 'names no issuer'],
  ['names no key set', { jwks_uri: undefined }, 'names no key set'],
  ['names a key set that is no URL', { jwks_uri: '/jwks' }, 'names no key set'],
  ['names a file', { jwks_uri: 'file:///etc/jwks' }, 'names a key set that is not served over https'],
  [
    'names a password',
    (issuer) => Response.json({ issuer: issuer.url, jwks_uri: issuer.jwksUrl.replace('//', '//user:hunter2@') }),
    'names a key set with a user in its URL',
  ],
  ['names plain http elsewhere', { jwks_uri: 'http://192.0.2.1/' }, 'names a key set that is not served over https'],
  ['is not UTF-8', () => new Response(Buffer.from('{"issuer":"Z\xfcrich"}', 'latin1')), 'is not a JSON object'],
  ...['null', '[]', '"text"', '<html>', ''].map((text): (typeof UNUSABLE)[number] => [
    `reads ${text}`,
    () => new Response(text),
    'is not a JSON object',
  ]),
];

test.each(UNUSABLE)('metadata that %s is 503, and asked for again a second later', async (_, unusable, reason) => {
  await using issuer = await createIssuer();
  await using app = await appFor(issuer.url);
  const good = { issuer: issuer.url, jwks_uri: issuer.jwksUrl };
  issuer.overrides.set(METADATA, () =>
    typeof unusable === 'function' ? unusable(issuer) : Response.json({ ...good, ...unusable }),
  );
  issuer.overrides.set('/good', () => Response.json(good));
  expect((await present(app, issuer)).body).toMatchObject({ status: 503, code: 'auth_unavailable' });
  expect((await app.log()).find(({ event }) => event === 'key set out of reach')?.reason).toBe(
    `the issuer's metadata ${reason}`,
  );
  expect(issuer.hits('/good')).toBe(0);
  issuer.overrides.set('/.well-known/openid-configuration', () => Response.json(good));
  app.clock.advance(1000);
  expect((await present(app, issuer)).status).toBe(200);
});

test('an issuer that was away at the start, and then turns out to have another name, has one line for each', async () => {
  await using issuer = await createIssuer();
  await using app = await createTestApp({
    env: {
      JWT_SECRET: undefined,
      JWT_ISSUER: issuer.url,
      KEYS_PAGE_CLIENT_ID: 'page',
      PUBLIC_URL: 'http://127.0.0.1:3000',
    },
  });
  const ofOutage = (name: string) => `the issuer's metadata ${name}`;
  const reasons = [ofOutage('answered 503'), ofOutage('names another issuer, "http://127.0.0.1:1"')];
  const responses = [new Response('', { status: 503 }), Response.json({ issuer: 'http://127.0.0.1:1' })];
  for (const response of [...responses, ...responses]) {
    issuer.overrides.set(METADATA, () => response.clone());
    for (let calls = 0; calls < 3; calls += 1) {
      expect((await present(app, issuer, { aud: 'http://127.0.0.1:3000' })).status).toBe(503);
      expect((await fetch(`${app.url}/keys`)).status).toBe(200);
      app.clock.advance(5000); // the pause after a failure
    }
  }
  for (const out of ['key set out of reach', 'issuer out of reach']) {
    expect((await app.log()).filter(({ event }) => event === out).map(({ reason }) => reason)).toEqual(reasons);
  }
});

test('a key set that moves is found when the old one is five minutes old', async () => {
  await using issuer = await createIssuer();
  await using app = await appFor(issuer.url);
  expect((await present(app, issuer)).status).toBe(200);
  issuer.overrides.set(JWKS_PATH, () => new Response('gone', { status: 410 }));
  issuer.overrides.set('/moved', () => Response.json({ keys: issuer.keys.map(({ jwk }) => jwk) }));
  issuer.overrides.set(METADATA, () => Response.json({ issuer: issuer.url, jwks_uri: `${issuer.url}/moved` }));
  app.clock.advance(5 * 60_000);
  expect((await present(app, issuer)).status).toBe(200);
});

test('no metadata is fetched if JWT_JWKS_URL names the key set', async () => {
  await using issuer = await createIssuer();
  await using app = await createTestApp({
    env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url, JWT_JWKS_URL: issuer.jwksUrl },
  });
  expect((await present(app, issuer)).status).toBe(200);
  expect(issuer.hits(METADATA)).toBe(0);
});
