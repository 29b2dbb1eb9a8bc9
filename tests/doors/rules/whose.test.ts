// Whose token is it? Decided by what it says, before anything is verified: with each way of verifying users, at tools for
// users and at tools for keys. No token is both.

import { describe, expect, test } from 'bun:test';
import { SignJWT } from 'jose';
import { postJson } from '../../support/client.ts';
import { handmade } from '../../support/handmade-token.ts';
import { createIssuer, type Issuer } from '../../support/issuer.ts';
import { seeded } from '../../support/model-user.ts';
import { createTestApp, insertKey, TEST_SECRET, type TestApp } from '../../support/test-app.ts';
import { AUDIENCES, randomToken, waysOf, whose } from './random-tokens.ts';

const PUBLIC_URL = 'https://tools.example';
const OTHER_AUDIENCE = 'https://other.example';

/** What a tool for users, and a tool for keys, answer to a token. */
async function answers(app: TestApp, token: string) {
  const headers = { authorization: `Bearer ${token}` };
  const [forUsers, forKeys] = [await app.call('list_api_keys', {}, headers), await app.call('get_data', {}, headers)];
  return { user: forUsers.status === 200, key: forKeys.status === 200, said: String(forUsers.body.detail ?? '') };
}

async function start(issuer: Issuer, env: Record<string, string | undefined>, audience?: string) {
  const app = await createTestApp({ env: { PUBLIC_URL, ...env } });
  await insertKey(app, 'acme', ['read']);
  const { id } = JSON.parse(await app.keys('list', '--user', 'acme', '--json'));
  const options = audience === undefined ? [] : ['--audience', audience];
  await app.keys('rule', 'add', id, '--issuer', issuer.url, '--subject', 'job', ...options);
  return app;
}

/** A token that is good for everything but what `claims` change. */
function tokenOf(app: TestApp, issuer: Issuer, claims: Record<string, unknown>) {
  const nowS = Math.floor(app.clock.nowMs() / 1000);
  return issuer.token({ sub: 'job', aud: PUBLIC_URL, iat: nowS, exp: nowS + 300, ...claims });
}

describe('with JWT_SECRET', () => {
  test('HS256 is a user’s, whatever else it says; any other algorithm may be a rule’s', async () => {
    await using issuer = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: TEST_SECRET });
    expect(await answers(app, await tokenOf(app, issuer, {}))).toMatchObject({
      user: false,
      key: true,
      said: 'This tool needs a user token; an API key was sent',
    });
    const inHeader = await app.call('list_api_keys', {}, { 'x-api-key': await tokenOf(app, issuer, {}) });
    expect(inHeader.body).toMatchObject({
      code: 'missing_token',
      detail: 'This tool needs a user token; an API key was sent',
    });
    const nowS = Math.floor(app.clock.nowMs() / 1000);
    const byUser = new SignJWT({ sub: 'job', iss: issuer.url, aud: PUBLIC_URL, iat: nowS, exp: nowS + 300 });
    const token = await byUser.setProtectedHeader({ alg: 'HS256' }).sign(new TextEncoder().encode(TEST_SECRET));
    expect(await answers(app, token)).toMatchObject({ user: true, key: false });
    expect((await app.call('list_api_keys', {}, { 'x-api-key': token })).body.detail).toBe('No user token provided');
  });

  test('a token of an issuer that no rule names is what it is without rules', async () => {
    await using issuer = await createIssuer();
    await using stranger = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: TEST_SECRET });
    const token = await tokenOf(app, stranger, {});
    const { status, body } = await app.call('get_data', {}, { authorization: `Bearer ${token}` });
    expect([status, body.detail]).toEqual([401, 'This tool needs an API key; a user token was sent']);
  });
});

describe('with JWT_ISSUER', () => {
  test.each<[string, Record<string, unknown>, { user: boolean; key: boolean }]>([
    ['an audience of users', { aud: PUBLIC_URL }, { user: true, key: false }],
    ['the audience of the rule', { aud: OTHER_AUDIENCE }, { user: false, key: true }],
    ['both', { aud: [OTHER_AUDIENCE, PUBLIC_URL] }, { user: true, key: false }],
    ['neither', { aud: 'https://third.example' }, { user: false, key: false }],
    ['no audience', { aud: undefined }, { user: false, key: false }],
  ])('a token of the users’ issuer with %s', async (_, claims, expected) => {
    await using issuer = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: undefined, JWT_ISSUER: issuer.url }, OTHER_AUDIENCE);
    expect(await answers(app, await tokenOf(app, issuer, claims))).toMatchObject(expected);
  });

  test('a token of another issuer, with an audience of users, is a rule’s', async () => {
    await using users = await createIssuer();
    await using issuer = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: undefined, JWT_ISSUER: users.url });
    expect(await answers(app, await tokenOf(app, issuer, {}))).toMatchObject({ user: false, key: true });
    expect(await answers(app, await tokenOf(app, users, {}))).toMatchObject({ user: true, key: false });
  });
});

