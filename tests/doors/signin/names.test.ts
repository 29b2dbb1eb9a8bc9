// Under which address a request is answered, and which resources are this server: what a client was given must come back
// in metadata, challenges and links, and no key is handed out for a server at another host, address or port.

import { describe, expect, test } from 'bun:test';
import { userOn } from '../../support/client.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { codeByClick, codeFor, handOver, register } from '../../support/hand-over.ts';
import { createIssuer } from '../../support/issuer.ts';
import { askAsPerson, askForKey, pollForKey } from '../../support/key-request.ts';
import { call, post } from '../../support/mcp.ts';
import { createSignIn } from '../../support/oauth-client.ts';
import { CLIENTS, signedIn } from '../../support/oauth-clients.ts';
import { type Runtime, startServer } from '../../support/server-process.ts';
import {
  bearer,
  createTestApp,
  type Json,
  listedKeys,
  sharedApp,
  TEST_SECRET,
  type TestApp,
} from '../../support/test-app.ts';

const ENV = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', RATE_LIMIT_REQUESTS: '0' };

const portOf = ({ url }: { url: string }) => new URL(url).port;

/** Every place that names the server in a response to a request under `host`. No cache keeps it. */
async function namesUnder(app: TestApp, host: string, headers: Record<string, string> = {}) {
  const ask = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(app.url + path, { redirect: 'manual', ...init, headers: { ...headers, host } });
    expect(response.headers.get('cache-control')).toBe('no-store'); // a cache in front may not look at Host
    return response;
  };
  const json = async (path: string, init?: RequestInit) => (await (await ask(path, init)).json()) as Json;
  const client = await register(app);
  const { searchParams } = client.page({ code_challenge: 'x' });
  const refused = await ask('/mcp', { method: 'POST', body: new Blob(['{}'], { type: 'application/json' }) });
  const sent = (await ask(`/authorize?${searchParams}`)).headers.get('location') ?? '';
  const page = await (await ask(`/authorize?${client.page().searchParams}`)).text();
  return [
    (await json('/.well-known/oauth-protected-resource/mcp')).resource.replace('/mcp', ''),
    (await json('/.well-known/oauth-protected-resource')).authorization_servers[0],
    (await json('/.well-known/oauth-authorization-server')).issuer,
    (await json('/.well-known/oauth-authorization-server')).token_endpoint.replace('/token', ''),
    /resource_metadata="(.*?)\/\.well-known/.exec(refused.headers.get('www-authenticate') ?? '')?.[1],
    new URL(sent).searchParams.get('iss'),
    /<form [^>]*action="([^"]*)\/authorize"/.exec(page)?.[1],
    (await json('/device_authorization', { method: 'POST', body: new URLSearchParams() })).verification_uri.replace(
      '/keys',
      '',
    ),
    (await json('/openapi.json')).servers[0].url,
    / keys at (\S+)\/keys/.exec(await (await ask('/')).text())?.[1],
  ];
}

describe('without PUBLIC_URL', async () => {
  const app = await sharedApp({ env: { ...ENV, TRUST_PROXY: '1' } });

  test.each([
    ['a loopback name', 'localhost:8080', 'http://localhost:8080'],
    ['another spelling of it', 'LOCALHOST:80', 'http://localhost'],
    ['an IP address', '192.0.2.7:3000', 'http://192.0.2.7:3000'],
    ['an IPv6 address', '[2001:DB8::1]', 'http://[2001:db8::1]'],
    ['a short spelling of an address', '127.1:3000', 'http://127.1:3000'],
  ])('a request is answered under its own name: %s', async (_, host, url) => {
    expect(new Set(await namesUnder(app, host, { 'x-forwarded-host': 'evil.example' }))).toEqual(new Set([url]));
  });

  test('a trusted proxy says the scheme, and nobody the host', async () => {
    const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'evil.example' };
    expect(new Set(await namesUnder(app, 'localhost:443', headers))).toEqual(new Set(['https://localhost']));
  });

  test('a page of the same name may call, whatever ALLOWED_ORIGINS says', async () => {
    await using other = await createTestApp({ env: { ALLOWED_ORIGINS: 'https://app.example' } });
    const from = async (origin: string) =>
      (await fetch(`${other.url}/keys`, { headers: { origin, host: '192.0.2.7:3000' } })).status;
    expect(await from('http://192.0.2.7:3000')).toBe(200);
    expect(await from('http://192.0.2.7:3001')).toBe(403);
    expect(await from('http://localhost:3000')).toBe(403);
  });
});

