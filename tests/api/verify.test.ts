// /verify, asked as a proxy asks: any method, with the original request's headers.

import { describe, expect, test } from 'bun:test';
import { databaseOf, executeAt } from '../support/database-client.ts';
import { openHttpSocket } from '../support/http-socket.ts';
import { FORGED, IDENTITY } from '../support/identity.ts';
import { labelled } from '../support/labels.ts';
import { type SlowStore, startSlowStore } from '../support/slow-store.ts';
import {
  bearer,
  COUNTED,
  createTestApp,
  metricsOf,
  NO_CONNECTION,
  readResponse,
  sharedApp,
  type TestApp,
  type TestResponse,
} from '../support/test-app.ts';

const app = await sharedApp();
const { key } = await app.createKey('alice', { scopes: ['read', 'write'], expiresInDays: 1 });
const limited = await sharedApp({ env: { RATE_LIMIT_REQUESTS: '2' } });

const ask = async (
  headers: Record<string, string> = {},
  { path = '/verify', of = app, method = 'GET' }: { path?: string; of?: TestApp; method?: string } = {},
): Promise<TestResponse> => readResponse(await fetch(of.url + path, { method, headers: { ...FORGED, ...headers } }));

const identityOf = ({ headers }: TestResponse) => IDENTITY.map((name) => headers.get(name));
const NO_IDENTITY = IDENTITY.map(() => '');

function expectRefused(response: TestResponse, status: number, code: string) {
  expect({ status: response.status, code: response.body.code }).toEqual({ status, code });
  expect(identityOf(response)).toEqual(NO_IDENTITY);
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(response.headers.get('content-type')).toBe('application/problem+json');
}

describe('a good key', () => {
  test('is 200 without a body, with who is behind it and what is left of its limit', async () => {
    await using fresh = await createTestApp();
    const made = await fresh.createKey('alice', { name: 'ci', scopes: ['read', 'write'], expiresInDays: 1 });
    const response = await ask({ 'x-api-key': made.key }, { of: fresh });
    expect(response.status).toBe(200);
    expect(response.body).toBe('');
    expect(identityOf(response)).toEqual([made.id, 'alice', 'ci', 'read write', '2026-01-03T03:00:00.000Z', '', '']);
    expect(response.headers.get('ratelimit-policy')).toBe('"key";q=1000;w=3600');
    expect(response.headers.get('ratelimit')).toBe('"key";r=999;t=3600');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-type')).toBeNull();
  });

  test('counts against the limit that tools have, and its use is noted', async () => {
    await using fresh = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '2' } });
    const made = await fresh.createKey('alice');
    await ask({ 'x-api-key': made.key }, { of: fresh });
    expect((await fresh.useKey(made.key)).headers.get('ratelimit')).toStartWith('"key";r=0;');
    fresh.clock.advance(1);
    const refused = await ask({ 'x-api-key': made.key }, { of: fresh });
    expectRefused(refused, 429, 'rate_limited');
    expect(refused.headers.get('ratelimit')).toBe('"key";r=0;t=3600');
    expect(refused.headers.get('retry-after')).toBe('3600');
    const { body } = await fresh.call('list_api_keys', {}, await bearer(fresh, 'alice'));
    expect(body.keys[0].lastUsedAt).toBe(fresh.clock.nowMs());
  });

  test('costs no read and no write of the store once it is known', async () => {
    await using counted = await createTestApp({ env: COUNTED });
    const made = await counted.createKey('alice', { scopes: ['introspect'] });
    const headers = { 'x-api-key': made.key };
    const asked = async () =>
      (await metricsOf(counted.url)).match(/^mcp_keys_store_duration_seconds_count.* [1-9]\d*$/gm);
    expect((await ask(headers, { of: counted })).status).toBe(200);
    const before = await asked();
    expect(before).not.toBeEmpty();
    for (let calls = 0; calls < 20; calls += 1) {
      expect((await ask(headers, { of: counted })).status).toBe(200);
      const body = new URLSearchParams({ token: made.key });
      expect((await fetch(`${counted.url}/introspect`, { method: 'POST', headers, body })).status).toBe(200);
    }
    expect(await asked()).toEqual(before);
  });

  test('a key without expiry or scopes has those headers empty; a limit switched off adds none', async () => {
    await using unlimited = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
    const made = await unlimited.createKey('alice', { scopes: [] });
    const response = await ask({ 'x-api-key': made.key }, { of: unlimited });
    expect(response.status).toBe(200);
    expect(identityOf(response)).toEqual([made.id, 'alice', 'test%20key', '', '', '', '']);
    expect(response.headers.has('ratelimit')).toBe(false);
  });

  test('two keys in a row each get their own identity headers', async () => {
    const bob = await app.createKey('bob', { scopes: [] });
    const [first, second, third] = [
      await ask({ 'x-api-key': key }),
      await ask({ 'x-api-key': bob.key }),
      await ask({ 'x-api-key': key }),
    ];
    expect(identityOf(second)).toEqual([bob.id, 'bob', 'test%20key', '', '', '', '']);
    expect(identityOf(third)).toEqual(identityOf(first));
  });
});

