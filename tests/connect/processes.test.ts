// Several processes on one database hand out keys together: registered at one, asked for at another.

import { describe, expect, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startCluster, useKey } from '../support/cluster.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type Registered, register } from '../support/hand-over.ts';
import { type Runtime, startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import type { StoreMode } from '../support/store-mode.ts';
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