test.each([
  [
    'PUBLIC_URL is the only name',
    { PUBLIC_URL: 'https://keys.example/api' },
    'localhost:8080',
    'https://keys.example/api',
  ],
  [
    'a host of ALLOWED_HOSTS is a name',
    { ALLOWED_HOSTS: 'keys.example' },
    'Keys.Example:8080',
    'http://keys.example:8080',
  ],
])('%s', async (_, env, host, url) => {
  await using app = await createTestApp({ env: { ...ENV, ...env } });
  const { resource } = (await (
    await fetch(`${app.url}/.well-known/oauth-protected-resource${new URL(url).pathname.replace(/^\/$/, '')}`, {
      headers: { host },
    })
  ).json()) as { resource: string };
  expect(resource).toBe(url);
});

describe('which resources are this server', async () => {
  const app = await sharedApp({ env: { ...ENV, OAUTH_RESOURCES: 'http://127.0.0.1:9000/mcp' } });
  const user = await bearer(app, 'alice');

  /** Whether a key is handed out for `resource` in requests under `host`, by each way. */
  async function takes(resource: string, host: string): Promise<boolean[]> {
    const client = await register(app);
    const page = client.page({ resource });
    const opened = await fetch(page, { headers: { host }, redirect: 'manual' });
    const asked = await askForKey(app, { resource }, { host });
    const made = await app.call('create_api_key', { name: 'n', scopes: ['read'], resource }, { ...user, host });
    return [opened.status === 200, asked.status === 200, made.status === 200];
  }

  const port = () => portOf(app);

  test.each([
    ['the name of the request', () => 'http://localhost:8080', 'localhost:8080'],
    ['with a path of a transport', () => 'http://localhost:8080/mcp/', 'localhost:8080'],
    ['scheme and host in any case', () => 'HTTP://LocalHost:8080/sse', 'localhost:8080'],
    ['a default port', () => 'http://localhost:80/mcp', 'localhost'],
    ['the address that it listens on', () => `http://127.0.0.1:${port()}/mcp`, 'localhost:8080'],
  ])('%s is', async (_, resource, host) => {
    expect(await takes(resource(), host)).toEqual([true, true, true]);
  });

  test.each([
    ['another port', () => `http://127.0.0.1:${Number(port()) + 1}/mcp`],
    ['another address of this machine', () => `http://127.0.0.2:${port()}/mcp`],
    ['another name of this machine', () => `http://localhost:${port()}/mcp`],
    ['a name with a dot', () => `http://127.0.0.1.:${port()}/mcp`],
    ['a short spelling', () => `http://127.1:${port()}/mcp`],
    ['another scheme', () => `https://127.0.0.1:${port()}/mcp`],
    ['another path', () => `http://127.0.0.1:${port()}/MCP`],
    ['a user', () => `http://x@127.0.0.1:${port()}/mcp`],
    ['a query', () => `http://127.0.0.1:${port()}/mcp?x`],
    ['the name that is stored', () => 'self'],
  ])('%s is not', async (_, resource) => {
    expect(await takes(resource(), `127.0.0.1:${port()}`)).toEqual([false, false, false]);
  });

  test('a host that is listed as another server stays that one', async () => {
    const { body } = await app.call(
      'create_api_key',
      { name: 'n', scopes: ['read'], resource: 'http://127.0.0.1:9000/mcp' },
      { ...user, host: '127.0.0.1:9000' },
    );
    const get = (url: string, headers: Record<string, string>) =>
      fetch(url, { headers: { 'x-api-key': body.key, ...headers } });
    expect((await app.call('get_data', {}, { 'x-api-key': body.key, host: '127.0.0.1:9000' })).status).toBe(401);
    expect((await get(`${app.url}/verify?resource=http://127.0.0.1:9000/mcp`, {})).status).toBe(200);
  });

  test('what a proxy sends as Host names no server of ours', async () => {
    const { key } = await app.createKey('alice', { resource: app.url });
    const verify = async (resource: string) =>
      (await fetch(`${app.url}/verify?resource=${resource}`, { headers: { 'x-api-key': key, host: '127.0.0.1:7777' } }))
        .status;
    expect([await verify(app.url), await verify('http://127.0.0.1:7777')]).toEqual([200, 401]);
  });

  test('a key that is bound under one name is good under each, and is shown as the client calls the server', async () => {
    const created = await app.call(
      'create_api_key',
      { name: 'n', scopes: ['read'], resource: 'http://localhost:8080/mcp' },
      { ...user, host: 'localhost:8080' },
    );
    expect(created.body.resource).toBe('http://localhost:8080');
    expect((await app.useKey(created.body.key)).status).toBe(200);
    expect((await listedKeys(app, 'alice'))[0]?.resource).toBe(app.url);
  });

  test('a code keeps the server and not its address', async () => {
    const client = await register(app);
    const { key } = await app.createKey('bob', { resource: app.url });
    const code = await codeFor(client, key);
    const headers = { host: 'localhost:8080' };
    expect((await client.redeem(code, { resource: 'http://localhost:8081' }, headers)).body.error).toBe(
      'invalid_target',
    );
    expect((await client.redeem(code, { resource: 'http://localhost:8080/mcp' }, headers)).body.access_token).toBe(key);
    const made = await codeByClick(app, client.page({ resource: app.url }), await bearer(app, 'bob'));
    const again = await client.redeem(made, {}, headers);
    expect((await app.useKey(String(again.body.access_token))).status).toBe(200);
  });

  test('a request of a device is shown under the name by which the person calls the server', async () => {
    const { device_code: deviceCode, user_code: userCode } = (await askForKey(app, {}, { host: '192.0.2.7' })).body;
    expect((await askAsPerson(app, 'request', { userCode }, user)).body.resource).toBe(app.url);
    await askAsPerson(app, 'decision', { userCode, approve: true, name: 'n', scopes: ['read'] }, user);
    expect((await app.useKey((await pollForKey(app, deviceCode)).body.access_token)).status).toBe(200);
  });
});

