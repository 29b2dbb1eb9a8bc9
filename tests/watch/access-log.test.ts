// ACCESS_LOG=1: one line for each request; and the request ids that trusted proxies give.

import { describe, expect, test } from 'bun:test';
import { type Call, defineTool, type Guard, ok } from '../../src/start/package/index.ts';
import { temporaryFolder } from '../support/folder.ts';
import { handOver, register } from '../support/hand-over.ts';
import { sendOverSocket } from '../support/http-socket.ts';
import { call, fetchMcp, modern, openSse, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, insertKey, readResponse, type TestApp } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';

async function requestsOf(app: TestApp) {
  return (await app.log()).filter(({ event }) => event === 'request');
}

test('each request is one line, with what it asked for, how it ended, and who asked', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', BASE_PATH: '/keys' } });
  const { id, key } = await app.createKey('alice');
  const seen = (await requestsOf(app)).length;
  await app.useKey(key);
  await app.useKey('no key');
  await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  await post(app, call('get_data'), { 'x-api-key': key });
  await app.call('no_such_tool');
  const { requestId } = (await readResponse(await fetch(`${app.url}/nowhere`))).body;
  const lines = (await requestsOf(app)).slice(seen);
  expect(
    lines.map(({ method, route, tool, status, keyId, userId }) => [method, route, tool, status, keyId, userId]),
  ).toEqual([
    ['POST', '/keys/tools/get_data', 'get_data', 200, id, undefined],
    ['POST', '/keys/tools/get_data', 'get_data', 401, undefined, undefined],
    ['POST', '/keys/tools/list_api_keys', 'list_api_keys', 200, undefined, 'alice'],
    ['POST', '/keys/mcp', 'get_data', 200, id, undefined],
    ['POST', '/keys/tools/*', undefined, 404, undefined, undefined],
    ['GET', null, undefined, 404, undefined, undefined],
  ]);
  for (const line of lines) {
    expect(line).toMatchObject({ level: 'info', address: '127.0.0.1', durationMs: 0, requestId: expect.any(String) });
  }
  expect(lines.at(-1)).toMatchObject({ requestId });
});

test('a key that is named by its hash is not shown by it', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const { key } = await app.createKey('alice', { name: `of ${'0123456789abcdef'.repeat(4)}` });
  await app.useKey(key);
  expect((await requestsOf(app)).at(-1)?.keyName).toBe('of [redacted]');
});

test('the line of a key has its name and owner; that of /verify the path that a trusted proxy sent, without its query', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', TRUST_PROXY: '1' } });
  const { id, key } = await app.createKey('alice', { name: 'CI' });
  const uris = ['/orders/7?token=secret#x', 'no path', '', `/${'x'.repeat(600)}`];
  for (const uri of uris) {
    await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key, 'x-forwarded-uri': uri } });
  }
  await app.call('get_data', {}, { 'x-api-key': key, 'x-forwarded-uri': '/forged' });
  const lines = (await requestsOf(app)).slice(1);
  expect(lines.map(({ path }) => path)).toEqual(['/orders/7', undefined, undefined, `/${'x'.repeat(499)}`, undefined]);
  for (const line of lines) expect(line).toMatchObject({ keyId: id, keyName: 'CI', owner: 'alice' });
  expect(lines.every(({ userId }) => userId === undefined)).toBe(true);
  expect(await app.logText()).not.toContain('token=secret');

  await using direct = await createTestApp({ env: { ACCESS_LOG: '1' } });
  await fetch(`${direct.url}/verify`, { headers: { 'x-forwarded-uri': '/forged' } });
  expect((await requestsOf(direct)).at(-1)?.path).toBeUndefined();
});

test('the line has the program that asks, in at most 100 characters, without any secret', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const agents = ['curl/8.5.0', 'x'.repeat(101), `cli ${'y'.repeat(90)} sk_test_${'0'.repeat(64)}`, ''];
  for (const agent of agents) await app.call('get_data', {}, { 'user-agent': agent });
  await sendOverSocket(app.url, 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  const lines = await requestsOf(app);
  expect(lines.map(({ userAgent }) => userAgent)).toEqual([
    'curl/8.5.0',
    'x'.repeat(100),
    `cli ${'y'.repeat(90)} [reda`,
    ...lines.slice(3).map(() => undefined),
  ]);
});

