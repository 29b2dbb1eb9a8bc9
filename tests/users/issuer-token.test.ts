// User JWTs: those of an issuer, and odd ones put together by hand. The plain rules are in user-jwt.test.ts, the key
// set's own in key-set.test.ts.

import { describe, expect, test } from 'bun:test';
import { exportSPKI } from 'jose';
import { encodePart, handmade } from '../support/handmade-token.ts';
import { createIssuer, createKey } from '../support/issuer.ts';
import { createTestApp, type TestApp, type TestResponse } from '../support/test-app.ts';

const present = (app: TestApp, token: string): Promise<TestResponse> =>
  app.call('list_api_keys', {}, { authorization: `Bearer ${token}` });

const HS256 = { alg: 'HS256', typ: 'JWT' };
const claims = (app: TestApp, more: Record<string, unknown> = {}) => ({
  sub: 'alice',
  exp: Math.floor(app.clock.nowMs() / 1000) + 3600,
  ...more,
});

async function expectRefused(app: TestApp, token: string, reason?: string): Promise<void> {
  const response = await present(app, token);
  expect(response.body).toMatchObject({ status: 401, code: 'invalid_token' });
  expect(response.body.detail).toBe(
    token.startsWith('sk_') ? 'This tool needs a user token; an API key was sent' : 'Invalid or expired user token',
  );
  expect(response.headers.get('www-authenticate')).toStartWith('Bearer error="invalid_token"');
  const text = await app.logText();
  expect(text).not.toContain(token);
  const line = (await app.log()).findLast(({ event }) => event === 'Invalid user token');
  expect(line).toMatchObject({ level: 'warn', requestId: response.body.requestId });
  if (reason !== undefined) expect(line?.reason).toBe(reason);
}

describe('signature and header', () => {
  const now = (app: TestApp) => claims(app);
  const REFUSED: [string, (app: TestApp) => string][] = [
    ['no alg', (app) => handmade({ typ: 'JWT' }, now(app))],
    ['alg of a wrong type', (app) => handmade({ alg: ['HS256'] }, now(app))],
    ['an alg that is a property name', (app) => handmade({ alg: 'constructor' }, now(app))],
    ['an empty crit', (app) => handmade({ ...HS256, crit: [] }, now(app))],
    ['an unencoded payload', (app) => handmade({ ...HS256, crit: ['b64'], b64: false }, now(app))],
    ['a header that is no object', (app) => handmade('"HS256"', now(app))],
    ['a header that is no JSON', (app) => handmade('{', now(app))],
    ['no signature', (app) => handmade(HS256, now(app)).replace(/\.[^.]*$/, '.')],
    ['two parts', (app) => handmade(HS256, now(app)).replace(/\.[^.]*$/, '')],
    ['four parts', (app) => `${handmade(HS256, now(app))}.e30`],
    ['five parts, as an encrypted token has', () => 'e30.e30.e30.e30.e30'],
    ['an API key', () => `sk_test_${'0'.repeat(64)}`],
  ];
  test.each(REFUSED)('a token with %s is refused', async (_, make) => {
    await using app = await createTestApp();
    await expectRefused(app, make(app));
  });

  test('headers that bring keys, or point to them, are ignored: the secret decides', async () => {
    await using app = await createTestApp();
    const evil = 'a secret of the sender, 32 bytes long';
    const pointing = {
      ...HS256,
      jwk: { kty: 'oct', k: encodePart(evil) },
      jku: 'http://127.0.0.1:1/',
      x5u: 'http://127.0.0.1:1/',
      kid: '../../etc/passwd',
      zip: 'DEF',
    };
    expect((await present(app, handmade(pointing, claims(app)))).status).toBe(200);
    expect((await present(app, handmade(pointing, claims(app), evil))).status).toBe(401);
  });

  test('a token of 12,000 characters is read, one too long for a header is refused', async () => {
    await using app = await createTestApp();
    expect((await present(app, handmade(HS256, claims(app, { padding: 'x'.repeat(8500) })))).status).toBe(200);
    const huge = await present(app, handmade(HS256, claims(app, { padding: 'x'.repeat(60_000) })));
    expect(huge.status).toBeOneOf([401, 431]);
  });
});