test('an id that was typed into the database is percent-encoded', async () => {
  await using file = await createTestApp({ store: 'embedded' });
  for (const [id, encoded] of [
    ['from\nthe shell', 'from%0Athe%20shell'],
    ['a\rb', 'a%0Db'],
    [' ', '%20'],
    ['schlüssel-1', 'schl%C3%BCssel-1'],
    ['key-1', 'key-1'],
  ] as const) {
    const made = await file.createKey('alice', { scopes: ['read'] });
    await executeAt(databaseOf(file), { sql: 'UPDATE api_keys SET id = ? WHERE id = ?', args: [id, made.id] });
    const response = await ask({ 'x-api-key': made.key }, { of: file });
    expect(response.status).toBe(200);
    expect(identityOf(response)).toEqual([encoded, 'alice', 'test%20key', 'read', '', '', '']);
  }
});

test('a body or a query is not looked at', async () => {
  const body = JSON.stringify({ _meta: { api_key: key } });
  const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body };
  expectRefused(await readResponse(await fetch(`${app.url}/verify?api_key=${key}`, sent)), 401, 'missing_api_key');
  const huge = { method: 'POST', headers: { 'content-type': 'text/plain', 'x-api-key': key }, body: 'x'.repeat(2e6) };
  expect((await fetch(`${app.url}/verify`, huge)).status).toBe(200);
});

describe('scopes', () => {
  const demand = async (query: string, header?: string) =>
    ask({ 'x-api-key': key, ...(header !== undefined && { 'x-required-scope': header }) }, { path: `/verify${query}` });

  test.each([
    ['?scope=read', undefined],
    ['?scope=read&scope=write', undefined],
    ['?scope=read%20write', undefined],
    ['?scope=read&scope=read', 'read'],
    ['', 'read write'],
    ['', ' write  read '],
    ['', ''],
    ['?path=&scope=', undefined],
    ['?path=/../x?scope', undefined],
    ['?path=/x&scope=admin', 'read write'],
    ['?scopes=admin&SCOPE=admin', undefined],
  ])('%s with the header %p: held', async (query, header) => {
    expect((await demand(query, header)).status).toBe(200);
  });

  test.each([
    ['?scope=admin', undefined, 'admin'],
    ['?scope=read&scope=admin', undefined, 'read admin'],
    ['?scope=read', 'admin', 'read admin'],
    ['?scope=admin', 'read', 'admin read'],
    ['', 'read admin', 'read admin'],
    ['?scope=READ', undefined, 'READ'],
    ['?scope=admin&path=/x&scope=x', 'read write', 'admin read write'],
  ])('%s with the header %p: refused', async (query, header, required) => {
    const response = await demand(query, header);
    expectRefused(response, 403, 'insufficient_scope');
    expect(response.headers.get('www-authenticate')).toContain(`scope="${required}"`);
    expect(response.headers.get('ratelimit')).toStartWith('"key";r=');
  });

  test.each(
    labelled([
      '?scope=%22',
      '?scope=%0d%0aX-Key-Owner:root',
      '?scope=%00',
      '?scope=%ff',
      '?scope=ü',
      `?scope=${'x'.repeat(101)}`,
    ]),
  )('what is no scope is held by nobody, and not sent back: %s', async (_label, query) => {
    const response = await demand(query);
    expectRefused(response, 403, 'insufficient_scope');
    expect(response.headers.get('www-authenticate')).toBe(
      'Bearer error="insufficient_scope", error_description="Insufficient permissions"',
    );
  });

  test.each([
    '?scope=',
    '?scope',
    '?scope=%20',
    '?scope=+',
    '?scope=read&scope=',
    '?scope=&scope=read',
    '?scope=&path=/x',
  ])('an empty one admits no key, whatever else is demanded: %s', async (query) => {
    const response = await demand(query, 'read');
    expectRefused(response, 400, 'invalid_input');
    expect(response.body.issues).toEqual([{ path: 'scope', message: 'Expected a scope' }]);
  });

  test.each(['?scope=', '?scope=&scope=read', '?cost=0', '?cost=1&cost=2', '?cost='])(
    'the key, its limit and its scopes come before what is wrong with the request: %s',
    async (query) => {
      const askFor = (more: string, headers: Record<string, string>) =>
        ask(headers, { of: limited, path: `/verify${query}${more}` });
      expectRefused(await askFor('', {}), 401, 'missing_api_key');
      expectRefused(await askFor('', { 'x-api-key': 'nonsense' }), 401, 'invalid_api_key');
      const headers = { 'x-api-key': (await limited.createKey('alice', { scopes: ['read'] })).key };
      expectRefused(await askFor('&scope=admin', headers), 403, 'insufficient_scope');
      const mistaken = await askFor('', headers);
      expectRefused(mistaken, 400, 'invalid_input');
      expect(mistaken.headers.get('ratelimit')).toStartWith('"key";r=0;'); // a use, as a tool's call with bad input
      expectRefused(await askFor('', headers), 429, 'rate_limited');
    },
  );

  test('a key in the place of a scope does not come back, and is not logged', async () => {
    const response = await demand(`?scope=${key}`, `read ${key}`);
    expectRefused(response, 403, 'insufficient_scope');
    expect(response.headers.get('www-authenticate')).toEndWith('scope="read"');
    expect(await app.logText()).not.toContain(key);
  });
});

