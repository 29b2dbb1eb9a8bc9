// An MCP server of somebody's own, without any authentication, behind Caddy and the recipe as it stands here: official
// clients sign in with a key, and the server never sees it.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { callOver, userHeaders, userOn } from '../support/client.ts';
import { type FrontProxy, isMissing, startFrontProxy } from '../support/front-proxy.ts';
import { handOver, register } from '../support/hand-over.ts';
import { FORGED } from '../support/identity.ts';
import { createSignIn } from '../support/oauth-client.ts';
import { isUnauthorized, OVER_HTTP, signedIn } from '../support/oauth-clients.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { freePorts } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitForWithin } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const LAG_MAX_MS = 1000;

/** An MCP server in a few lines: one tool, which says whose key it was called with. */
function startOwnServer(seen: Headers[]) {
  const results: Readonly<Record<string, (headers: Headers) => object>> = {
    initialize: () => ({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'own', version: '1' },
    }),
    'tools/list': () => ({ tools: [{ name: 'whose', inputSchema: { type: 'object' } }] }),
    'tools/call': (headers) => ({
      content: [{ type: 'text', text: `${headers.get('x-key-owner')} ${headers.get('x-key-id')}` }],
    }),
  };
  return Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      seen.push(new Headers(request.headers));
      if (request.method !== 'POST') return new Response(null, { status: 405 });
      const { id, method } = (await request.json()) as { id?: number; method: string };
      if (id === undefined) return new Response(null, { status: 202 });
      return Response.json({ jsonrpc: '2.0', id, result: results[method]?.(request.headers) ?? {} });
    },
  });
}

const WHOSE = { name: 'whose', arguments: {} };

describe.skipIf(isMissing('caddy'))('an MCP server without authentication, behind Caddy', () => {
  let keys: ServerProcess;
  let proxy: FrontProxy;
  let own: ReturnType<typeof startOwnServer>;
  const seen: Headers[] = [];
  beforeAll(async () => {
    const [port = 0] = freePorts(1);
    const keysUrl = `http://127.0.0.1:${port}`;
    own = startOwnServer(seen);
    proxy = await startFrontProxy(
      'caddy',
      'connect.Caddyfile',
      { '127.0.0.1:3000': keysUrl, '127.0.0.1:8080': own.url.href },
      (recipe) => recipe.replaceAll('"https://keys.example"', `"${keysUrl}"`),
    );
    const env = {
      PORT: String(port),
      JWT_SECRET: TEST_SECRET,
      TRUST_PROXY: '1',
      REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
      OAUTH_REDIRECTS: 'loopback',
      OAUTH_RESOURCES: `${proxy.url}/mcp`,
    };
    keys = await startServer({ env });
  });
  afterAll(async () => {
    await proxy?.[Symbol.asyncDispose]();
    await own?.stop(true);
    await keys?.[Symbol.asyncDispose]();
  });

  /** Bound to the service unless told otherwise. */
  const create = async (
    scopes: readonly string[],
    resource: object = { resource: `${proxy.url}/mcp` },
  ): Promise<{ id: string; key: string }> => (await (await userOn(keys)).create({ scopes, ...resource })).body;

  test.each(OVER_HTTP)(
    '%s signs in, calls its tool, and is refused within the bound of a revocation',
    async (_, kind) => {
      const { id, key } = await create(['read']);
      const url = new URL(`${proxy.url}/mcp`);
      const signIn = createSignIn((page) => handOver(page, { key }));
      const client = await signedIn(kind, url, signIn, proxy.fetchAny);
      expect(await client.callTool(WHOSE)).toMatchObject({ content: [{ text: `alice ${id}` }] });
      for (const headers of seen) {
        expect([headers.get('authorization'), headers.get('x-api-key')]).toEqual([null, null]);
        expect(JSON.stringify([...headers])).not.toContain(key);
      }

      await callOver(keys.url, 'revoke_api_key', { keyId: id }, await userHeaders('alice'));
      const isRefused = async () => isUnauthorized(await client.callTool(WHOSE).catch((error: unknown) => error));
      await waitForWithin(LAG_MAX_MS, isRefused);
      await client.close();
    },
  );

  test('a key that is bound to it is good there alone; one that is not is not handed to it, and one bound elsewhere no good', async () => {
    const post = async (key: string) =>
      (await proxy.fetch('/mcp', { method: 'POST', headers: { ...FORGED, 'x-api-key': key }, body: '{"method":"x"}' }))
        .status;
    const [bound, unbound] = [await create(['read']), await create(['read'], {})];
    const here = await create(['read'], { resource: `${keys.url}/mcp` });
    expect([await post(bound.key), await post(unbound.key), await post(here.key)]).toEqual([202, 202, 401]);
    expect(JSON.stringify(seen.map((headers) => [...headers]))).not.toContain('forged');
    const used = await Promise.all(
      [bound, unbound, here].map(({ key }) => callOver(keys.url, 'get_data', {}, { 'x-api-key': key })),
    );
    expect(used.map(({ status }) => status)).toEqual([401, 200, 200]);
    const page = (await register(keys)).page({ resource: `${proxy.url}/mcp` });
    const pasted = await Promise.all([bound, unbound, here].map(({ key }) => handOver(page, { key })));
    expect(pasted.map(({ status }) => status)).toEqual([303, 403, 403]);
  });

  test('a client can take no identity header away by naming it in Connection', async () => {
    const { id, key } = await create(['read']);
    const before = seen.length;
    const named = 'Connection: x-key-ID, X-Key-Owner, X-Key-Metadata';
    await proxy.sendLines(['GET /mcp HTTP/1.1', `X-API-Key: ${key}`, named]);
    const [headers] = seen.slice(before);
    expect([headers?.get('x-key-id'), headers?.get('x-key-owner')]).toEqual([id, 'alice']);
  });

  test('no CONNECT reaches the service, after which the client would go on unasked', async () => {
    const { key } = await create(['read']);
    const before = seen.length;
    const answer = await proxy.sendLines(['CONNECT /mcp HTTP/1.1', `X-API-Key: ${key}`]);
    expect([answer.split('\r\n')[0], seen.length]).toEqual(['HTTP/1.1 405 Method Not Allowed', before]);
  });

  test('a refusal names the service’s own metadata, which names the key server; one for want of scopes is no challenge', async () => {
    const metadata = `${proxy.url}/.well-known/oauth-protected-resource/mcp`;
    const post = (headers: Record<string, string>) =>
      proxy.fetch('/mcp', { method: 'POST', headers: { ...FORGED, ...headers }, body: '{}' });
    const none = await post({});
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([
      401,
      `Bearer realm="mcp-key-server", scope="read", resource_metadata="${metadata}"`,
    ]);
    const wrong = await post({ authorization: 'Bearer x' });
    expect(wrong.headers.get('www-authenticate')).toBe(
      `Bearer error="invalid_token", error_description="Invalid or expired API key", scope="read", resource_metadata="${metadata}"`,
    );
    const { key } = await create(['write']);
    const denied = await post({ authorization: `Bearer ${key}` });
    expect([denied.status, denied.headers.get('www-authenticate')]).toEqual([403, null]);
    expect(await (await proxy.fetch(new URL(metadata).pathname)).json()).toEqual({
      resource: `${proxy.url}/mcp`,
      authorization_servers: [keys.url],
      bearer_methods_supported: ['header'],
      scopes_supported: ['read'],
    });
  });
});
