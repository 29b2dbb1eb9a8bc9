// Several processes on one database hand out keys that are pasted: registered at one, asked for at another.
// places.slow.test.ts has keys that are made, lab/kills/handing-out.test.ts processes that are killed.

import { describe, expect, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startCluster, useKey } from '../support/cluster.ts';
import { rows } from '../support/everything.ts';
import { type Registered, register } from '../support/hand-over.ts';
import { type Runtime, USUAL_RUNTIME } from '../support/server-process.ts';
import type { StoreMode } from '../support/store-mode.ts';
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
