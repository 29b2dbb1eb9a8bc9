// Real proxies in front of a service that echoes what it gets, with their recipes as they stand here: they ask /verify.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { lastYesAfter } from '../support/checked-service.ts';
import { childOf } from '../support/children.ts';
import { userOn } from '../support/client.ts';
import { type Echoed, type EchoService, startEcho } from '../support/echo.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type Backends, type FrontProxy, isMissing, type Program, startFrontProxy } from '../support/front-proxy.ts';
import { FORGED, IDENTITY } from '../support/identity.ts';
import { keysCommand } from '../support/keys-command.ts';
import { logOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { type Sqld, startSqld } from '../support/sqld.ts';
import { startStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor, waitForWithin } from '../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

/** More than the default, which a machine that does other things too may not keep. */
const LAG_MAX_MS = 2500;

/** Each has what is in its folder. */
const RECIPES: readonly (readonly [Program, string])[] = [
  ['caddy', 'verify.Caddyfile'],
  ['nginx', 'verify.conf'],
  ['haproxy', 'verify.cfg'],
];

const backends = (keys: ServerProcess, service: EchoService): Backends => ({
  '127.0.0.1:3000': keys.url,
  '127.0.0.1:8080': service.url,
});

const serverEnv = { JWT_SECRET: TEST_SECRET, TRUST_PROXY: '1', REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };

async function makeKey(url: string, input: object = {}, owner?: string): Promise<{ id: string; key: string }> {
  const { status, body } = await (await userOn({ url }, owner)).create(input);
  expect(status).toBe(200);
  return body;
}

/** A service that refuses a body before its end. */
function startEarlyService() {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ method }) => new Response(null, { status: method === 'POST' ? 413 : 200 }),
  });
  return { backend: { '127.0.0.1:8080': server.url.origin }, [Symbol.dispose]: () => void server.stop(true) };
}

/** Within this a service learns that its client has left: long before the proxy is out of time. */
const LEFT_MS_MAX = 10_000;

/** A service that never responds. */
function startPatientService() {
  let asked: AbortSignal | undefined;
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch({ signal }) {
      asked = signal;
      return new Promise<never>(() => {});
    },
  });
  return {
    backend: { '127.0.0.1:8080': server.url.origin },
    isAsked: () => asked !== undefined,
    isLeft: () => asked?.aborted === true,
    [Symbol.dispose]: () => void server.stop(true),
  };
}

/** A service that takes headers of any size, unlike Bun.serve. */
function startRoomyService() {
  const requests: IncomingHttpHeaders[] = [];
  const server = createServer({ maxHeaderSize: 1024 * 1024 }, ({ headers }, response) => {
    requests.push(headers);
    response.end();
  }).listen(0, '127.0.0.1');
  const { port } = server.address() as AddressInfo;
  const backend = { '127.0.0.1:8080': `http://127.0.0.1:${port}` };
  return { requests, backend, close: () => server.closeAllConnections() };
}