test('the line has what the MCP client calls itself: of this request, or of the session', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const { key } = await app.createKey('alice');
  const headers = { 'x-api-key': key };
  const sent = (clientInfo: unknown) => ({ 'io.modelcontextprotocol/clientInfo': clientInfo });
  const infos = [
    { name: 'host', version: '1.2' },
    { name: 'host' },
    { name: 'a\nb', version: '\u001b[2J' },
    { name: `sk_test_${'0'.repeat(64)}`, version: '1' },
    { name: `eyJ${'h'.repeat(2000)}.eyJ${'p'.repeat(2000)}.s`, version: '1' },
    { name: `sk%5Ftest%5F${'0'.repeat(64)}${'x'.repeat(16 * 1024)}`, version: 'x'.repeat(16 * 1024) },
    { name: `sk%5Ftest%5F${'0'.repeat(64)}${'\n'.repeat(16 * 1024)}`, version: '1' },
    { name: 'x'.repeat(1000), version: '1' },
    { name: '😀'.repeat(120), version: '1' },
    { name: 'a\ud83d', version: '1' },
    { name: '', version: '1' },
    { name: 7 },
    'text',
  ];
  const seen = (await requestsOf(app)).length;
  for (const info of infos) {
    const { body, headers: mirrored } = modern('tools/list', {}, sent(info));
    await post(app, body, { ...mirrored, ...headers });
  }
  const begins = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: infos[0] };
  await post(app, request('initialize', begins), headers);
  await post(app, request('tools/list'), headers);
  const session = await openSse(app, headers);
  await session.post(request('initialize', begins));
  await session.post(call('get_data'));
  const lines = (await requestsOf(app)).slice(seen);
  expect(lines.map(({ client }) => client)).toEqual([
    'host/1.2',
    'host',
    'a\\u000ab/\\u001b[2J',
    '[redacted]/1',
    '[redacted]/1',
    `[redacted]/${'x'.repeat(89)}`,
    `[redacted]${'\\u000a'.repeat(15)}`,
    'x'.repeat(100),
    '😀'.repeat(100),
    'a\ufffd/1',
    undefined,
    undefined,
    undefined,
    'host/1.2',
    undefined,
    undefined,
    'host/1.2',
    'host/1.2',
  ]);
});

test('so has the line of a notification, and of a request that is refused', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const clientInfo = { name: 'host', version: '1.2' };
  const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
  const ofNextVersion = {
    'io.modelcontextprotocol/protocolVersion': '2027-01-01',
    'io.modelcontextprotocol/clientInfo': clientInfo,
  };
  const seen = (await requestsOf(app)).length;
  await post(app, { ...notification, params: { _meta: ofNextVersion } });
  await post(app, request('tools/list', { _meta: ofNextVersion }));
  const session = await openSse(app);
  await session.post(request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo }));
  await session.post(notification);
  const lines = (await requestsOf(app)).slice(seen);
  expect(lines.map(({ route, status, client }) => [route, status, client])).toEqual([
    ['/mcp', 202, 'host/1.2'],
    ['/mcp', 400, 'host/1.2'],
    ['/sse', 200, undefined],
    ['/messages', 202, 'host/1.2'],
    ['/messages', 202, 'host/1.2'],
  ]);
  await using production = await createTestApp({ env: { ACCESS_LOG: '1', NODE_ENV: 'production' } });
  await post(production, request('tools/list', { _meta: { ...ofNextVersion, api_key: 'x' } }));
  expect((await requestsOf(production)).at(-1)).toMatchObject({ status: 403, client: 'host/1.2' });
});

test('the line of a refused key that is known has its name and owner, too; of an unknown one nothing', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', OAUTH_REDIRECTS: 'loopback' } });
  const { id, key } = await app.createKey('alice', { name: 'CI' });
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  const seen = (await requestsOf(app)).length;
  await app.useKey(key);
  await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
  await post(app, call('get_data'), { 'x-api-key': key });
  await post(app, call('get_data'), { authorization: `Bearer ${key}` });
  await app.useKey(`sk_test_${'0'.repeat(64)}`);
  const lines = (await requestsOf(app)).slice(seen);
  const known = { keyId: id, keyName: 'CI', owner: 'alice' };
  expect(lines).toMatchObject([
    { status: 401, ...known },
    { status: 401, ...known },
    { status: 401, ...known },
    { status: 401, ...known },
    { status: 401 },
  ]);
  expect(lines.at(-1)).not.toHaveProperty('keyId');
});

