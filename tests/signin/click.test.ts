// A key made for a connection: a person decides on it on the page of keys, whose request these tests send, and it is
// made when the client redeems its code.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { testClock } from '../support/clock.ts';
import { openDatabase } from '../support/database-client.ts';
import { CALLBACK, fieldsOf, makeForConnection, type Registered, register, unescaped } from '../support/hand-over.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { CLIENTS, isUnauthorized } from '../support/oauth-clients.ts';
import { bearer, createTestApp, eventsIn, type TestApp } from '../support/test-app.ts';

const OTHER = 'https://other.example/mcp';
const ENV = { OAUTH_REDIRECTS: 'loopback https://client.example/back', OAUTH_RESOURCES: OTHER };
const DECIDED = { name: 'client.example', scopes: ['read'], expiresInDays: 90 };

/** What the page sends for a request, by a person. */
async function decide(app: TestApp, page: URL, decided: object = DECIDED, sub = 'alice') {
  const response = await makeForConnection(app, page, await bearer(app, sub), decided);
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of any shape
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
}

async function codeOf(app: TestApp, client: Registered, decided?: object, sub?: string): Promise<string> {
  const { body } = await decide(app, client.page(), decided, sub);
  return new URL(body.location).searchParams.get('code') ?? '';
}

const keysOf = async (app: TestApp, sub: string) =>
  (await app.call('list_api_keys', {}, await bearer(app, sub))).body.keys as Record<string, unknown>[];

test('the page leads to the page of keys with the request first; pasting is the second way', async () => {
  await using app = await createTestApp({ env: ENV });
  const page = (await register(app)).page({ scope: 'read write', resource: `${app.url}/mcp` });
  const html = await (await fetch(page)).text();
  const link = unescaped(/href="([^"]*#connect=[^"]*)"/.exec(html)?.[1] ?? '');
  expect(link).toBe(`${app.url}/keys#connect=${encodeURIComponent(page.search.slice(1))}`);
  expect(html.indexOf('#connect=')).toBeLessThan(html.indexOf('<form'));
  expect(fieldsOf(html).get('scope')).toBe('read write');
  const more = new URL(`${page}&key=sk_test_mine&nonce=mine`);
  expect(await (await fetch(more)).text()).toBe(html); // what it doesn't ask for, a key least of all, doesn't come back
  await using without = await createTestApp({ env: { ...ENV, KEYS_PAGE: '0' } });
  const bare = (await register(without)).page();
  expect(await (await fetch(bare)).text()).not.toContain('#connect=');
  expect((await decide(without, bare).catch(() => ({ status: 403 }))).status).not.toBe(200);
});

test('a key is made when the code is redeemed, once, bound to the server, and the trail says by whom and for whom', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app, ['https://client.example/back']);
  const limits = { rateLimit: { requests: 10, window: '1h' }, quota: { requests: 100, period: 'day' } };
  const decided = await decide(app, client.page(), { ...DECIDED, ...limits });
  expect([decided.status, decided.headers.get('cache-control')]).toEqual([200, 'no-store']);
  const back = new URL(decided.body.location);
  expect(back.origin + back.pathname).toBe('https://client.example/back');
  expect([back.searchParams.get('state'), back.searchParams.get('iss')]).toEqual(['of the client', app.url]);
  expect(await keysOf(app, 'alice')).toEqual([]);

  app.clock.advance(1000);
  const code = back.searchParams.get('code') ?? '';
  const { status, body } = await client.redeem(code);
  const key = String(body.access_token);
  expect([status, body]).toEqual([
    200,
    { access_token: key, token_type: 'Bearer', scope: 'read', expires_in: 90 * 86_400 },
  ]);
  const [listed] = await keysOf(app, 'alice');
  expect(listed).toMatchObject({ name: 'client.example', scopes: ['read'], resource: app.url, ...limits });
  expect(listed?.expiresAt).toBe(app.clock.nowMs() + 90 * 86_400_000);
  expect((await app.useKey(key)).status).toBe(200);
  expect(await client.redeem(code)).toEqual({ status: 400, body: { error: 'invalid_grant' } });
  expect(await keysOf(app, 'alice')).toHaveLength(1);

  const common = { keyId: String(listed?.id), owner: 'alice', how: 'oauth', address: '127.0.0.1' };
  expect(await eventsIn(app)).toMatchObject([
    { ...common, kind: 'created', actor: 'alice' },
    { ...common, kind: 'connected', actor: 'client.example', fingerprint: listed?.fingerprint },
  ]);
  const lines = (await app.log()).filter(({ keyId }) => keyId === listed?.id);
  expect(lines.slice(0, 2)).toMatchObject([
    { event: 'API key created', userId: 'alice', resource: app.url },
    { event: 'API key handed to a client', userId: 'alice', host: 'client.example', resource: app.url },
  ]);
  for (const secret of [key, code]) expect(await app.logText()).not.toContain(secret);

  await app.call('revoke_api_key', { keyId: listed?.id }, await bearer(app, 'alice'));
  expect((await app.useKey(key)).status).toBe(401);
});

