// Real proxies in front of two servers on one database, with their recipes as they stand here: TLS, who the client is,
// a server that is down, and /sse.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { userHeaders } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { folderWith, temporaryFolder } from '../support/folder.ts';
import { type FrontProxy, isMissing, type Program, startFrontProxy } from '../support/front-proxy.ts';
import { ACCEPT, eventReader, modern } from '../support/mcp.ts';
import { type ServerProcess, startServer, untilOpen } from '../support/server-process.ts';
import { startStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { toolFile } from '../support/tools.ts';
import { waitFor, waitForWithin } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const RECIPES: readonly (readonly [Program, string])[] = [
  ['caddy', 'in-front.Caddyfile'],
  ['nginx', 'in-front.conf'],
  ['haproxy', 'in-front.cfg'],
];
const BODY_BYTES_MAX = 1024 * 1024;

describe.each(RECIPES)('%s', (program, recipe) => {
  describe.skipIf(isMissing(program))('in front of two servers', () => {
    let servers: ServerProcess[];
    let proxy: FrontProxy;
    let alice: Record<string, string>;
    let env: Record<string, string>;
    beforeAll(async () => {
      const store = await startStore('embedded');
      env = {
        ...store.env(),
        NODE_ENV: 'production',
        JWT_SECRET: TEST_SECRET,
        TRUST_PROXY: '1',
        ACCESS_LOG: '1',
        ALLOWED_HOSTS: '127.0.0.1',
      };
      servers = [await startServer({ env }), await startServer({ env })];
      const [one, two] = servers.map(({ url }) => url);
      proxy = await startFrontProxy(program, recipe, { '127.0.0.1:3000': one ?? '', '127.0.0.1:3001': two ?? '' });
      alice = await userHeaders('alice');
    });
    afterAll(async () => {
      await proxy?.[Symbol.asyncDispose]();
      await Promise.all(servers?.map((server) => server.kill()) ?? []);
    });

    const post = (path: string, body: string, headers: Record<string, string>) =>
      proxy.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body });
    const call = (tool: string, input: object, headers: Record<string, string>) =>
      post(`/tools/${tool}`, JSON.stringify(input), headers);

    /** The processes that responded, by their share of lines in the access log. */
    const handledBy = () => servers.map((server) => server.stdout().split('"event":"request"').length - 1);

    const logs = () => servers.map((server) => server.stdout()).join('');

    /** What is logged of the request with this id. */
    const logLineOf = (id: string) => new RegExp(`^.*"requestId":"${id}".*\n`, 'm').exec(logs())?.[0];

    test('over TLS credentials are taken, by both servers', async () => {
      const before = handledBy();
      const { key } = (await (await call('create_api_key', { name: 'n', scopes: ['read'] }, alice)).json()) as {
        key: string;
      };
      for (let calls = 0; calls < 6; calls += 1) {
        const response = await call('get_data', {}, { 'x-api-key': key });
        expect(response.status).toBe(200);
        expect(response.headers.get('strict-transport-security')).toStartWith('max-age=');
      }
      await waitFor(() => handledBy().every((count, at) => count > (before[at] ?? 0)));
    });

    test('a token longer than any key reaches the server, which decides', async () => {
      const token = `eyJ${'x'.repeat(12_000)}.e30.x`;
      expect((await call('get_data', {}, { authorization: `Bearer ${token}` })).status).toBe(401);
    });

    test('the client’s address is the one that the proxy saw, whatever the client says', async () => {
      const id = 'of-a-forged-address';
      await proxy.fetch('/', { headers: { 'x-forwarded-for': '192.0.2.66', 'x-request-id': id } });
      await waitFor(() => logLineOf(id) !== undefined);
      expect(JSON.parse(logLineOf(id) ?? '')).toMatchObject({ event: 'request', address: '127.0.0.1' });
      expect(logs()).not.toContain('192.0.2.66');
    });

    test('no CONNECT reaches a server, after which the client would go on past the proxy', async () => {
      expect(await proxy.sendLines([`CONNECT ${new URL(proxy.url).host} HTTP/1.1`])).toMatch(/^HTTP\/1\.[01] 40[05] /);
      const id = 'after-a-connect';
      await proxy.fetch('/', { headers: { 'x-request-id': id } });
      await waitFor(() => logLineOf(id) !== undefined);
      expect(logs()).not.toContain('"CONNECT"');
    });

    test('a client can’t say that it came over HTTPS where it did not', async () => {
      const [server] = servers;
      const plain = await fetch(`${server?.url}/tools/list_api_keys`, { method: 'POST', headers: alice });
      expect(plain.status).toBe(403); // without the proxy's word
      const forged = await call('list_api_keys', {}, { ...alice, 'x-forwarded-proto': 'http' });
      expect(forged.status).toBe(200); // its own word comes after the client's
    });

    test('1 MiB passes, and the server itself refuses a byte more', async () => {
      const sized = (bytes: number) => `{"name":"${'x'.repeat(bytes)}"}`.slice(0, bytes - 2).concat('"}');
      for (const [bytes, code] of [
        [BODY_BYTES_MAX, 'invalid_input'],
        [BODY_BYTES_MAX + 1, 'payload_too_large'],
      ] as const) {
        const response = await post('/tools/create_api_key', sized(bytes), alice);
        expect(((await response.json()) as { code: string }).code).toBe(code);
      }
    });

    // Each time as another client.
    test('a body that is refused before its end takes no other client’s request with it', async () => {
      const body = join(temporaryFolder(), 'body');
      writeFileSync(body, 'x'.repeat(BODY_BYTES_MAX + 500_000));
      for (let round = 0; round < 3; round += 1) {
        await proxy.statusOverHttp2('/tools/get_data', '--json', `@${body}`);
        for (let calls = 0; calls < 2; calls += 1) {
          expect(await proxy.statusOverHttp2('/tools/get_data', '-X', 'POST')).toBe('401');
        }
      }
    });

    test('/sse: events come at once, and every message reaches the process that has the stream', async () => {
      const ended = new AbortController();
      const stream = await proxy.fetch('/sse', { headers: alice, signal: ended.signal });
      expect(stream.headers.get('content-type')).toBe('text/event-stream');
      const events = eventReader(stream.body as ReadableStream<Uint8Array>);
      const endpoint = (await events.next())?.data ?? '';
      for (let id = 1; id <= 6; id += 1) {
        const message = JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' });
        expect((await post(endpoint, message, alice)).status).toBe(202);
        expect(JSON.parse((await events.next())?.data ?? '')).toMatchObject({ id, result: {} });
      }
      ended.abort();
    });

    async function isReadFor(calls: number): Promise<void> {
      for (let call = 0; call < calls; call += 1) expect((await proxy.fetch('/openapi.json')).status).toBe(200);
    }

    // The others learn by their checks, every 2 s, that the first is there again.
    if (program === 'nginx') {
      test('of two that are restarted one soon after the other, one is always asked', async () => {
        for (const [at, server] of servers.entries()) {
          await server.stop();
          await isReadFor(4);
          servers[at] = await startServer({ env: { ...env, PORT: new URL(server.url).port } });
          await untilOpen(servers[at]);
        }
        await isReadFor(4);
      });
    }

    // Reads alone: a call that may have been made must not be made again, so it is the client's to repeat.
    test('one server is killed: what only reads is served by the other', async () => {
      await servers[1]?.kill();
      await isReadFor(8);
    });
  });
});