test('with JWT_JWKS_URL alone every token is a user’s', async () => {
  await using issuer = await createIssuer();
  await using app = await createTestApp({ env: { PUBLIC_URL, JWT_SECRET: undefined, JWT_JWKS_URL: issuer.jwksUrl } });
  await insertKey(app, 'acme', ['read']);
  const { id } = JSON.parse(await app.keys('list', '--user', 'acme', '--json'));
  const add = app.keys('rule', 'add', id, '--issuer', issuer.url, '--subject', 'job');
  expect(await add.then(() => 'added', String)).toContain('JWT_ISSUER');
  expect(await answers(app, await tokenOf(app, issuer, {}))).toMatchObject({ user: true, key: false });
});

describe('on /mcp, as Bearer', () => {
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'get_data', arguments: {} },
  };
  const post = (app: TestApp, token: string) =>
    postJson(`${app.url}/mcp`, initialize, { authorization: `Bearer ${token}`, accept: 'application/json' });

  test('a workload’s token calls tools for keys, and one that has ended is 401', async () => {
    await using issuer = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: TEST_SECRET });
    const good = await post(app, await tokenOf(app, issuer, {}));
    expect([good.status, (await good.json()).result.isError ?? false]).toEqual([200, false]);
    const nowS = Math.floor(app.clock.nowMs() / 1000);
    const ended = await post(app, await tokenOf(app, issuer, { iat: nowS - 600, exp: nowS - 1 }));
    expect([ended.status, ended.headers.get('www-authenticate')]).toEqual([
      401,
      expect.stringContaining('error="invalid_token"'),
    ]);
  });

  test('in X-API-Key, too, it is the key that it is there alone', async () => {
    await using issuer = await createIssuer();
    await using app = await start(issuer, { JWT_SECRET: TEST_SECRET });
    const list = (token: string) =>
      postJson(
        `${app.url}/mcp`,
        { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        { authorization: `Bearer ${token}`, 'x-api-key': token, accept: 'application/json' },
      );
    const listed = await (await list(await tokenOf(app, issuer, {}))).json();
    expect(listed.result.tools).toMatchObject([{ name: 'whoami' }, { name: 'get_data' }]);
    const nowS = Math.floor(app.clock.nowMs() / 1000);
    expect((await list(await tokenOf(app, issuer, { iat: nowS - 600, exp: nowS - 1 }))).status).toBe(401);
  });
});

test('random tokens with a good signature, with each way of verifying users: none gets in as both', async () => {
  await using users = await createIssuer();
  await using platform = await createIssuer();
  const random = seeded(24);
  const issuers = [users.url, platform.url];
  const counts = { user: 0, rule: 0 };
  const UNSET = { JWT_SECRET: undefined, RATE_LIMIT_REQUESTS: '0', USER_RATE_LIMIT: '0' };
  for (const env of waysOf(users.url, users.jwksUrl)) {
    await using app = await createTestApp({ env: { ...UNSET, ...env } });
    await insertKey(app, 'acme', ['read']);
    const { id } = JSON.parse(await app.keys('list', '--user', 'acme', '--json'));
    const audiences = AUDIENCES.slice(0, 5).flatMap((audience) => ['--audience', audience]);
    const isWithoutEffect = !('JWT_SECRET' in env) && !('JWT_ISSUER' in env);
    const ofRules = new Set(isWithoutEffect ? [] : issuers);
    for (const issuer of ofRules)
      await app.keys('rule', 'add', id, '--issuer', issuer, '--subject', 'job', ...audiences);
    for (let made = 0; made < 250; made += 1) {
      const token = randomToken(random, issuers, app.clock.nowMs());
      const { header, payload } = token;
      const isOfPlatform = header.alg === 'ES256' && payload.iss === platform.url;
      const signed =
        header.alg === 'ES256'
          ? await (isOfPlatform ? platform : users).token({ iss: undefined, ...payload }, { header })
          : handmade(header, payload);
      const { user, key } = await answers(app, signed);
      if (!user && !key) continue;
      const as = user && key ? 'both' : user ? 'user' : 'rule';
      expect({ token, env, as }).toEqual({ token, env, as: whose(token, env, ofRules) as 'user' });
      counts[as as 'user' | 'rule'] += 1;
    }
  }
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(50);
}, 180_000);