test('a key for an address that is not this server’s is not good here, whatever Host its client names', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  const { id, key } = await app.createKey('alice', { resource: app.url });
  await executeAt(databaseOf(app), {
    sql: 'UPDATE api_keys SET resource = ? WHERE id = ?',
    args: ['http://localhost:8080', id],
  });
  app.clock.advance(1000); // beyond the bound: the next request polls
  const { body } = await post(app, call('get_data'), { 'x-api-key': key, host: 'localhost:8080' });
  expect(body.result.isError).toBe(true);
});

test('the audience of a user token goes by no Host', async () => {
  await using issuer = await createIssuer();
  await using app = await createTestApp({
    env: { JWT_SECRET: undefined, JWT_JWKS_URL: issuer.jwksUrl, JWT_ISSUER: issuer.url },
  });
  const status = async (aud: string, host: string) => {
    const authorization = `Bearer ${await issuer.token({ sub: 'alice', aud, exp: app.clock.nowMs() / 1000 + 3600 })}`;
    return (await app.call('list_api_keys', {}, { authorization, host })).status;
  };
  for (const name of ['127.0.0.1', 'localhost', '[::1]'])
    for (const path of ['', '/', '/mcp', '/sse'])
      expect([name, await status(`http://${name}:${portOf(app)}${path}`, `127.0.0.1:${portOf(app)}`)]).toEqual([
        name,
        200,
      ]);
  expect(await status('http://localhost:8080/mcp', 'localhost:8080')).toBe(401);
  expect(await status(`http://192.0.2.7:${portOf(app)}`, `192.0.2.7:${portOf(app)}`)).toBe(401);
});

const [V1, V2] = ['SDK v1 over Streamable HTTP', 'SDK v2 over Streamable HTTP'] as const;
const SIGN_INS: readonly [string, string, Runtime, string, string][] = [
  [V1, 'at localhost', 'bun', '127.0.0.1', 'localhost'],
  [V2, 'at a server that listens everywhere', 'bun', '0.0.0.0', '127.0.0.1'],
  [V1, 'at a server that listens everywhere', 'bun', '0.0.0.0', '127.0.0.1'],
  [V2, 'at localhost', 'bun', '127.0.0.1', 'localhost'],
  [V1, 'at localhost', 'deno', '127.0.0.1', 'localhost'],
  [V2, 'at localhost', 'deno', '127.0.0.1', 'localhost'],
];
test.each(rows(SIGN_INS, 2))('%s signs in %s, on %s', async (name, _, runtime, HOST, host) => {
  await using server = await startServer({ runtime, env: { ...ENV, HOST, JWT_SECRET: TEST_SECRET } });
  const kind = CLIENTS[name];
  if (kind === undefined) throw new Error('no such client');
  const { key } = (await (await userOn(server)).create()).body;
  const url = new URL(`http://${host}:${portOf(server)}/mcp`);
  const client = await signedIn(
    kind,
    url,
    createSignIn((page) => handOver(page, { key })),
  );
  expect(await client.callTool({ name: 'get_data', arguments: {} })).toMatchObject({
    structuredContent: { owner: 'alice' },
  });
  await client.close();
});