test('for another server the key is bound to that', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const { body } = await decide(app, client.page({ resource: `${OTHER}/` }));
  const { access_token: key } = (await client.redeem(new URL(body.location).searchParams.get('code') ?? '')).body;
  expect((await keysOf(app, 'alice'))[0]?.resource).toBe(OTHER);
  expect((await app.useKey(String(key))).status).toBe(401);
});

test('of a hundred who redeem a code at once one gets a key, and one is made', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const code = await codeOf(app, client);
  const redeemed = await Promise.all(Array.from({ length: 100 }, () => client.redeem(code)));
  expect(redeemed.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(redeemed.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(99);
  expect(await keysOf(app, 'alice')).toHaveLength(1);
  expect((await eventsIn(app)).map(({ kind }) => kind)).toEqual(['created', 'connected']);
});

test('a code that nobody redeems makes nothing', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const code = await codeOf(app, client);
  app.clock.advance(60_000);
  expect((await client.redeem(code)).body.error).toBe('invalid_grant');
  expect(await keysOf(app, 'alice')).toEqual([]);
});

test('wrong verifiers, clients and servers make nothing, and the code is still good', async () => {
  await using app = await createTestApp({ env: ENV });
  const client = await register(app);
  const code = await codeOf(app, client);
  expect((await client.redeem(code, { code_verifier: 'a'.repeat(43) })).body.error).toBe('invalid_grant');
  expect((await client.redeem(code, { resource: OTHER })).body.error).toBe('invalid_target');
  expect(await keysOf(app, 'alice')).toEqual([]);
  expect((await client.redeem(code)).status).toBe(200);
});

/** As `keys block` does it. */
async function block(app: TestApp, owner: string): Promise<void> {
  const shell = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  await shell.execute({ sql: 'INSERT INTO blocked_owners (owner) VALUES (?)', args: [owner] });
  shell.close();
  app.clock.advance(1000);
}

describe('what is decided is checked as create_api_key checks it', () => {
  test.each([
    ['no name', { scopes: [] }, 'name'],
    ['a blank name', { ...DECIDED, name: ' ' }, 'name'],
    ['no scopes', { name: 'n' }, 'scopes'],
    ['a scope that doesn’t exist', { ...DECIDED, scopes: ['admin'] }, 'scopes.0'],
    ['too long a life', { ...DECIDED, expiresInDays: 91 }, 'expiresInDays'],
    ['too high a limit', { ...DECIDED, rateLimit: { requests: 5000, window: '1h' } }, 'rateLimit'],
    ['too high a quota', { ...DECIDED, quota: { requests: 5001, period: 'day' } }, 'quota'],
    ['a quota that is null', { ...DECIDED, quota: null }, 'quota'],
  ])('%s', async (_, decided, path) => {
    await using app = await createTestApp({
      env: { ...ENV, KEY_SCOPES: 'read write', KEY_MAX_DAYS: '90', KEY_QUOTA: '5000/day' },
    });
    const { status, body } = await decide(app, (await register(app)).page(), decided);
    expect([status, body.code, body.issues?.[0].path]).toEqual([400, 'invalid_input', path]);
  });

  test('a scope that the person may not grant; a person who is blocked', async () => {
    await using app = await createTestApp({ env: { ...ENV, JWT_SCOPE_CLAIM: 'scope' }, store: 'embedded' });
    const page = (await register(app)).page();
    expect((await decide(app, page)).body).toMatchObject({ status: 403, code: 'scope_not_granted' });
    await block(app, 'alice');
    expect((await decide(app, page, { ...DECIDED, scopes: [] })).body).toMatchObject({
      status: 403,
      code: 'user_blocked',
    });
  });
});

test.each([
  ['no user token', {}, 401, 'missing_token'],
  ['a wrong one', { authorization: 'Bearer a.b.c' }, 401, 'invalid_token'],
  ['another origin', { origin: 'https://evil.example' }, 403, 'origin_denied'],
])('%s: nothing is made', async (_, headers, status, code) => {
  await using app = await createTestApp({ env: ENV });
  const page = (await register(app)).page();
  const response = await fetch(`${app.url}/authorize`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(headers as Record<string, string>) },
    body: JSON.stringify({ ...Object.fromEntries(page.searchParams), ...DECIDED }),
  });
  expect([response.status, (await response.json()).code]).toEqual([status, code]);
});

