// OAuth as clients meet it: the challenge leads them to the authorization server, and its token opens the tools. The
// clients are the official ones of both SDK generations; the authorization server is real and on loopback.

import { describe, expect, test } from 'bun:test';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { type AuthorizationServer, createAuthorizationServer } from '../support/authorization-server.ts';
import { testClock } from '../support/clock.ts';
import { rows } from '../support/everything.ts';
import { call, modern, openSse, post, request } from '../support/mcp.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { CLIENTS, type ClientKind, isUnauthorized, ofV1 } from '../support/oauth-clients.ts';
import { shared } from '../support/shared.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';

type Env = Record<string, string | undefined>;

interface Place extends AsyncDisposable {
  readonly app: TestApp;
  readonly server: AuthorizationServer;
  /** What clients are given, without `/mcp` or `/sse`. */
  readonly publicUrl: string;
}

async function place(env: Env = {}, { issuerPath = '' } = {}): Promise<Place> {
  const clock = testClock();
  const server = await createAuthorizationServer({ nowMs: clock.nowMs, path: issuerPath });
  const app = await createTestApp({ clock, env: { JWT_SECRET: undefined, JWT_ISSUER: server.url, ...env } });
  return {
    app,
    server,
    publicUrl: env.PUBLIC_URL ?? app.url,
    async [Symbol.asyncDispose]() {
      await app.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** A proxy that serves the app below /keys and strips that, and passes the metadata's addresses on as they are. */
async function behindProxy(): Promise<Place> {
  let target = '';
  const proxy = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      const { pathname, search } = new URL(request.url);
      const path = pathname.startsWith('/keys/') ? pathname.slice('/keys'.length) : pathname;
      if (path === pathname && !pathname.startsWith('/.well-known/')) return new Response('not ours', { status: 404 });
      return fetch(target + path + search, request);
    },
  });
  const inner = await place({ PUBLIC_URL: `http://127.0.0.1:${proxy.port}/keys` });
  target = inner.app.url;
  return {
    ...inner,
    async [Symbol.asyncDispose]() {
      await proxy.stop(true);
      await inner[Symbol.asyncDispose]();
    },
  };
}

const PLACES: Readonly<Record<string, () => Promise<Place>>> = {
  'at the root': () => place(),
  'below a BASE_PATH': () => place({ BASE_PATH: '/keys' }),
  'with a path in PUBLIC_URL that a proxy strips': behindProxy,
  'with an issuer that has a path': () => place({}, { issuerPath: '/tenant' }),
};

const structured = async (result: Promise<unknown>) =>
  ((await result) as { structuredContent: unknown }).structuredContent;
const CREATE = { name: 'create_api_key', arguments: { name: 'by OAuth', scopes: ['read'] } };

type SignIn = readonly [place: string, client: string];
const [ROOT = '', ...ELSEWHERE] = Object.keys(PLACES);
const [FIRST = '', ...OTHERS] = Object.keys(CLIENTS);
/** Each client, and each place. */
const USUAL: readonly SignIn[] = [
  ...Object.keys(CLIENTS).map((client): SignIn => [ROOT, client]),
  ...ELSEWHERE.map((place): SignIn => [place, FIRST]),
];
const ALL = [...USUAL, ...ELSEWHERE.flatMap((place) => OTHERS.map((client): SignIn => [place, client]))];

test.each(rows(ALL, USUAL.length))('%s, %s is challenged, signs in, and calls', async (placeName, clientName) => {
  const { path, connection } = CLIENTS[clientName] as ClientKind;
  await using there = await (PLACES[placeName] ?? place)();
  const { app, server, publicUrl } = there;
  const { provider, signIn, authorizationUrl } = createSignIn();
  const client = connection(new URL(publicUrl + path), provider);
  await client.connect();
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('create_api_key');
  expect(authorizationUrl()).toBeNull(); // nothing so far needed a user

  const refused = await client.callTool(CREATE).catch((error: unknown) => error);
  expect(isUnauthorized(refused)).toBe(true);
  expect(authorizationUrl()?.origin).toBe(new URL(server.url).origin);

  await client.finishAuth(await signIn());
  expect(server.issuedFor).toEqual([publicUrl + path]);
  const created = await structured(client.callTool(CREATE)); // the same connection goes on
  const { id, key } = created as { id: string; key: string };
  expect(key).toMatch(/^sk_test_/);
  const listed = await structured(client.callTool({ name: 'list_api_keys', arguments: {} }));
  expect(listed).toMatchObject({ keys: [{ id, name: 'by OAuth' }] });
  expect((await app.useKey(key)).body.owner).toBe('alice');
  await client.close();
});

/** How an eager server challenges each client is in ../doors/signin/clients.test.ts, too. */
const OVER_HTTP = Object.entries(CLIENTS).filter(([, { path }]) => path === '/mcp');
test.each(rows(OVER_HTTP, 2))(
  'with MCP_AUTH=eager, %s without a credential is sent to sign in first',
  async (_client, { path, connection }) => {
    await using there = await place({ MCP_AUTH: 'eager' });
    const { server, publicUrl } = there;
    const { provider, signIn } = createSignIn();
    const first = connection(new URL(publicUrl + path), provider);
    const refused = await first.connect().catch((error: unknown) => error);
    expect(isUnauthorized(refused)).toBe(true);
    await first.finishAuth(await signIn());
    expect(server.issuedFor).toEqual([publicUrl + path]);
    const second = connection(new URL(publicUrl + path), provider);
    await second.connect();
    expect(await structured(second.callTool(CREATE))).toMatchObject({ name: 'by OAuth' });
    await second.close();
  },
);