describe.each(RECIPES)('%s', (program, recipe) => {
  describe.skipIf(isMissing(program))('in front of a service', () => {
    let sqld: Sqld;
    let keys: ServerProcess;
    let service: EchoService;
    let proxy: FrontProxy;
    beforeAll(async () => {
      sqld = await startSqld();
      const env = { ...serverEnv, ...sqld.env, RATE_LIMIT_REQUESTS: '20', RATE_LIMIT_WINDOW: '366d', ACCESS_LOG: '1' };
      keys = await startServer({ env });
      service = startEcho();
      proxy = await startFrontProxy(program, recipe, backends(keys, service));
    });
    afterAll(async () => {
      await proxy?.[Symbol.asyncDispose]();
      service?.[Symbol.dispose]();
      await keys?.[Symbol.asyncDispose]();
      await sqld?.[Symbol.asyncDispose]();
    });

    /** The status, and what reached the service, if anything did. */
    async function ask(headers: Record<string, string>, init: RequestInit = {}, path = '/orders?page=2') {
      const before = service.requests.length;
      const response = await proxy.fetch(path, { ...init, headers: { ...FORGED, ...headers } });
      await response.text();
      return { response, status: response.status, reached: service.requests.slice(before) };
    }

    test('a good key: the service gets who it is, the request as it was, and no key', async () => {
      const { id, key } = await makeKey(keys.url, { name: '100% "ü" 😀' }, 'alice@example.com');
      const traceId = 'ab'.repeat(16);
      const told = {
        traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
        'user-agent': 'shop/1',
        'x-request-id': 'order-7',
      };
      for (const sent of [{ 'x-api-key': key }, { authorization: `Bearer ${key}` }] as Record<string, string>[]) {
        const { status, reached } = await ask({ ...sent, ...told }, { method: 'POST', body: 'the body' });
        expect(status).toBe(200);
        expect(reached).toHaveLength(1);
        const [{ method, path, headers, body } = {} as Echoed] = reached;
        expect({ method, path, body }).toEqual({ method: 'POST', path: '/orders?page=2', body: 'the body' });
        expect(IDENTITY.map((name) => headers[name] ?? '')).toEqual([
          id,
          'alice@example.com',
          '100%25%20%22%C3%BC%22%20%F0%9F%98%80',
          'read',
          '',
          '',
          '',
        ]);
        expect(headers['x-api-key'] ?? headers.authorization ?? '').toBe('');
        expect(JSON.stringify(reached)).not.toContain(key);
        expect(JSON.stringify(reached)).not.toContain('forged');
      }
      const ofKey = () => logOf(keys).filter(({ event, keyId }) => event === 'request' && keyId === id);
      await waitFor(() => ofKey().length === 2);
      for (const line of ofKey())
        expect(line).toMatchObject({ route: '/verify', traceId, userAgent: 'shop/1', requestId: 'order-7' });
    });

    test('a client can take no identity header away by naming it in Connection', async () => {
      const { id, key } = await makeKey(keys.url);
      for (const named of [
        IDENTITY.join(','),
        'x-KEY-id ,\tX-Key-Owner, x-key-SCOPES',
        'xx-key-a-key-id, X-Key-Owner',
      ]) {
        const before = service.requests.length;
        const lines = ['GET /orders HTTP/1.1', `X-API-Key: ${key}`, `Connection: ${named}`];
        expect(await proxy.sendLines(lines)).toStartWith('HTTP/1.1 200');
        const [{ headers } = {} as Echoed] = service.requests.slice(before);
        expect([headers?.['x-key-id'], headers?.['x-key-owner'], headers?.['x-key-scopes']]).toEqual([
          id,
          'alice',
          'read',
        ]);
        expect(headers?.connection ?? '').not.toMatch(/x-key/i); // for a service that is a proxy itself
      }
    });

    // With nginx's recipe the service speaks HTTP/1.0, which has no upgrade.
    if (program !== 'nginx') {
      test('a request for a web socket comes as one, also from a client that names an identity header', async () => {
        const { id, key } = await makeKey(keys.url);
        for (const named of ['Upgrade', 'Upgrade, X-Key-Id', 'x-key-id ,upgrade']) {
          const before = service.requests.length;
          const socket = [
            'Upgrade: websocket',
            'Sec-WebSocket-Version: 13',
            `Sec-WebSocket-Key: ${btoa('x'.repeat(16))}`,
          ];
          await proxy.sendLines(['GET /orders HTTP/1.1', `X-API-Key: ${key}`, `Connection: ${named}`, ...socket]);
          const [{ headers } = {} as Echoed] = service.requests.slice(before);
          expect([headers?.['x-key-id'], headers?.upgrade]).toEqual([id, 'websocket']);
          expect(headers?.connection).toMatch(/\bupgrade\b/i);
        }
      });
    }

    test('no request asks the service for HTTP/2 on its connection, on which the client would go on unasked', async () => {
      const { id, key } = await makeKey(keys.url);
      for (const named of [['Upgrade: h2c'], ['Upgrade: H2C, websocket'], ['Upgrade: websocket', 'Upgrade: h2c']]) {
        const before = service.requests.length;
        const upgrade = ['Connection: Upgrade', ...named, 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA'];
        await proxy.sendLines(['GET /orders HTTP/1.1', `X-API-Key: ${key}`, ...upgrade]);
        for (const { headers } of service.requests.slice(before)) {
          expect([headers['x-key-id'], headers.upgrade]).toEqual([id, undefined]);
        }
      }
    });

    test('no CONNECT reaches the service, after which the client would go on unasked', async () => {
      const { key } = await makeKey(keys.url);
      const before = service.requests.length;
      const answer = await proxy.sendLines([`CONNECT ${new URL(proxy.url).host} HTTP/1.1`, `X-API-Key: ${key}`]);
      expect(answer).toMatch(/^HTTP\/1\.[01] 40[05] /);
      expect(service.requests.slice(before)).toEqual([]);
    });

    // nginx speaks HTTP/2 only where its configuration says so.
    if (program !== 'nginx') {
      test('a body that is refused before its end takes no other client’s request with it', async () => {
        using early = startEarlyService();
        await using front = await startFrontProxy(program, recipe, { ...backends(keys, service), ...early.backend });
        const [mallory, alice] = [await makeKey(keys.url), await makeKey(keys.url)];
        const body = join(temporaryFolder(), 'body');
        writeFileSync(body, 'x'.repeat(1_500_000));
        for (let round = 0; round < 3; round += 1) {
          await front.statusOverHttp2('/orders', '-H', `X-API-Key: ${mallory.key}`, '--data-binary', `@${body}`);
          for (let calls = 0; calls < 2; calls += 1) {
            expect(await front.statusOverHttp2('/orders', '-H', `X-API-Key: ${alice.key}`)).toBe('200');
          }
        }
      });
    }

    test('a client that leaves: the service learns it', async () => {
      const { key } = await makeKey(keys.url);
      using patient = startPatientService();
      await using front = await startFrontProxy(program, recipe, { ...backends(keys, service), ...patient.backend });
      const leaves = new AbortController();
      const answer = front.fetch('/', { headers: { 'x-api-key': key }, signal: leaves.signal });
      await waitFor(patient.isAsked);
      leaves.abort();
      await expect(answer).rejects.toThrow('abort');
      await waitForWithin(LEFT_MS_MAX, patient.isLeft);
    });

    test('the service gets the address and the protocol that the proxy saw, whatever the client says', async () => {
      const { key } = await makeKey(keys.url);
      const forged = { 'x-forwarded-for': '192.0.2.66', 'x-forwarded-proto': 'forged' };
      const [{ headers } = {} as Echoed] = (await ask({ ...forged, 'x-api-key': key })).reached;
      expect(headers?.['x-forwarded-for']?.split(', ').at(-1)).toBe('127.0.0.1');
      expect(headers?.['x-forwarded-proto']).toBe('https');
    });

    test('a child: the service gets whose it is', async () => {
      const parent = await makeKey(keys.url, { scopes: ['read', 'delegate'] });
      const child = await childOf(keys, parent.key);
      const { status, reached } = await ask({ 'x-api-key': child.key });
      const headers = { 'x-key-id': child.id, 'x-key-parent': parent.id };
      expect({ status, reached }).toMatchObject({ status: 200, reached: [{ headers }] });
    });

    test('a proxy that leaves an empty identity header out passes on none of the client', async () => {
      const nothingCopied = (text: string) =>
        text.replace(/^.*copy_headers.*$/m, '').replace(/^local IDENTITY = [^}]*/m, 'local IDENTITY = {');
      await using forgetful = await startFrontProxy(program, recipe, backends(keys, service), nothingCopied);
      const { key } = await makeKey(keys.url);
      const before = service.requests.length;
      const { status } = await forgetful.fetch('/orders', { headers: { ...FORGED, 'x-api-key': key } });
      expect(status).toBe(200);
      expect(service.requests.slice(before)).toHaveLength(1);
      expect(JSON.stringify(service.requests.slice(before))).not.toContain('forged');
    });

    test('identity headers at their largest come through whole, or the request does not', async () => {
      const [owner, name] = ['😀'.repeat(255), '😀'.repeat(200)];
      const scopes = [
        'read',
        ...Array.from({ length: 19 }, (_, at) => `${at}`.padStart(99, 'x')),
        'x'.repeat(115 - 19),
      ];
      const { id, key } = await makeKey(keys.url, { name, scopes, expiresInDays: 1 }, owner);
      const metadataOf = (prefix: string) =>
        Array.from({ length: 5 }, (_, at) => `${prefix}${at}=${'x'.repeat(175)}`).flatMap((pair) => ['--meta', pair]);
      expect((await keysCommand(sqld.env, ['update', id, '--limit', '500/1h', ...metadataOf('k')])).code).toBe(0);
      expect((await keysCommand(sqld.env, ['owner', owner, ...metadataOf('o')])).code).toBe(0);
      let identity: string[] = [];
      await waitForWithin(LAG_MAX_MS, async () => {
        const { headers } = await fetch(`${keys.url}/verify`, { headers: { 'x-api-key': key } });
        identity = IDENTITY.map((header) => headers.get(header) ?? '');
        return (identity[5]?.length ?? 0) > 1900;
      });
      expect(identity.slice(1, 4)).toEqual([encodeURIComponent(owner), encodeURIComponent(name), scopes.join(' ')]);

      // A client chooses how much room its own headers leave.
      const roomy = startRoomyService();
      await using front = await startFrontProxy(program, recipe, { ...backends(keys, service), ...roomy.backend });
      const statuses: number[] = [];
      for (let sent = 0; sent <= 30; sent += 2) {
        const filling = Object.fromEntries(Array.from({ length: sent }, (_, at) => [`fill-${at}`, 'x'.repeat(990)]));
        const { status } = await front.fetch('/orders', { headers: { ...FORGED, ...filling, 'x-api-key': key } });
        statuses.push(status);
        const reached = roomy.requests.splice(0);
        expect({ sent, identities: reached.map((of) => IDENTITY.map((header) => of[header] ?? '')) }).toEqual({
          sent,
          identities: status === 200 ? [identity] : [],
        });
      }
      roomy.close();
      expect(statuses.slice(0, 3)).toEqual([200, 200, 200]);
      expect(statuses).toContain(431); // not each time: a reset can overtake the key server's own
    });

    test('what the service itself responds comes through', async () => {
      const { key } = await makeKey(keys.url);
      for (const status of [201, 401, 403, 429, 500, 503]) {
        const path = `/orders?status=${status}`;
        expect(await ask({ 'x-api-key': key }, {}, path)).toMatchObject({ status, reached: [{ path }] });
      }
    });

    test('no key, a wrong one, a wrong token of any length: 401, and the service hears nothing', async () => {
      const wrong = ['wrong', `sk_test_${'0'.repeat(64)}`, `eyJ${'x'.repeat(12_000)}.e30.x`];
      for (const headers of [{}, ...wrong.map((key) => ({ 'x-api-key': key }))]) {
        const { status, response, reached } = await ask(headers as Record<string, string>);
        expect({ status, reached }).toEqual({ status: 401, reached: [] });
        expect(response.headers.get('www-authenticate')).toStartWith('Bearer ');
      }
    });

    test('as many keys as a request may have lines: 401, and the proxy goes on', async () => {
      const { key } = await makeKey(keys.url);
      for (let lines = 94; lines <= 99; lines += 1) {
        const before = service.requests.length;
        const answer = await proxy.sendLines([
          'GET /orders HTTP/1.1',
          ...Array<string>(lines).fill('X-API-Key: wrong'),
        ]);
        expect(answer).toMatch(/^HTTP\/1\.1 40[01] /);
        expect(service.requests.slice(before)).toEqual([]);
      }
      expect((await ask({ 'x-api-key': key })).status).toBe(200);
    });

    test('a key without the scope: 403, also when the client demands more than it has', async () => {
      const other = await makeKey(keys.url, { scopes: ['write'] });
      expect(await ask({ 'x-api-key': other.key })).toMatchObject({ status: 403, reached: [] });
      const { key } = await makeKey(keys.url);
      expect(await ask({ 'x-api-key': key, 'x-required-scope': 'admin' })).toMatchObject({ status: 403, reached: [] });
    });

    test('over the limit: 429 with Retry-After', async () => {
      const { key } = await makeKey(keys.url);
      for (let calls = 0; calls < 20; calls += 1) expect((await ask({ 'x-api-key': key })).status).toBe(200);
      const { status, response, reached } = await ask({ 'x-api-key': key });
      expect({ status, reached }).toEqual({ status: 429, reached: [] });
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(response.headers.get('ratelimit')).toMatch(/^"key";r=0;t=\d+$/);
      expect(response.headers.get('ratelimit-policy')).toBe(`"key";q=20;w=${366 * 86_400}`);
    });

    test('a success says what is left of the limit, and a key without one has none', async () => {
      const forged = { ratelimit: 'forged', 'ratelimit-policy': 'forged' };
      const { key } = await makeKey(keys.url);
      const { response, reached } = await ask({ ...forged, 'x-api-key': key }, { method: 'POST', body: 'x' });
      expect(response.headers.get('ratelimit')).toMatch(/^"key";r=19;t=\d+$/);
      expect(response.headers.get('ratelimit-policy')).toBe(`"key";q=20;w=${366 * 86_400}`);
      expect(reached).toHaveLength(1);

      await using unlimited = await startServer({ env: { ...serverEnv, RATE_LIMIT_REQUESTS: '0' } });
      await using other = await startFrontProxy(program, recipe, backends(unlimited, service));
      const free = await makeKey(unlimited.url);
      const { status, headers } = await other.fetch('/orders', { headers: { ...forged, 'x-api-key': free.key } });
      expect(status).toBe(200);
      expect(headers.has('ratelimit')).toBe(false);
      expect(headers.has('ratelimit-policy')).toBe(false);
    });

    test('preflights of a known page are answered by the proxy, any other OPTIONS needs a key', async () => {
      const preflight = { origin: 'https://page.example', 'access-control-request-method': 'POST' };
      const options = (headers: Record<string, string>) => ask(headers, { method: 'OPTIONS' });
      const { response, status, reached } = await options(preflight);
      expect({ status, reached }).toEqual({ status: 204, reached: [] });
      expect(response.headers.get('access-control-allow-origin')).toBe('https://page.example');
      expect(response.headers.get('access-control-allow-headers')).toContain('X-API-Key');
      expect(await options({})).toMatchObject({ status: 401, reached: [] });
      expect(await options({ ...preflight, origin: 'https://evil.example' })).toMatchObject({
        status: 401,
        reached: [],
      });
      const { key } = await makeKey(keys.url);
      expect(await options({ 'x-api-key': key })).toMatchObject({ status: 200, reached: [{ method: 'OPTIONS' }] });
    });

    test('the database is frozen: 503 with Retry-After, and the service hears nothing', async () => {
      const { key } = await makeKey(keys.url);
      expect((await ask({ 'x-api-key': key })).status).toBe(200);
      sqld.freeze();
      await waitForWithin(LAG_MAX_MS, async () => (await ask({ 'x-api-key': key })).status === 503);
      const { status, response, reached } = await ask({ 'x-api-key': key });
      sqld.thaw();
      expect({ status, reached }).toEqual({ status: 503, reached: [] });
      expect(response.headers.get('retry-after')).toBe('1');
    });

    test('the key server is frozen: no request gets through, and none waits on', async () => {
      const impatient = (text: string) => text.replace(/(?<=(?:_timeout|TIMEOUT_MS =) )5/, '1');
      await using front = await startFrontProxy(program, recipe, backends(keys, service), impatient);
      const { key } = await makeKey(keys.url);
      const before = service.requests.length;
      keys.signal('SIGSTOP');
      const { status } = await front.fetch('/orders', { headers: { 'x-api-key': key } });
      keys.signal('SIGCONT');
      expect(status).toBe(program === 'nginx' ? 503 : 504);
      expect(service.requests.slice(before)).toEqual([]);
    });

    test('the key server is gone: no request gets through', async () => {
      const { key } = await makeKey(keys.url);
      await keys.kill();
      const { status, reached } = await ask({ 'x-api-key': key });
      expect(status).toBe(program === 'caddy' ? 502 : 503);
      expect(reached).toEqual([]);
    });
  });

  if (program === 'haproxy') {
    test.skipIf(isMissing(program))('where the script fails no request gets through', async () => {
      await using keys = await startServer({ env: serverEnv });
      using echo = startEcho();
      const failing = (text: string) => text.replace('core.httpclient():get', "error('no memory')");
      await using front = await startFrontProxy(program, recipe, backends(keys, echo), failing);
      const { key } = await makeKey(keys.url);
      for (const headers of [{}, { 'x-api-key': key }] as Record<string, string>[]) {
        expect((await front.fetch('/orders', { headers })).status).toBe(503);
      }
      expect(echo.requests).toEqual([]);
    });
  }

  test.skipIf(isMissing(program))(
    'a key that another process revoked gets through no longer than the bound',
    async () => {
      const boundMs = 250;
      await using store = await startStore('embedded');
      const env = { ...serverEnv, ...store.env(), RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: String(boundMs) };
      await using here = await startServer({ env });
      await using there = await startServer({ env });
      using echo = startEcho();
      await using proxy = await startFrontProxy(program, recipe, backends(there, echo));
      const alice = await userOn(here);
      const { id, key } = (await alice.create()).body;
      const letsIn = async () => (await proxy.fetch('/', { headers: { 'x-api-key': key } })).status === 200;
      while (!(await letsIn())) await Bun.sleep(10); // a busy machine may respond 503 for a while
      const ended = alice.revoke(id);
      const last = await Promise.all(Array.from({ length: 4 }, () => lastYesAfter(() => ended, letsIn, 3 * boundMs)));
      expect(await ended).toBe(200);
      expect(Math.max(...last)).toBeLessThanOrEqual(boundMs);
    },
  );
});