test.each([
  ['no client', { client_id: null }],
  ['a redirect of somebody else', { redirect_uri: 'https://evil.example/' }],
  ['a redirect of another client', { redirect_uri: 'https://client.example/back' }],
  ['no challenge', { code_challenge: null }],
  ['another response type', { response_type: 'token' }],
  ['another server', { resource: 'https://evil.example/mcp' }],
])('a request that gets a page or an error redirect is a problem: %s', async (_, changed) => {
  await using app = await createTestApp({ env: ENV });
  const { status, body } = await decide(app, (await register(app, [CALLBACK])).page(changed));
  expect([status, body.code, body.location]).toEqual([400, 'invalid_input', undefined]);
});

test('a parameter that is no text, and a body that is no JSON, are problems', async () => {
  await using app = await createTestApp({ env: ENV });
  const page = (await register(app)).page();
  expect((await decide(app, page, { ...DECIDED, state: 1 })).body.code).toBe('invalid_input');
  const response = await fetch(`${app.url}/authorize`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(await bearer(app, 'alice')) },
    body: '{',
  });
  expect([response.status, (await response.json()).code]).toEqual([400, 'invalid_json']);
});

describe('what was changed between the decision and the redemption', () => {
  test.each([
    ['KEY_SCOPES', { KEY_SCOPES: 'write', SAMPLE_TOOL: '0' }],
    ['KEY_MAX_DAYS', { KEY_MAX_DAYS: '1' }],
    ['OAUTH_RESOURCES', { OAUTH_RESOURCES: undefined }],
  ])('a lower ceiling (%s) makes nothing', async (_, changed) => {
    const clock = testClock();
    const before = await createTestApp({ env: ENV, store: 'embedded', clock });
    const { folder } = before;
    const client = await register(before);
    const { body } = await decide(before, client.page({ resource: OTHER }));
    const code = new URL(body.location).searchParams.get('code') ?? '';
    await before.close();
    await using after = await createTestApp({ env: { ...ENV, ...changed }, store: 'embedded', folder, clock });
    const form = new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      code_verifier: client.verifier,
      client_id: client.clientId,
    });
    const response = await fetch(`${after.url}/token`, { method: 'POST', body: form });
    expect([response.status, await response.json()]).toEqual([400, { error: 'invalid_grant' }]);
    expect(await keysOf(after, 'alice')).toEqual([]);
  });

  test('a blocked owner, and one with a thousand keys, get nothing', async () => {
    await using app = await createTestApp({ env: ENV, store: 'embedded' });
    const client = await register(app);
    const [first, second] = [await codeOf(app, client), await codeOf(app, client, DECIDED, 'bob')];
    await block(app, 'alice');
    expect((await client.redeem(first)).body.error).toBe('invalid_grant');
    for (let n = 0; n < 1000; n += 1) await app.createKey('bob', { scopes: [] });
    expect((await client.redeem(second)).body.error).toBe('invalid_grant');
    const full = await decide(app, client.page(), DECIDED, 'bob');
    expect([full.status, full.body.code]).toEqual([409, 'key_limit_reached']);
  }, 180_000);

  test('a redemption whose response was lost is one key, which the owner can end', async () => {
    await using app = await createTestApp({ env: ENV });
    const client = await register(app);
    const code = await codeOf(app, client);
    await client.redeem(code); // lost
    expect((await client.redeem(code)).body.error).toBe('invalid_grant');
    const [listed] = await keysOf(app, 'alice');
    expect((await app.call('delete_api_key', { keyId: listed?.id }, await bearer(app, 'alice'))).status).toBe(200);
    expect((await client.redeem(code)).body.error).toBe('invalid_grant');
    expect(await keysOf(app, 'alice')).toEqual([]);
  });
});

/** Over /sse clients sign in on their first call only. */
const KINDS = Object.entries(CLIENTS).filter(([, { path }]) => path === '/mcp');

test.each(KINDS)('%s is connected by a click, and calls with the new key', async (_, kind) => {
  await using app = await createTestApp({ env: ENV });
  const url = new URL(app.url + kind.path);
  const click = async (page: URL) => {
    const { body } = await decide(app, page);
    return new Response(null, { status: 303, headers: { location: body.location } });
  };
  const { provider, signIn } = createSignIn(click);
  const first = kind.connection(url, provider);
  expect(isUnauthorized(await first.connect().catch((error: unknown) => error))).toBe(true);
  await first.finishAuth(await signIn());
  const client = kind.connection(url, provider);
  await client.connect();
  const result = (await client.callTool({ name: 'get_data', arguments: {} })) as { structuredContent: object };
  expect(result.structuredContent).toMatchObject({ owner: 'alice', key: { name: 'client.example' } });
  await client.close();
});