const PING = request('ping');

const challengeAt = ({ url }: TestApp, path = '/mcp') =>
  `Bearer realm="mcp-key-server", scope="openid", resource_metadata="${url}/.well-known/oauth-protected-resource${path}"`;

describe('the challenge on /mcp', () => {
  test('comes for a user tool with no token and with a bad one, in both eras', async () => {
    await using there = await place();
    const { app } = there;
    const { body, headers } = modern('tools/call', { name: 'list_api_keys' });
    for (const none of [await post(app, call('list_api_keys')), await post(app, body, headers)]) {
      expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, challengeAt(app)]);
    }
    const bad = await post(app, call('list_api_keys'), { authorization: 'Bearer x' });
    const invalid = 'error="invalid_token", error_description="Invalid or expired user token"';
    expect([bad.status, bad.headers.get('www-authenticate')]).toEqual([
      401,
      challengeAt(app).replace('realm="mcp-key-server"', invalid),
    ]);
  });

  test('does not come for a key tool, in a batch, or for an outage: those are refused in band', async () => {
    await using there = await place();
    const { app, server } = there;
    for (const headers of [{}, { 'x-api-key': 'wrong' }, { 'x-api-key': 'wrong', authorization: 'Bearer x' }]) {
      const { status, body } = await post(app, call('get_data'), headers);
      expect([status, body.result.isError]).toEqual([200, true]);
    }
    const batch = await post(app, [call('list_api_keys')]);
    expect([batch.status, batch.body[0].result.isError]).toEqual([200, true]);
    server.overrides.set('/jwks', () => new Response('no', { status: 500 }));
    const token = await server.token({ sub: 'alice', aud: app.url, exp: app.clock.nowMs() / 1000 + 60 });
    const outage = await post(app, call('list_api_keys'), { authorization: `Bearer ${token}` });
    expect([outage.status, outage.body.result.isError]).toEqual([200, true]);
  });

  test('of a tool for users names the metadata beside a key, too, with which nobody signs in there', async () => {
    await using there = await place();
    const { app } = there;
    const { status, headers } = await post(app, call('list_api_keys'), { 'x-api-key': 'x' });
    expect([status, headers.get('www-authenticate')]).toEqual([401, challengeAt(app)]);
  });

  test('does not come where no authorization server is configured, eager or not', async () => {
    await using app = await createTestApp({ env: { MCP_AUTH: 'eager' } });
    expect((await post(app, PING)).body.result).toEqual({});
    const { status, headers, body } = await post(app, call('list_api_keys'));
    expect([status, headers.get('www-authenticate'), body.result.isError]).toEqual([200, null, true]);
  });
});

const eager = await shared(place({ MCP_AUTH: 'eager' }));

describe('eager', () => {
  const { app, publicUrl } = eager;

  test('challenges any POST without a credential, unless the request itself is refused first', async () => {
    for (const body of [
      PING,
      [PING],
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      call('get_data'),
      {},
      7,
    ]) {
      const { status, headers } = await post(app, body);
      expect([status, headers.get('www-authenticate')]).toEqual([401, challengeAt(app)]);
    }
    expect((await post(app, '{')).body.error.code).toBe(-32700);
    expect((await post(app, PING, { 'content-type': 'text/plain' })).status).toBe(415);
    expect((await post(app, PING, { origin: 'https://evil.example' })).status).toBe(403);
    for (const method of ['GET', 'DELETE']) expect((await fetch(`${app.url}/mcp`, { method })).status).toBe(405);
  });

  test('is content with any credential but a bearer token that is none: the tool decides whether it is the right one', async () => {
    expect((await post(app, PING, { 'x-api-key': 'x' })).body.result).toEqual({});
    expect((await post(app, PING, { 'x-api-key': 'x', authorization: 'Bearer x' })).body.result).toEqual({});
    expect((await post(app, PING, { authorization: 'Basic eDp5' })).status).toBe(401);
    const inMeta = call('get_data', {}, { _meta: { api_key: 'x' } });
    for (const message of [inMeta, call('get_data', { _meta: { api_key: 'x' } })]) {
      expect((await post(app, message)).body.result.content[0].text).toBe('Invalid or expired API key');
    }
    expect((await post(app, call('get_data', {}, { _meta: { api_key: '' } }))).status).toBe(401);
    expect((await post(app, [{ ...PING, id: 2 }, inMeta])).body).toHaveLength(2);
  });

  test('does not change REST, and does not challenge /sse', async () => {
    expect((await app.call('get_data')).body.code).toBe('missing_api_key');
    const { provider, authorizationUrl } = createSignIn();
    const client = ofV1(new SSEClientTransport(new URL(`${publicUrl}/sse`), { authProvider: provider }));
    await client.connect();
    expect((await client.listTools()).tools).not.toBeEmpty();
    expect(authorizationUrl()).toBeNull();
    await client.close();
  });
});

test('the challenge on /messages is the response to the POST, and names the metadata of /sse', async () => {
  await using there = await place();
  const { app } = there;
  const session = await openSse(app);
  const refused = await session.post(call('list_api_keys'));
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, challengeAt(app, '/sse')]);
  expect((await session.post(PING)).status).toBe(202);
  await session.drop();
});