describe('every refusal has the identity headers, empty', () => {
  test('no key, a wrong one, a revoked one: 401, with a challenge and the full limit', async () => {
    const gone = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: gone.id }, await bearer(app, 'alice'));
    for (const [headers, code] of [
      [{}, 'missing_api_key'],
      [{ 'x-api-key': 'nonsense' }, 'invalid_api_key'],
      [{ 'x-api-key': gone.key }, 'invalid_api_key'],
    ] as [Record<string, string>, string][]) {
      const response = await ask(headers);
      expectRefused(response, 401, code);
      expect(response.headers.get('www-authenticate')).toStartWith('Bearer ');
      expect(response.headers.get('ratelimit')).toBe('"key";r=1000;t=3600');
    }
  });

  test('in production over plain HTTP: 403, over HTTPS of the proxy: 200', async () => {
    await using production = await createTestApp({ env: { NODE_ENV: 'production', TRUST_PROXY: '1' } });
    const alice = { ...(await bearer(production, 'alice')), 'x-forwarded-proto': 'https' };
    const { body } = await production.call('create_api_key', { name: 'k', scopes: [] }, alice);
    const headers = { 'x-api-key': body.key };
    expectRefused(await ask(headers, { of: production }), 403, 'https_required');
    const secure = await ask({ ...headers, 'x-forwarded-proto': 'https' }, { of: production });
    expect(secure.status).toBe(200);
    expect(secure.headers.has('strict-transport-security')).toBe(false);
  });

  test('an expired key, and a store that is away: 401 and 503', async () => {
    await using other = await createTestApp({ store: 'embedded' });
    const made = await other.createKey('alice', { expiresInDays: 1 });
    other.clock.advance(86_400_000);
    expect((await ask({ 'x-api-key': made.key }, { of: other })).status).toBe(200);
    other.clock.advance(1);
    expectRefused(await ask({ 'x-api-key': made.key }, { of: other }), 401, 'invalid_api_key');
    await other.loseStore();
    other.clock.advance(1000);
    const away = await ask({ 'x-api-key': made.key }, { of: other });
    expectRefused(away, 503, 'store_unavailable');
    expect(away.headers.get('retry-after')).toBe('1');
  });

  test('a bug is 500, with empty identity headers', async () => {
    await using broken = await createTestApp();
    const { fetch } = broken.handler;
    const address = (): never => {
      throw new Error('a bug');
    };
    const connection = { ...NO_CONNECTION, address };
    const request = new Request(`${broken.url}/verify`, { headers: { 'x-api-key': `sk_test_${'0'.repeat(64)}` } });
    expectRefused(await readResponse(await fetch(request, connection)), 500, 'internal');
  });
});