test('the line of a user who is blocked says who it is, as that of others does', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  await app.keys('block', 'alice', '--yes');
  await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  expect(await requestsOf(app)).toMatchObject([{ status: 403, code: 'user_blocked', userId: 'alice' }]);
});

test('the line of a refusal has its code, on every transport; of what is not refused none', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const { id, key } = await app.createKey('alice', { scopes: ['introspect'] });
  const alice = await bearer(app, 'alice');
  const seen = (await requestsOf(app)).length;
  await app.call('create_api_key', { name: '' }, alice);
  await app.call('rotate_api_key', { keyId: '0'.repeat(32) }, alice);
  await app.useKey('no key');
  await post(app, call('get_data'), { 'x-api-key': key });
  await post(app, call('create_api_key', { name: '' }), alice);
  for (const path of ['/tools/whoami', '/mcp']) {
    await fetch(app.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' });
  }
  await fetch(`${app.url}/verify?scope=`, { headers: { 'x-api-key': key } });
  await fetch(`${app.url}/introspect`, { method: 'POST', headers: { 'x-api-key': key }, body: new URLSearchParams() });
  await fetch(`${app.url}/token`, { method: 'POST', body: new URLSearchParams({ grant_type: 'password' }) });
  await fetch(`${app.url}/nowhere`);
  await app.call('whoami', {}, { 'x-api-key': key });
  await app.call('revoke_api_key', { keyId: id }, alice);
  const lines = (await requestsOf(app)).slice(seen);
  expect(lines.map(({ status, code }) => [status, code])).toEqual([
    [400, 'invalid_input'],
    [404, 'key_not_found'],
    [401, 'invalid_api_key'],
    [200, 'insufficient_scope'],
    [200, 'invalid_input'],
    [400, 'invalid_json'],
    [400, 'invalid_json'],
    [400, 'invalid_input'],
    [400, 'invalid_request'],
    [400, 'unsupported_grant_type'],
    [404, 'not_found'],
    [200, undefined],
    [200, undefined],
  ]);
});

test('the line of a page that says a problem has its code', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', OAUTH_REDIRECTS: 'loopback' } });
  const client = await register(app);
  const seen = (await requestsOf(app)).length;
  const send = (headers: Record<string, string>) =>
    fetch(`${app.url}/authorize`, { method: 'POST', headers, body: 'key=x' });
  await send({ 'content-type': 'application/x-www-form-urlencoded' });
  await send({ 'content-type': 'text/plain', origin: app.url });
  await fetch(`${app.url}/authorize`, { method: 'DELETE' });
  await handOver(client.page(), { key: `sk_test_${'0'.repeat(64)}` });
  const lines = (await requestsOf(app)).slice(seen);
  expect(lines.map(({ status, code }) => [status, code])).toEqual([
    [403, 'origin_denied'],
    [415, 'unsupported_media_type'],
    [405, 'method_not_allowed'],
    [200, undefined],
    [401, 'invalid_api_key'],
  ]);
});

