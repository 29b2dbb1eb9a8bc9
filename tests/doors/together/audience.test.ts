// A key that is bound to one server is good at that server alone, whichever door it comes to; any other key at all.

import { describe, expect, test } from 'bun:test';
import { databaseOf } from '../../support/database-client.ts';
import { codeFor, handOver, register } from '../../support/hand-over.ts';
import { type Ask, call, post, WAYS } from '../../support/mcp.ts';
import { bearer, createTestApp, eventsIn, listedKeys, sharedApp } from '../../support/test-app.ts';

const OTHER = 'https://other.example/mcp';
const ENV = {
  OAUTH_REDIRECTS: 'loopback',
  OAUTH_RESOURCES: `${OTHER} https://third.example`,
  RATE_LIMIT_REQUESTS: '0',
};

const app = await sharedApp({ env: ENV });
const service = await app.createKey('service', { scopes: ['introspect'] });

/** What a key may be bound to. */
const BOUND = {
  'to none': () => ({}),
  'to this server': () => ({ resource: app.url }),
  'to its /mcp': () => ({ resource: `${app.url}/mcp` }),
  'to its /sse, with a slash': () => ({ resource: `${app.url}/sse/` }),
  'to another': () => ({ resource: 'HTTPS://OTHER.example:443/mcp/' }),
} as const;

const verify = (query: string) => async (key: string) =>
  (await fetch(`${app.url}/verify?${query}`, { headers: { 'x-api-key': key } })).status === 200;

const introspect = (resources: readonly string[]) => async (token: string) => {
  const body = new URLSearchParams([['token', token], ...resources.map((resource) => ['resource', resource])]);
  const response = await fetch(`${app.url}/introspect`, {
    method: 'POST',
    body,
    headers: { 'x-api-key': service.key },
  });
  expect(response.status).toBe(200);
  return ((await response.json()) as { active: boolean }).active;
};

const pasted = (resource: () => string | null) => async (key: string) =>
  (await handOver((await register(app)).page({ resource: resource() }), { key })).status === 303;

const over = (ask: Ask) => async (key: string) =>
  !(await ask(app, 'tools/call', { name: 'get_data', arguments: {} }, { 'x-api-key': key })).result.isError;

/** Each door: whether it takes a key that is bound to none, to this server, to another. */
const DOORS: Readonly<
  Record<string, readonly [(key: string) => Promise<boolean>, none: boolean, own: boolean, other: boolean]>
> = {
  REST: [async (key) => (await app.useKey(key)).status === 200, true, true, false],
  '/mcp': [over(WAYS.legacy), true, true, false],
  '/mcp, Bearer': [
    async (key) => (await post(app, call('get_data'), { authorization: `Bearer ${key}` })).status === 200,
    true,
    true,
    false,
  ],
  '/mcp 2026-07-28': [over(WAYS.modern), true, true, false],
  '/sse': [over(WAYS.sse), true, true, false],
  '/verify': [verify(''), true, true, false],
  '/verify for this server': [(key) => verify(`resource=${app.url}/mcp/`)(key), true, true, false],
  '/verify for the other': [verify(`resource=${OTHER}`), true, false, true],
  '/verify for a third': [verify('resource=https://third.example'), true, false, false],
  '/verify for both, as a client may have added one': [
    (key) => verify(`resource=${OTHER}&resource=${app.url}`)(key),
    true,
    false,
    false,
  ],
  '/introspect': [introspect([]), true, true, false],
  '/introspect for this server': [(key) => introspect([`${app.url}/sse`])(key), true, true, false],
  '/introspect for the other': [introspect([`${OTHER}/`]), true, false, true],
  'the page, for no server': [pasted(() => null), true, true, false],
  'the page, for this server': [pasted(() => `${app.url}/mcp`), true, true, false],
  'the page, for the other': [pasted(() => OTHER), false, false, true],
};

describe.each(Object.entries(DOORS))('%s', (_, [takes, none, own, other]) => {
  test.each(Object.entries(BOUND))('a key that is bound %s is used where it may be alone', async (bound, input) => {
    app.clock.advance(1000); // for the rate of lists
    const { id, key } = await app.createKey('alice', input());
    const expected = bound === 'to none' ? none : bound === 'to another' ? other : own;
    expect(await takes(key)).toBe(expected);
    const { lastUsedAt } = (await listedKeys(app, 'alice')).find((listed) => listed.id === id) ?? {};
    if (!expected && bound !== 'to none') expect(lastUsedAt).toBeUndefined();
  });
});

test('whatever it is bound to, whoever finds a key ends it', async () => {
  for (const input of Object.values(BOUND)) {
    const { key } = await app.createKey('alice', input());
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) });
    expect(await verify(`resource=${OTHER}`)(key)).toBe(false);
    expect(await verify('')(key)).toBe(false);
  }
});

