// A key made for a connection: a person decides on it on the page of keys, whose request these tests send, and it is
// made when the client redeems its code.

import { describe, expect, test } from 'bun:test';
import { postJsonText } from '../../support/client.ts';
import { rows } from '../../support/everything.ts';
import { fieldsOf, makeForConnection, register, unescaped } from '../../support/hand-over.ts';
import { createSignIn } from '../../support/oauth-client.ts';
import { CLIENTS, signedIn } from '../../support/oauth-clients.ts';
import { refusal } from '../../support/refusal.ts';
import {
  bearer,
  createTestApp,
  eventsIn,
  listedKeys,
  readResponse,
  sharedApp,
  type TestApp,
} from '../../support/test-app.ts';

const OTHER = 'https://other.example/mcp';
const ENV = { OAUTH_REDIRECTS: 'loopback https://client.example/back', OAUTH_RESOURCES: OTHER };
const DECIDED = { name: 'client.example', scopes: ['read'], expiresInDays: 90 };

/** What the page sends for a request, by a person. */
const decide = async (app: TestApp, page: URL, decided: object = DECIDED, sub = 'alice') =>
  readResponse(await makeForConnection(app, page, await bearer(app, sub), decided));

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
  expect(await listedKeys(app, 'alice')).toEqual([]);

  app.clock.advance(1000);
  const code = back.searchParams.get('code') ?? '';
  const { status, body } = await client.redeem(code);
  const key = String(body.access_token);
  expect([status, body]).toEqual([
    200,
    { access_token: key, token_type: 'Bearer', scope: 'read', expires_in: 90 * 86_400 },
  ]);
  const [listed] = await listedKeys(app, 'alice');
  expect(listed).toMatchObject({ name: 'client.example', scopes: ['read'], resource: app.url, ...limits });
  expect(listed?.expiresAt).toBe(app.clock.nowMs() + 90 * 86_400_000);
  expect((await app.useKey(key)).status).toBe(200);
  expect(await client.redeem(code)).toEqual({ status: 400, body: refusal('invalid_grant') });
  expect(await listedKeys(app, 'alice')).toHaveLength(1);

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

  // Had its response been lost, the owner would end it, and it would not be made again.
  await app.call('delete_api_key', { keyId: listed?.id }, await bearer(app, 'alice'));
  expect((await app.useKey(key)).status).toBe(401);
  expect((await client.redeem(code)).body.error).toBe('invalid_grant');
  expect(await listedKeys(app, 'alice')).toEqual([]);
});

describe('a decision that is wrong makes nothing', async () => {
  const ceilings = { KEY_SCOPES: 'read write', KEY_MAX_DAYS: '90', KEY_QUOTA: '5000/day', JWT_SCOPE_CLAIM: 'scope' };
  const app = await sharedApp({ env: { ...ENV, ...ceilings } });
  const client = await register(app);

  const post = async (body: string, headers: Record<string, string>) => {
    const answer = await readResponse(await postJsonText(`${app.url}/authorize`, body, headers));
    return [answer.status, answer.body.code];
  };
  const user = () => bearer(app, 'alice', { scope: 'read' });

  test.each<[string, Record<string, string | null>, object, unknown]>([
    ['no name', {}, { name: undefined }, 'name'],
    ['a blank name', {}, { name: ' ' }, 'name'],
    ['no scopes', {}, { scopes: undefined }, 'scopes'],
    ['a scope that doesn’t exist', {}, { scopes: ['admin'] }, 'scopes.0'],
    ['too long a life', {}, { expiresInDays: 91 }, 'expiresInDays'],
    ['too high a limit', {}, { rateLimit: { requests: 5000, window: '1h' } }, 'rateLimit'],
    ['too high a quota', {}, { quota: { requests: 5001, period: 'day' } }, 'quota'],
    ['a quota that is null', {}, { quota: null }, 'quota'],
    // What a browser gets a page for, or is sent back with an error, is in wrong.test.ts.
    ['a parameter that is no text', {}, { state: 1 }, undefined],
  ])('%s', async (_, changed, decided, path) => {
    const sent = await makeForConnection(app, client.page(changed), await user(), { ...DECIDED, ...decided });
    const { status, body } = await readResponse(sent);
    expect([status, body.code, body.location]).toEqual([400, 'invalid_input', undefined]);
    if (path !== undefined) expect(body.issues[0].path).toBe(path);
  });

  test('a scope that the person may not grant, no token or a wrong one, another origin, no JSON', async () => {
    const sent = (decided: object = {}) =>
      JSON.stringify({ ...Object.fromEntries(client.page().searchParams), ...DECIDED, ...decided });
    expect(await post(sent({ scopes: ['write'] }), await user())).toEqual([403, 'scope_not_granted']);
    expect(await post(sent(), {})).toEqual([401, 'missing_token']);
    expect(await post(sent(), { authorization: 'Bearer a.b.c' })).toEqual([401, 'invalid_token']);
    expect(await post(sent(), { origin: 'https://evil.example' })).toEqual([403, 'origin_denied']);
    expect(await post('{', await user())).toEqual([400, 'invalid_json']);
  });
});

/** Over /sse clients sign in on their first call only. What a client sees is what it sees of a pasted key. */
const KINDS = Object.entries(CLIENTS).filter(([, { path }]) => path === '/mcp');

test.each(rows(KINDS, 1))('%s is connected by a click, and calls with the new key', async (_, kind) => {
  await using app = await createTestApp({ env: ENV });
  const click = async (page: URL) => {
    const { body } = await decide(app, page);
    return new Response(null, { status: 303, headers: { location: body.location } });
  };
  const client = await signedIn(kind, new URL(app.url + kind.path), createSignIn(click));
  const result = (await client.callTool({ name: 'get_data', arguments: {} })) as { structuredContent: object };
  expect(result.structuredContent).toMatchObject({ owner: 'alice', key: { name: 'client.example' } });
  await client.close();
});
