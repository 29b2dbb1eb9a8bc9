// Several processes on one database hand out keys together: registered at one, asked for at another.

import { describe, expect, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startCluster, useKey } from '../support/cluster.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { makeForConnection, type Registered, register } from '../support/hand-over.ts';
import { askAsPerson, askForKey, pollForKey } from '../support/key-request.ts';
import { type Runtime, type ServerProcess, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import type { StoreMode } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin } from '../support/wait-for.ts';

const LAG_MAX_MS = 1000;
const PLACES: [StoreMode, Runtime][] = [
  ['embedded', USUAL_RUNTIME],
  ['embedded', 'deno'],
  ['remote', USUAL_RUNTIME],
];

describe.each(rows(PLACES, 1))('%s, the other on %s', (mode, runtime) => {
  test('registered at A, page at B, redeemed at A, revoked at B: refused at A within the bound, with a challenge', async () => {
    const PUBLIC_URL = 'http://127.0.0.1:1'; // the same for both
    await using cluster = await startCluster([mode, mode], { OAUTH_REDIRECTS: 'loopback', PUBLIC_URL }, [
      runtime,
      USUAL_RUNTIME,
    ]);
    const [a, b] = cluster.servers;
    if (a === undefined || b === undefined) throw new Error('two servers were asked for');
    const alice = await userHeaders('alice');
    const { body: created } = await callServer(a, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);

    const registered = await register(a);
    const codes = await Promise.all([b, a].map(({ url }) => codeAt(url, PUBLIC_URL, registered, created.key)));
    const [code = '', ofA = ''] = codes;
    expect((await registered.redeem(ofA, {}, {}, b)).body.access_token).toBe(created.key);
    const raced = await Promise.all([a, b, a, b].map((server) => registered.redeem(code, {}, {}, server)));
    expect(raced.filter(({ status }) => status === 200).map(({ body }) => body.access_token)).toEqual([created.key]);
    expect(raced.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(3);

    const headers = { authorization: `Bearer ${created.key}` };
    const call = () => mcp(a.url, headers);
    expect((await call()).status).toBe(200);
    await callServer(b, 'revoke_api_key', { keyId: created.id }, alice);
    await refusedWithin(LAG_MAX_MS, async () => (await call()).status);
    const refused = await call();
    expect(refused.headers.get('www-authenticate')).toContain(
      `error="invalid_token", error_description="Invalid or expired API key", scope="read", resource_metadata="${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"`,
    );

    const { body: next } = await callServer(b, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);
    const again = await registered.redeem(await codeAt(a.url, PUBLIC_URL, registered, next.key), {}, {}, b);
    expect(again.body.access_token).toBe(next.key);
    expect(await useKey(a, next.key)).toBe(200);
  }, 180_000);
});

const ENV = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', PUBLIC_URL: 'http://127.0.0.1:1' };
const DECIDED = { approve: true, name: 'agent', scopes: ['read'], expiresInDays: 1 };

describe.each(rows(PLACES, 1))('%s, the other on %s: a program without a browser', (mode, runtime) => {
  test('asks at A, is decided on at B, and gets a key at A, once; so does a client by a click', async () => {
    await using cluster = await startCluster([mode, mode], ENV, [runtime, USUAL_RUNTIME]);
    const [a, b] = cluster.servers;
    if (a === undefined || b === undefined) throw new Error('two servers were asked for');
    const alice = await userHeaders('alice');
    const { device_code: deviceCode, user_code: userCode } = (await askForKey(a)).body;
    expect((await pollForKey(b, deviceCode)).body.error).toBe('authorization_pending');
    const decision = { userCode, ...DECIDED };
    expect((await askAsPerson(b, 'decision', decision, alice)).status).toBe(200);
    expect((await askAsPerson(a, 'decision', decision, alice)).status).toBe(404);
    const raced = await Promise.all(
      Array.from({ length: 20 }, (_, at) => pollForKey(at % 2 === 0 ? a : b, deviceCode)),
    );
    const [got] = raced.filter(({ status }) => status === 200);
    expect(raced.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(19);
    expect(await useKey(b, got?.body.access_token ?? '')).toBe(200);

    const registered = await register(a);
    const clicked = await makeForConnection(b, registered.page(), alice);
    const { location } = (await clicked.json()) as { location: string };
    const code = new URL(location).searchParams.get('code') ?? '';
    const redeemed = await Promise.all([a, b, a, b].map((server) => registered.redeem(code, {}, {}, server)));
    expect(redeemed.filter(({ status }) => status === 200)).toHaveLength(1);
    expect((await callServer(a, 'list_api_keys', {}, alice)).body.keys).toHaveLength(2);
  }, 180_000);
});

describe('kill -9 between all steps loses nothing, and makes nothing twice:', () => {
  /** A server that is killed before each next step. */
  async function* lives() {
    const options = { folder: temporaryFolder(), env: { ...ENV, JWT_SECRET: TEST_SECRET } };
    for (;;) {
      await using server = await startServer(options);
      yield server;
    }
  }
  const listed = async (server: ServerProcess) =>
    (await callServer(server, 'list_api_keys', {}, await userHeaders('alice'))).body.keys;

  test('a program asks, a person decides, the program gets the key', async () => {
    const alice = await userHeaders('alice');
    await using servers = lives();
    const next = async () => (await servers.next()).value as ServerProcess;
    const { device_code: deviceCode, user_code: userCode } = (await askForKey(await next())).body;
    expect((await askAsPerson(await next(), 'request', { userCode }, alice)).status).toBe(200);
    expect((await askAsPerson(await next(), 'decision', { userCode, ...DECIDED }, alice)).status).toBe(200);
    const { body } = await pollForKey(await next(), deviceCode);
    const last = await next();
    expect((await pollForKey(last, deviceCode)).body.error).toBe('invalid_grant');
    expect(await useKey(last, body.access_token)).toBe(200);
    expect(await listed(last)).toMatchObject([{ id: body.key_id }]);
  }, 180_000);

  test('a client registers, a person opens the page and decides, the client redeems the code', async () => {
    const alice = await userHeaders('alice');
    await using servers = lives();
    const next = async () => (await servers.next()).value as ServerProcess;
    const client = await register(await next());
    const page = client.page();
    expect((await fetch((await next()).url + page.pathname + page.search)).status).toBe(200);
    const clicked = await makeForConnection(await next(), page, alice);
    const { location } = (await clicked.json()) as { location: string };
    const code = new URL(location).searchParams.get('code') ?? '';
    const { body } = await client.redeem(code, {}, {}, await next());
    const last = await next();
    expect((await client.redeem(code, {}, {}, last)).body.error).toBe('invalid_grant');
    expect(await useKey(last, String(body.access_token))).toBe(200);
    expect(await listed(last)).toHaveLength(1);
  }, 180_000);
});

test('a client that was registered before a restart is known after it', async () => {
  const options = { folder: temporaryFolder(), env: { OAUTH_REDIRECTS: 'loopback' } };
  const before = await startServer(options);
  const { search } = (await register(before)).page();
  expect(await before.stop()).toBe(0);
  await using after = await startServer(options);
  const page = `${after.url}/authorize${search}`;
  expect((await fetch(page)).status).toBe(200);
  expect((await fetch(page.replace('client_id=W', 'client_id=V'))).status).toBe(400);
}, 180_000);

/** The code that the page of this process gives for a key. */
async function codeAt(url: string, origin: string, { page }: Registered, key: string): Promise<string> {
  const form = new URLSearchParams([...page().searchParams, ['key', key]]);
  const response = await fetch(`${url}/authorize`, {
    method: 'POST',
    body: form,
    headers: { origin },
    redirect: 'manual',
  });
  return new URL(response.headers.get('location') ?? '').searchParams.get('code') ?? '';
}

const mcp = (url: string, headers: Record<string, string>) =>
  fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'get_data' } }),
  });
