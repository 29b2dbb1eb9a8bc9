// Several processes on one database hand out keys together: registered at one, asked for at another.

import { describe, expect, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startCluster, useKey } from '../support/cluster.ts';
import { temporaryFolder } from '../support/folder.ts';
import { makeForConnection, type Registered, register } from '../support/hand-over.ts';
import { type Runtime, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import type { StoreMode } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const LAG_MAX_MS = 1000;
const PLACES: [StoreMode, Runtime][] = [
  ['embedded', USUAL_RUNTIME],
  ['embedded', 'deno'],
  ['remote', USUAL_RUNTIME],
];

describe.each(PLACES)('%s, the other on %s', (mode, runtime) => {
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
    expect((await redeemAt(b.url, registered, ofA)).body.access_token).toBe(created.key);
    const raced = await Promise.all([a, b, a, b].map((server) => redeemAt(server.url, registered, code)));
    expect(raced.filter(({ status }) => status === 200).map(({ body }) => body.access_token)).toEqual([created.key]);
    expect(raced.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(3);

    const headers = { authorization: `Bearer ${created.key}` };
    const call = () => mcp(a.url, headers);
    expect((await call()).status).toBe(200);
    await callServer(b, 'revoke_api_key', { keyId: created.id }, alice);
    const revokedAtMs = performance.now();
    let lastSuccessMs = 0;
    await waitFor(async () => {
      const sentAtMs = performance.now();
      const { status } = await call();
      if (status === 200) lastSuccessMs = sentAtMs - revokedAtMs;
      return status === 401;
    });
    expect(lastSuccessMs).toBeLessThan(LAG_MAX_MS);
    const refused = await call();
    expect(refused.headers.get('www-authenticate')).toContain(
      `error="invalid_token", error_description="Invalid or expired API key", scope="read", resource_metadata="${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"`,
    );

    const { body: next } = await callServer(b, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);
    const again = await redeemAt(b.url, registered, await codeAt(a.url, PUBLIC_URL, registered, next.key));
    expect(again.body.access_token).toBe(next.key);
    expect(await useKey(a, next.key)).toBe(200);
  }, 60_000);
});

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const ENV = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1', PUBLIC_URL: 'http://127.0.0.1:1' };
const DECIDED = { approve: true, name: 'agent', scopes: ['read'], expiresInDays: 1 };

/** A request of a program. */
async function askAt(url: string): Promise<{ device_code: string; user_code: string }> {
  const response = await fetch(`${url}/device_authorization`, { method: 'POST', body: new URLSearchParams() });
  return (await response.json()) as { device_code: string; user_code: string };
}

async function pollAt(url: string, deviceCode: string) {
  const body = new URLSearchParams({ grant_type: GRANT, device_code: deviceCode });
  const response = await fetch(`${url}/token`, { method: 'POST', body });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

async function decideAt(url: string, userCode: string, user: Record<string, string>) {
  const response = await fetch(`${url}/device/decision`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...user },
    body: JSON.stringify({ userCode, ...DECIDED }),
  });
  return response.status;
}

describe.each(PLACES)('%s, the other on %s: a program without a browser', (mode, runtime) => {
  test('asks at A, is decided on at B, and gets a key at A, once; so does a client by a click', async () => {
    await using cluster = await startCluster([mode, mode], ENV, [runtime, USUAL_RUNTIME]);
    const [a, b] = cluster.servers;
    if (a === undefined || b === undefined) throw new Error('two servers were asked for');
    const alice = await userHeaders('alice');
    const { device_code: deviceCode, user_code: userCode } = await askAt(a.url);
    expect((await pollAt(b.url, deviceCode)).body.error).toBe('authorization_pending');
    expect(await decideAt(b.url, userCode, alice)).toBe(200);
    expect(await decideAt(a.url, userCode, alice)).toBe(404);
    const raced = await Promise.all(
      Array.from({ length: 20 }, (_, at) => pollAt([a, b][at % 2]?.url ?? '', deviceCode)),
    );
    const [got] = raced.filter(({ status }) => status === 200);
    expect(raced.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(19);
    expect(await useKey(b, got?.body.access_token ?? '')).toBe(200);

    const registered = await register(a);
    const clicked = await makeForConnection(b, registered.page(), alice);
    const { location } = (await clicked.json()) as { location: string };
    const code = new URL(location).searchParams.get('code') ?? '';
    const redeemed = await Promise.all([a, b, a, b].map((server) => redeemAt(server.url, registered, code)));
    expect(redeemed.filter(({ status }) => status === 200)).toHaveLength(1);
    expect((await callServer(a, 'list_api_keys', {}, alice)).body.keys).toHaveLength(2);
  }, 60_000);
});

test('kill -9 between request, decision and redemption loses nothing, and makes nothing twice', async () => {
  const options = { folder: temporaryFolder(), env: { ...ENV, JWT_SECRET: TEST_SECRET } };
  const alice = await userHeaders('alice');
  const first = await startServer(options);
  const { device_code: deviceCode, user_code: userCode } = await askAt(first.url);
  await first.kill();
  const second = await startServer(options);
  expect(await decideAt(second.url, userCode, alice)).toBe(200);
  await second.kill();
  const third = await startServer(options);
  const { body } = await pollAt(third.url, deviceCode);
  await third.kill();
  await using last = await startServer(options);
  expect((await pollAt(last.url, deviceCode)).body.error).toBe('invalid_grant');
  expect(await useKey(last, body.access_token ?? '')).toBe(200);
  expect((await callServer(last, 'list_api_keys', {}, alice)).body.keys).toHaveLength(1);
}, 60_000);

test('a client that was registered before a restart is known after it', async () => {
  const options = { folder: temporaryFolder(), env: { OAUTH_REDIRECTS: 'loopback' } };
  const before = await startServer(options);
  const { search } = (await register(before)).page();
  expect(await before.stop()).toBe(0);
  await using after = await startServer(options);
  const page = `${after.url}/authorize${search}`;
  expect((await fetch(page)).status).toBe(200);
  expect((await fetch(page.replace('client_id=W', 'client_id=V'))).status).toBe(400);
}, 60_000);

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

async function redeemAt(url: string, { clientId, verifier }: Registered, code: string) {
  const fields = { grant_type: 'authorization_code', code, code_verifier: verifier, client_id: clientId };
  const response = await fetch(`${url}/token`, { method: 'POST', body: new URLSearchParams(fields) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const mcp = (url: string, headers: Record<string, string>) =>
  fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'get_data' } }),
  });