test('the line of a call has its tool, also where it is refused before it runs, on every transport', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1', OAUTH_REDIRECTS: 'loopback', MCP_AUTH: 'lazy' } });
  const { key } = await app.createKey('alice');
  const ended = await app.createKey('alice');
  await app.call('revoke_api_key', { keyId: ended.id }, await bearer(app, 'alice'));
  const own = { 'x-api-key': key };
  const seen = (await requestsOf(app)).length;
  await fetch(`${app.url}/tools/get_data`, { method: 'POST', headers: own, body: '{}' });
  await post(app, call('get_data', []), own);
  await post(app, call('no_such_tool'), own);
  const { body, headers } = modern('tools/call', { name: 'get_data' });
  await post(app, body, { ...headers, ...own, 'mcp-name': 'whoami' });
  await post(app, call('get_data'), { authorization: 'Bearer no.good.token' });
  await post(app, call('get_data', []), { 'x-api-key': ended.key });
  await post(app, [request('tools/list'), { ...call('get_data', []), id: 2 }], own);
  const session = await openSse(app, own);
  await session.post(call('get_data', []));
  await session.post(call('get_data'), { 'x-api-key': ended.key });
  await post(app, [call('get_data'), { ...request('tools/list'), id: 2 }], { 'x-api-key': ended.key });
  const lines = (await requestsOf(app)).slice(seen);
  expect(lines.map(({ route, tool, status }) => [route, tool, status])).toEqual([
    ['/tools/get_data', 'get_data', 415],
    ['/mcp', 'get_data', 200],
    ['/mcp', undefined, 200],
    ['/mcp', 'get_data', 400],
    ['/mcp', 'get_data', 401],
    ['/mcp', 'get_data', 401],
    ['/mcp', 'get_data', 200],
    ['/sse', undefined, 200],
    ['/messages', 'get_data', 202],
    ['/messages', 'get_data', 401],
    ['/mcp', 'get_data', 401],
  ]);
});

test('the line says who asks, also where the response leaves before that is decided', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const { id, key } = await app.createKey('alice', { name: 'CI' });
  const alice = await bearer(app, 'alice');
  const wantsProgress = { _meta: { progressToken: 1 } };
  const seen = (await requestsOf(app)).length;
  const session = await openSse(app, alice);
  await session.post(call('list_api_keys'), alice);
  await session.post({ ...call('get_data'), id: 2 }, { ...alice, 'x-api-key': key });
  await fetchMcp(app, call('list_api_keys', {}, wantsProgress), alice).then((response) => response.text());
  await fetchMcp(app, call('get_data', {}, wantsProgress), { 'x-api-key': key }).then((response) => response.text());
  const lines = (await requestsOf(app)).slice(seen).filter(({ route }) => route !== '/sse');
  expect(lines).toMatchObject([
    { route: '/messages', tool: 'list_api_keys', userId: 'alice' },
    { route: '/messages', tool: 'get_data', keyId: id, keyName: 'CI', owner: 'alice' },
    { route: '/mcp', tool: 'list_api_keys', userId: 'alice' },
    { route: '/mcp', tool: 'get_data', keyId: id, keyName: 'CI', owner: 'alice' },
  ]);
});

test('so says the line of an MCP request that calls nothing, on both transports', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const { id, key } = await app.createKey('alice', { name: 'CI' });
  const ended = await app.createKey('carol', { name: 'old' });
  await app.call('revoke_api_key', { keyId: ended.id }, await bearer(app, 'carol'));
  const bob = await bearer(app, 'bob');
  const own = { 'x-api-key': key };
  const begins = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'host', version: '1' } };
  const seen = (await requestsOf(app)).length;
  await post(app, request('initialize', begins), own);
  await post(app, request('tools/list'), own);
  await post(app, request('tools/list', { _meta: { api_key: key } }));
  await post(app, call('no_such_tool'), own);
  await post(app, request('tools/list'), { ...own, ...bob });
  const session = await openSse(app, own);
  await session.post(request('ping'));
  const ofKey = (await requestsOf(app)).slice(seen);
  expect(ofKey).toHaveLength(7);
  for (const line of ofKey) expect(line).toMatchObject({ keyId: id, keyName: 'CI', owner: 'alice' });
  await post(app, request('tools/list'), bob);
  await post(app, request('tools/list'), { ...bob, 'x-api-key': `sk_test_${'0'.repeat(64)}` });
  await post(app, request('tools/list'), { 'x-api-key': ended.key });
  await post(app, request('tools/list'), { 'x-api-key': 'no key' });
  await post(app, request('tools/list'));
  const others = (await requestsOf(app)).slice(seen + ofKey.length);
  expect(others.map(({ status, keyId, owner, userId }) => [status, keyId, owner, userId])).toEqual([
    [200, undefined, undefined, 'bob'],
    [200, undefined, undefined, 'bob'],
    [401, ended.id, 'carol', undefined],
    [200, undefined, undefined, undefined],
    [200, undefined, undefined, undefined],
  ]);
});