describe('claims', () => {
  const REFUSED: [string, Record<string, unknown>, string][] = [
    ['no exp', { exp: undefined }, 'missing required "exp" claim'],
    ['nbf in the far future', { nbf: 99_999_999_999 }, '"nbf" claim timestamp check failed'],
    ['sub with NUL', { sub: 'bob\0x' }, 'sub must be 1 to 255 characters without controls'],
  ];
  test.each(REFUSED)('a token with %s is refused, and the log says why', async (_, changed, reason) => {
    await using app = await createTestApp();
    await expectRefused(app, handmade(HS256, claims(app, changed)), reason);
  });

  test('when a claim is given twice, the last one counts (RFC 7519 section 4)', async () => {
    await using app = await createTestApp();
    const { exp } = claims(app);
    const twice = handmade(HS256, `{"sub":"alice","sub":"bob","exp":1,"exp":${exp}}`);
    await app.createKey('bob');
    expect((await present(app, twice)).body.keys).toHaveLength(1);
    const expired = await present(app, handmade(HS256, `{"sub":"alice","exp":${exp},"exp":1}`));
    expect(expired.body).toMatchObject({ code: 'invalid_token', detail: 'The user token has expired' });
  });
});

describe('issuer and audience', () => {
  test('with an issuer the audience is one of this server’s own addresses', async () => {
    await using issuer = await createIssuer();
    const env = { JWT_SECRET: undefined, JWT_ISSUER: issuer.url, PUBLIC_URL: 'https://keys.example/service' };
    await using app = await createTestApp({ env });
    const of = (aud: unknown) => issuer.token(claims(app, { aud }));
    const own = ['', '/service', '/service/mcp', '/service/sse'].map((path) => `https://keys.example${path}`);
    for (const aud of [...own, [...own, 'https://other.example']])
      expect((await present(app, await of(aud))).status).toBe(200);
    const foreign = [
      'https://keys.example/service/other',
      'https://keys.example:444',
      'http://keys.example',
      'keys.example',
    ];
    for (const aud of [...foreign, [], 7, undefined]) await expectRefused(app, await of(aud));
  });

  test('JWT_AUDIENCE replaces them', async () => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({
      env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'keys' },
    });
    expect((await present(app, await issuer.token(claims(app, { aud: 'keys' })))).status).toBe(200);
    await expectRefused(app, await issuer.token(claims(app, { aud: app.url })));
  });

  test('a token of another issuer is refused even if the key set holds its key', async () => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    const aud = app.url;
    expect((await present(app, await issuer.token(claims(app, { aud })))).status).toBe(200);
    await expectRefused(app, await issuer.token(claims(app, { aud, iss: `${issuer.url}/` })));
    await expectRefused(app, await issuer.token(claims(app, { aud, iss: undefined })));
  });
});

describe('against a key set', () => {
  test('HS256 with the public key as the secret is refused, in every form the key has', async () => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    const key = await createKey('RS256', 'first');
    issuer.keys = [key];
    const payload = claims(app, { aud: app.url, iss: issuer.url });
    const publicKey = await crypto.subtle.importKey(
      'jwk',
      key.jwk,
      { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' },
      true,
      ['verify'],
    );
    const pem = await exportSPKI(publicKey);
    for (const secret of [
      pem,
      pem.trim(),
      JSON.stringify(key.jwk),
      key.jwk.n ?? '',
      Buffer.from(key.jwk.n ?? '', 'base64url'),
    ]) {
      await expectRefused(app, handmade({ ...HS256, kid: 'first' }, payload, secret), 'algorithm not accepted');
    }
    await expectRefused(app, `${encodePart({ alg: 'none', kid: 'first' })}.${encodePart(payload)}.`);
    await expectRefused(app, handmade({ alg: 'none', kid: 'first' }, payload, pem), 'algorithm not accepted');
  });

  test('what can’t be a token of the issuer is refused without asking for its keys', async () => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    await expectRefused(app, 'hello', 'malformed');
    await expectRefused(app, handmade(HS256, claims(app)), 'algorithm not accepted');
    expect(issuer.hits('/jwks')).toBe(0);
  });

  test('a key that comes with the token is not trusted', async () => {
    await using issuer = await createIssuer();
    await using evil = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    const key = await createKey('ES256', 'first');
    evil.keys = [key];
    const header = { jwk: key.jwk, jku: evil.jwksUrl, x5u: evil.jwksUrl };
    const payload = claims(app, { aud: app.url });
    await expectRefused(app, await issuer.token(payload, { key, header }));
    await expectRefused(app, await issuer.token(payload, { key, header: { ...header, kid: evil.jwksUrl } }));
    expect(evil.hits('/jwks')).toBe(0);
  });

  const KIDS: unknown[] = [
    '../../../dev/null',
    "' OR 1=1 --",
    '__proto__',
    'first\0',
    '',
    7,
    null,
    ['first'],
    { a: 1 },
  ];
  test.each(KIDS.map((kid) => [kid]))('kid %j names no key', async (kid) => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    await expectRefused(app, await issuer.token(claims(app, { aud: app.url }), { header: { kid } }));
  });
});