describe('asked for another server', () => {
  test.each(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'PURGE'])(
    '%s is verified, whatever Host and Origin say, and no page may read it',
    async (method) => {
      const requestWith = (more: string) =>
        `${method} /verify HTTP/1.1\r\nHost: app.example\r\nOrigin: https://app.example\r\nConnection: close\r\n` +
        `Access-Control-Request-Method: GET\r\n${more}\r\n`;
      const good = await statusAndNames(requestWith(`X-API-Key: ${key}\r\n`));
      const bad = await statusAndNames(requestWith(''));
      expect({ good: good.status, bad: bad.status }).toEqual({ good: 200, bad: 401 });
      for (const { names } of [good, bad]) {
        expect(names).toContain('x-key-owner');
        expect(names.filter((name) => /^access-control|^vary$|^allow$/.test(name))).toEqual([]);
      }
    },
  );

  async function statusAndNames(request: string) {
    const { socket, readUntil } = await openHttpSocket(app.url);
    socket.write(request);
    const [head = ''] = (await readUntil((received) => received.includes('\r\n\r\n'))).split('\r\n\r\n');
    socket.destroy();
    const [status = '', ...lines] = head.split('\r\n');
    return {
      status: Number(status.split(' ')[1]),
      names: lines.map((line) => line.split(':')[0]?.toLowerCase() ?? ''),
    };
  }

  test('a path below it is not found', async () => {
    expect((await ask({ 'x-api-key': key }, { path: '/verify/x' })).status).toBe(404);
  });
});

describe('names and owners', () => {
  const NASTY = [
    'plain-name_1.~@:/',
    'with "quotes" and \'these\'',
    '100% %41 %2F %',
    'a+b c!*()',
    '😀'.repeat(200),
    'ü\u00a0\u2028\u202e',
    ' leading and trailing ',
    '\\ ; , = < >',
  ];

  test.each(labelled(NASTY))('%s comes through exactly, and back', async (_label, text) => {
    const made = await app.createKey(`o${text}`, { name: text });
    const { headers } = await ask({ 'x-api-key': made.key });
    expect(decodeURIComponent(headers.get('x-key-name') ?? '')).toBe(text);
    expect(decodeURIComponent(headers.get('x-key-owner') ?? '')).toBe(`o${text}`);
    expect(headers.get('x-key-name')).toMatch(/^(?:[A-Za-z0-9._~@:/-]|%[0-9A-F]{2})*$/);
  });

  test('an owner of plain ASCII is not percent-encoded, punctuation that headers may not have is', async () => {
    const made = await app.createKey('https://idp.example/users/a@b.example', { name: "!'()*%" });
    const { headers } = await ask({ 'x-api-key': made.key });
    expect(headers.get('x-key-owner')).toBe('https://idp.example/users/a@b.example');
    expect(headers.get('x-key-name')).toBe('%21%27%28%29%2A%25');
  });
});

describe('a success that is late', () => {
  const LAG_MAX_MS = 60_000;

  /** The response to a key that is read for the first time, during which `then` happens and the machine sleeps. */
  async function lateResponse(then: (slow: SlowStore) => unknown): Promise<TestResponse> {
    await using slow = await startSlowStore();
    const env = { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };
    await using late = await createTestApp({ store: slow.store, env });
    const { key } = await late.createKey('alice');
    const read = slow.delayReadOf(key);
    const response = fetch(`${late.url}/verify?scope=read`, { headers: { 'x-api-key': key } });
    await read.made;
    await then(slow);
    late.clock.sleep(LAG_MAX_MS);
    read.release();
    return readResponse(await response);
  }

  test('is sent if the key is still good, and a refusal if it was revoked elsewhere', async () => {
    expect((await lateResponse(() => {})).status).toBe(200);
    expectRefused(await lateResponse(({ revoke }) => revoke('alice')), 401, 'invalid_api_key');
  });

  test('is a refusal if the key has lost a scope that was demanded, and names the owner that it has then', async () => {
    const handed = (scope: string) =>
      lateResponse(({ handOver }) => handOver('alice', { owner: 'bob', scope, endsAtMs: Date.UTC(2100, 0) }));
    expectRefused(await handed('other'), 403, 'insufficient_scope');
    expect((await handed('read')).headers.get('x-key-owner')).toBe('bob');
  });
});

test('X-Forwarded-For without TRUST_PROXY is logged once, with it not at all', async () => {
  await using fresh = await createTestApp();
  await using trusting = await createTestApp({ env: { TRUST_PROXY: '1' } });
  const warnings = async (of: TestApp) =>
    (await of.log()).filter(({ event }) => event === 'X-Forwarded-For not believed');
  await ask({}, { of: fresh });
  expect(await warnings(fresh)).toEqual([]);
  for (let calls = 0; calls < 3; calls += 1) await ask({ 'x-forwarded-for': '192.0.2.7' }, { of: fresh });
  expect(await warnings(fresh)).toMatchObject([{ level: 'warn', setting: 'TRUST_PROXY' }]);
  await ask({ 'x-forwarded-for': '192.0.2.7' }, { of: trusting });
  expect(await warnings(trusting)).toEqual([]);
});