test('the caller hears what any wrong key hears, and the log why', async () => {
  const { id, key } = await app.createKey('alice', { resource: OTHER });
  const refused = await app.useKey(key);
  expect([refused.status, refused.body.code, refused.body.detail]).toEqual([
    401,
    'invalid_api_key',
    'Invalid or expired API key',
  ]);
  const line = (await app.log()).findLast(({ event }) => event === 'Invalid or expired API key');
  expect(line).toMatchObject({ reason: 'other resource', keyId: id, userId: 'alice' });
  const page = await handOver((await register(app)).page({ resource: OTHER }), {
    key: (await app.createKey('bob')).key,
  });
  expect(await page.text()).toContain('This key works at other servers too. Make one for this connection.');
});

test('lists and results say what a key is bound to, and a rotation keeps it', async () => {
  await using own = await createTestApp({ env: { OAUTH_RESOURCES: OTHER, ADMIN_CLAIM: 'admin=1' } });
  const alice = await bearer(own, 'alice');
  const create = async (input: object) =>
    (await own.call('create_api_key', { name: 'n', scopes: ['read'], ...input }, alice)).body;
  const made = [
    await create({}),
    await create({ resource: `${own.url}/sse` }),
    await create({ resource: `${OTHER}/` }),
  ];
  expect(made.map(({ resource }) => resource)).toEqual([null, own.url, OTHER]);
  const listed = (await own.call('list_api_keys', {}, alice)).body.keys;
  expect(listed.map(({ resource }: { resource: unknown }) => resource)).toEqual([OTHER, own.url, null]);
  const rotated = (await own.call('rotate_api_key', { keyId: made[2].id }, alice)).body;
  expect(rotated.resource).toBe(OTHER);
  const at = (resource: string) =>
    fetch(`${own.url}/verify?resource=${resource}`, { headers: { 'x-api-key': rotated.key } });
  // Refused elsewhere, it is not used: the rotation is not completed.
  expect((await at(own.url)).status).toBe(401);
  expect((await eventsIn(own)).map(({ kind }) => kind)).not.toContain('first_used');
  expect((await at(OTHER)).status).toBe(200);
  expect((await eventsIn(own)).at(-1)?.kind).toBe('first_used');
  const created = (await own.log()).filter(({ event }) => event === 'API key created');
  expect(created.map(({ resource }) => resource)).toEqual([undefined, own.url, OTHER]);
});

test.each<[string, unknown]>([
  ['a server that is not listed', 'https://fourth.example'],
  ['nothing', ''],
  ['a word', 'x'],
  ['a path of this server', 'http://127.0.0.1/tools'],
  ['a query', `${OTHER}?a`],
  ['another spelling of a path', 'https://other.example/MCP'],
  ['a number', 1],
  ['null', null],
  ['a long text of emoji', '😀'.repeat(2000)], // which are as many characters as they look
])('a key can’t be bound to %s', async (_what, resource) => {
  const input = { name: 'n', scopes: [], resource };
  const { status, body } = await app.call('create_api_key', input, await bearer(app, 'alice'));
  expect([status, body.code, body.issues[0].path]).toEqual([400, 'invalid_input', 'resource']);
  if (typeof resource !== 'string') return;
  const known = [app.url, OTHER, 'https://third.example'];
  expect(body.issues[0].message).toBe(`Expected one of ${known.join(', ')}`);
});

test('a key stays good at the server that it is bound to when that is listed no longer', async () => {
  const { key } = await app.createKey('alice', { resource: OTHER });
  await using later = await createTestApp({ env: { DATABASE_URL: databaseOf(app) } });
  const at = async (resource: string) =>
    (await fetch(`${later.url}/verify?resource=${resource}`, { headers: { 'x-api-key': key } })).status;
  expect([await at(`${OTHER}/`), await at(later.url), await at('https://third.example')]).toEqual([200, 401, 401]);
});

test('a key that is bound otherwise while it has a code is not handed out', async () => {
  const client = await register(app);
  const { key } = await app.createKey('alice', { resource: app.url });
  const code = await codeFor(client, key);
  expect((await client.redeem(code, { resource: OTHER })).body.error).toBe('invalid_target');
  expect((await client.redeem(code, { resource: `${app.url}/mcp` })).body).toMatchObject({ access_token: key });
});

test('commands say for which server a key is', async () => {
  const lena = await bearer(app, 'lena');
  const create = async (resource: string): Promise<string> =>
    (await app.call('create_api_key', { name: 'n', scopes: [], resource }, lena)).body.id;
  const [here, there] = [await create(app.url), await create(OTHER)];
  const wide = await app.keys('list', '--user', 'lena', '--wide');
  expect(wide).toMatch(new RegExp(`^${here} .* this server$`, 'm'));
  expect(wide).toMatch(new RegExp(`^${there} .* ${OTHER}$`, 'm'));
  const shown = async (id: string) => JSON.parse(await app.keys('show', id, '--json')).resource;
  expect([await shown(here), await shown(there)]).toEqual(['this server', OTHER]);
});