test('so says that of a call which needs no credential, on both transports', async () => {
  const open = () => defineTool(anyone, { ...noInput('open'), run: () => ok({ content: [] }) });
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' }, tools: open });
  const own = { 'x-api-key': await insertKey(app, 'alice') };
  await post(app, call('open'), own);
  await fetchMcp(app, call('open', {}, { _meta: { progressToken: 1 } }), own).then((response) => response.text());
  const session = await openSse(app, own);
  await session.post(call('open'));
  await post(app, call('open'), await bearer(app, 'bob'));
  await post(app, call('open'));
  const lines = (await requestsOf(app)).filter(({ tool }) => tool === 'open');
  expect(lines.map(({ route, owner, userId }) => [route, owner, userId])).toEqual([
    ['/mcp', 'alice', undefined],
    ['/mcp', 'alice', undefined],
    ['/messages', 'alice', undefined],
    ['/mcp', undefined, 'bob'],
    ['/mcp', undefined, undefined],
  ]);
});

test('so says the line of a stream for a key in _meta that is not in memory yet', async () => {
  const folder = temporaryFolder();
  const before = await createTestApp({ folder, store: 'embedded' });
  const { id, key } = await before.createKey('alice', { name: 'CI' });
  await before.close();
  await using app = await createTestApp({ folder, store: 'embedded', env: { ACCESS_LOG: '1' } });
  const asked = call('get_data', {}, { _meta: { progressToken: 1, api_key: key } });
  expect(await fetchMcp(app, asked).then((response) => response.text())).toContain('"structuredContent"');
  expect(await requestsOf(app)).toMatchObject([{ tool: 'get_data', keyId: id, keyName: 'CI', owner: 'alice' }]);
});

test('a line that can’t be written costs nobody the response', async () => {
  const adding: Guard<Call> = () => ok({ auth: { keyId: '7', keyName: Object.create(null) } }); // has no text
  await using app = await createTestApp({
    env: { ACCESS_LOG: '1' },
    tools: () => [defineTool(adding, { ...noInput('odd'), run: () => ok({ content: [] }) })],
  });
  expect(await app.call('odd')).toMatchObject({ status: 200, body: { content: [] } });
  expect((await app.log()).map(({ event }) => event)).toContain('internal error');
});

test('without ACCESS_LOG there is no such line', async () => {
  await using app = await createTestApp();
  await app.useKey('no key');
  expect(await requestsOf(app)).toEqual([]);
});

describe('X-Request-Id', () => {
  const idOf = async (app: TestApp, sent: string) => {
    const { headers, body } = await app.call('get_data', {}, { 'x-request-id': sent });
    return { echoed: headers.get('x-request-id'), requestId: body.requestId as string };
  };

  test('the X-Request-Id of a trusted proxy is the request id, in the log too, and is sent back', async () => {
    await using app = await createTestApp({ env: { TRUST_PROXY: '1' } });
    expect(await idOf(app, 'edge-7.A_1')).toEqual({ echoed: 'edge-7.A_1', requestId: 'edge-7.A_1' });
    expect((await app.log()).at(-1)).toMatchObject({ event: 'No API key provided', requestId: 'edge-7.A_1' });
    expect(await idOf(app, 'x'.repeat(128))).toMatchObject({ requestId: 'x'.repeat(128) });
  });

  test('is not taken where it is no id', async () => {
    await using app = await createTestApp({ env: { TRUST_PROXY: '1' } });
    for (const sent of ['x'.repeat(129), 'a b', 'a"b', 'é', '', `sk_live_${'0'.repeat(64)}`]) {
      expect([sent, await idOf(app, sent)]).toEqual([
        sent,
        { echoed: null, requestId: expect.stringMatching(/^[0-9a-f]{12}-\w+$/) },
      ]);
    }
  });

  test('an X-Request-Id that does not come from a trusted proxy is ignored', async () => {
    await using app = await createTestApp();
    const { echoed, requestId } = await idOf(app, 'mine');
    expect({ echoed, taken: requestId === 'mine' }).toEqual({ echoed: null, taken: false });
  });
});