/** A tool that never ends, and is out of time a moment after others are. */
const WAITS = toolFile('waits', '() => new Promise<never>(() => {})').replace('run:', 'timeoutMs: 62_000, run:');
const waiting = folderWith({ 'tools/waits.ts': WAITS });

for (const [program, recipe] of RECIPES) {
  test.concurrent.skipIf(isMissing(program))(`${program} waits for a call that takes the longest time`, async () => {
    await using server = await startServer({ folder: waiting });
    const backends = { '127.0.0.1:3000': server.url, '127.0.0.1:3001': server.url };
    await using proxy = await startFrontProxy(program, recipe, backends);
    const answer = await proxy.fetch('/tools/waits', { method: 'POST' });
    expect(await answer.json()).toMatchObject({ status: 504, code: 'tool_timeout' });
  });
}

/** A tool that never ends, and says when it begins and when it is cancelled. */
const LEFT = toolFile(
  'left',
  `(_input, { signal }) => {
      console.error('the call begins');
      signal.addEventListener('abort', () => console.error('the call is cancelled'));
      return new Promise<never>(() => {});
    }`,
);
const leaving = folderWith({ 'tools/left.ts': LEFT });
/** Within this a call that nobody waits for must end: long before its own time is over. */
const LEFT_MS_MAX = 10_000;

for (const [program, recipe] of RECIPES) {
  test.skipIf(isMissing(program))(`${program}: a client that leaves cancels its call`, async () => {
    await using server = await startServer({ folder: leaving });
    const backends = { '127.0.0.1:3000': server.url, '127.0.0.1:3001': server.url };
    await using proxy = await startFrontProxy(program, recipe, backends);
    // With progress: at a stream Deno notices, too, that the client has left.
    const { body, headers } = modern('tools/call', { name: 'left', arguments: {} }, { progressToken: 1 });
    const leaves = new AbortController();
    const { signal } = leaves;
    const sent = { 'content-type': 'application/json', accept: ACCEPT, ...headers };
    const gone = proxy
      .fetch('/mcp', { method: 'POST', headers: sent, body: JSON.stringify(body), signal })
      .catch(() => {});
    await waitFor(() => server.stderr().includes('the call begins'));
    leaves.abort();
    await waitForWithin(LEFT_MS_MAX, () => server.stderr().includes('the call is cancelled'));
    await gone;
  });
}

test.skipIf(isMissing('caddy'))('Caddy with a CA of its own serves who trusts that, and nobody else', async () => {
  const [line] = /(?<=`)tls internal(?=`)/.exec(readDocument('tests/recipes/README.md').text) ?? [];
  expect(line).toBeDefined();
  await using server = await startServer({
    env: { NODE_ENV: 'production', JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1' },
  });
  await using proxy = await startFrontProxy('caddy', 'in-front.Caddyfile', { '127.0.0.1:3000': server.url }, (recipe) =>
    recipe.replace(/^keys\.example \{\n/m, `$&\t${line}\n`).replace(' 127.0.0.1:3001', ''),
  );
  const answer = await proxy.fetch('/tools/list_api_keys', { method: 'POST', headers: await userHeaders('alice') });
  expect(answer.status).toBe(200);
  await expect(fetch(proxy.url)).rejects.toThrow('certificate');
});
