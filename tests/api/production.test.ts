// Production: what it refuses to start without, and credentials over HTTPS only.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { makeCertificate } from '../support/certificate.ts';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import { createIssuer } from '../support/issuer.ts';
import { request } from '../support/mcp.ts';
import { runToExit, startServer } from '../support/server-process.ts';
import { openSseSocket, postTo } from '../support/sse-socket.ts';
import { createTestApp, readResponse, TEST_SECRET, type TestApp } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';

const PRODUCTION = { NODE_ENV: 'production' };
const BEHIND_PROXY = { ...PRODUCTION, TRUST_PROXY: '1' };
const HTTPS = { 'x-forwarded-proto': 'https' };
const KEY = `sk_live_${'0'.repeat(64)}`;

describe('start', () => {
  const env = PRODUCTION;

  test('is refused without any way to verify users', async () => {
    const { code, stderr } = await runToExit({ env });
    expect(code).toBe(1);
    expect(stderr).toContain('JWT_SECRET: expected JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in production');
  });

  test('is refused with an issuer that can’t be reached, or names no key set', async () => {
    const gone = await createIssuer();
    await gone[Symbol.asyncDispose]();
    const unreachable = await runToExit({ env: { ...env, JWT_ISSUER: gone.url } });
    expect(unreachable.code).toBe(1);
    expect(unreachable.stderr).toContain('JWT_ISSUER: expected an issuer whose metadata names its key set');
    expect(unreachable.stderr).toContain(`got "${gone.url}"`);
    await using other = await createIssuer({ metadata: { issuer: 'http://127.0.0.1:1' } });
    expect((await runToExit({ env: { ...env, JWT_ISSUER: other.url } })).stderr).toContain('names another issuer');
    await using nobody = await createIssuer({ metadata: { issuer: undefined } });
    expect((await runToExit({ env: { ...env, JWT_ISSUER: nobody.url } })).stderr).toContain(
      "but the issuer's metadata names no issuer, got",
    );
    // Also in development, where an issuer that is away stops nothing.
    for (const [named, written] of [
      ['/', ''],
      ['', '/'],
    ]) {
      await using slash = await createIssuer({ metadata: {} });
      const set = slash.url + written;
      const metadata = Response.json({ issuer: slash.url + named, jwks_uri: slash.jwksUrl });
      slash.overrides.set('/.well-known/oauth-authorization-server', () => metadata.clone());
      for (const more of [{}, { JWT_JWKS_URL: slash.jwksUrl }]) {
        const { code, stderr } = await runToExit({ env: { JWT_ISSUER: set, ...more } });
        expect(code).toBe(1);
        expect(stderr).toContain(
          `JWT_ISSUER: expected "${slash.url}${named}" (the issuer's metadata names another issuer), got "${set}"`,
        );
      }
    }
  });

  test.each([
    [(_: string) => ({ JWT_SECRET: TEST_SECRET })],
    [(issuer: string) => ({ JWT_ISSUER: issuer })],
    [(_: string) => ({ JWT_JWKS_URL: 'http://127.0.0.1:1/jwks' })],
  ])('succeeds with any one of the three', async (how) => {
    await using issuer = await createIssuer();
    await using server = await startServer({ env: { ...env, ...how(issuer.url) } });
    expect((await fetch(server.url)).status).toBe(200);
  });

  test('without production rules an unreachable issuer does not stop it', async () => {
    await using server = await startServer({ env: { JWT_ISSUER: 'http://127.0.0.1:1' } });
    expect((await fetch(server.url)).status).toBe(200);
  });
});

describe('credentials over plain HTTP', () => {
  const CARRYING: [string, Record<string, string>, unknown][] = [
    ['X-API-Key', { 'x-api-key': KEY }, {}],
    ['a bearer token', { authorization: 'Bearer x' }, {}],
    ['a bearer token in lower case', { authorization: 'bearer x' }, {}],
    ['_meta.api_key', {}, { _meta: { api_key: KEY } }],
  ];

  async function expectRefused(app: TestApp, headers: Record<string, string>, input: unknown = {}) {
    const response = await app.call('get_data', input, headers);
    expect(response.body).toMatchObject({ status: 403, code: 'https_required' });
    expect(response.headers.get('strict-transport-security')).toBeNull();
  }

  async function loggedRefusals(app: TestApp) {
    const refusals = (await app.log()).filter(({ event }) => event === 'request refused');
    return refusals.map(({ level, code, requestId }) => ({ level, code, requestId }));
  }

  test.each(CARRYING)('%s is refused, from loopback too', async (_, headers, input) => {
    await using app = await createTestApp({ env: PRODUCTION });
    await expectRefused(app, headers, input);
  });

  test.each(CARRYING)('%s that is refused is in the log', async (_, headers, input) => {
    await using app = await createTestApp({ env: PRODUCTION });
    const { requestId } = (await app.call('get_data', input, headers)).body;
    expect(await loggedRefusals(app)).toEqual([{ level: 'warn', code: 'https_required', requestId }]);
  });

  test.each([
    ['a request that calls no tool', { id: 1, method: 'ping', params: { _meta: { api_key: KEY } } }],
    ['a notification', { method: 'notifications/initialized', params: { _meta: { api_key: KEY } } }],
    ['arguments', { id: 1, method: 'tools/call', params: { name: 'x', arguments: { _meta: { api_key: KEY } } } }],
  ])('over MCP a key in %s is refused as well, alone and in a batch', async (_, message) => {
    await using app = await createTestApp({ env: PRODUCTION });
    const body = { jsonrpc: '2.0', ...message };
    for (const sent of [body, [{ jsonrpc: '2.0', id: 2, method: 'ping' }, body]]) {
      const response = await fetch(`${app.url}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(sent),
      });
      const { requestId, ...problem } = (await readResponse(response)).body;
      expect(problem).toMatchObject({ status: 403, code: 'https_required' });
      expect((await loggedRefusals(app)).at(-1)).toEqual({ level: 'warn', code: 'https_required', requestId });
    }
  });

  test('on /messages a key in a message is refused as well, and in the log', async () => {
    await using app = await createTestApp({ env: PRODUCTION });
    const { postUrl } = await openSseSocket(app.url);
    const message = request('ping', { _meta: { api_key: KEY } });
    const { requestId, ...problem } = (await readResponse(await postTo(postUrl, message))).body;
    expect(problem).toMatchObject({ status: 403, code: 'https_required' });
    expect(await loggedRefusals(app)).toEqual([{ level: 'warn', code: 'https_required', requestId }]);
  });

  test('forwarding headers of an untrusted client do not make plain HTTP acceptable', async () => {
    await using app = await createTestApp({ env: PRODUCTION });
    for (const [, headers, input] of CARRYING) {
      await expectRefused(app, { ...headers, ...HTTPS, forwarded: 'proto=https', 'x-forwarded-ssl': 'on' }, input);
    }
  });

  test.each(['http', '', 'HTTP', 'https, http', 'https,', 'httpsx'])(
    'is refused where the trusted proxy says "%s"',
    async (said) => {
      await using app = await createTestApp({ env: BEHIND_PROXY });
      await expectRefused(app, { 'x-api-key': KEY, 'x-forwarded-proto': said });
      await expectRefused(app, { 'x-api-key': KEY });
    },
  );

  test.each(['https', 'HTTPS', ' https ', 'http, https'])('is accepted where it says "%s"', async (said) => {
    await using app = await createTestApp({ env: BEHIND_PROXY });
    for (const [, headers, input] of CARRYING) {
      const response = await app.call('get_data', input, { ...headers, 'x-forwarded-proto': said });
      expect(response.body.code).toBe('invalid_api_key');
      expect(response.headers.get('strict-transport-security')).toBe('max-age=31536000');
    }
  });

  test('a request without credential is accepted; one of another scheme carries none', async () => {
    await using app = await createTestApp({ env: PRODUCTION });
    expect((await app.call('get_data')).body.code).toBe('missing_api_key');
    expect((await app.call('get_data', {}, { authorization: 'Basic eDp5' })).body.code).toBe('missing_api_key');
    expect((await app.call('get_data', {}, { 'x-api-key': '' })).body.code).toBe('missing_api_key');
    expect((await fetch(`${app.url}/mcp/health`)).status).toBe(200);
  });

  test('comes after host, origin, route and method, before the body', async () => {
    await using app = await createTestApp({ env: PRODUCTION });
    const headers = { 'x-api-key': KEY, 'content-type': 'text/plain' };
    const code = async (path: string, init: RequestInit) =>
      (await readResponse(await fetch(app.url + path, init))).body.code;
    expect(await code('/tools/get_data', { headers: { ...headers, host: 'evil.example' } })).toBe('host_denied');
    expect(await code('/tools/get_data', { headers: { ...headers, origin: 'https://evil.example' } })).toBe(
      'origin_denied',
    );
    expect(await code('/nowhere', { headers })).toBe('not_found');
    expect(await code('/tools/nope', { method: 'POST', headers, body: '{' })).toBe('tool_not_found');
    expect(await code('/tools/get_data', { headers })).toBe('method_not_allowed');
    expect(await code('/tools/get_data', { method: 'POST', headers, body: '{' })).toBe('https_required');
  });

  test('outside production a credential over plain HTTP is accepted', async () => {
    await using app = await createTestApp();
    const response = await app.call('get_data', {}, { 'x-api-key': KEY });
    expect(response.body.code).toBe('invalid_api_key');
    expect(response.headers.get('strict-transport-security')).toBeNull();
  });
});

test('keys of production begin with sk_live_', async () => {
  await using app = await createTestApp({ env: BEHIND_PROXY });
  const alice = { ...HTTPS, authorization: `Bearer ${await app.token('alice')}` };
  const created = await app.call('create_api_key', { name: 'live', scopes: ['read'] }, alice);
  expect(created.body.key).toMatch(/^sk_live_[0-9a-f]{64}$/);
  expect((await app.call('get_data', {}, { ...HTTPS, 'x-api-key': created.body.key })).status).toBe(200);
});

describe('the address a call comes from', () => {
  const tools = () => [
    defineTool(anyone, {
      ...facts('where_from'),
      input: v.strictObject({}),
      output: v.strictObject({ source: v.string() }),
      run: (_, { clientAddress }) => ok({ source: clientAddress() }),
    }),
  ];
  const sourceWith = async (app: TestApp, forwarded: string | null) =>
    (await app.call('where_from', {}, forwarded === null ? {} : { 'x-forwarded-for': forwarded })).body.source;

  test('is the last hop of X-Forwarded-For behind a trusted proxy', async () => {
    await using app = await createTestApp({ env: { TRUST_PROXY: '1' }, tools });
    expect(await sourceWith(app, '203.0.113.7')).toBe('203.0.113.7');
    expect(await sourceWith(app, '198.51.100.1, 203.0.113.7')).toBe('203.0.113.7');
    expect(await sourceWith(app, '2001:db8::1')).toBe('2001:db8::1');
    for (const empty of [null, '', ',', '203.0.113.7, ']) expect(await sourceWith(app, empty)).toBe('127.0.0.1');
  });

  test('is what the outermost of several trusted proxies says', async () => {
    await using app = await createTestApp({ env: { TRUST_PROXY: '2' }, tools });
    expect(await sourceWith(app, '192.0.2.1, 198.51.100.1, 203.0.113.7')).toBe('198.51.100.1');
    for (const fewer of [null, '', '203.0.113.7']) expect(await sourceWith(app, fewer)).toBe('127.0.0.1');
  });

  const LOOPBACK = '127.0.0.1'; // that of the test, where the header says none
  test.each([
    [1, '192.0.2.7', '192.0.2.7'],
    [1, '198.51.100.1, 192.0.2.7', '192.0.2.7'],
    [2, '203.0.113.9, 198.51.100.1, 192.0.2.7', '198.51.100.1'],
    [3, '203.0.113.9, 198.51.100.1,192.0.2.7', '203.0.113.9'],
    [4, '203.0.113.9, 198.51.100.1, 192.0.2.7', LOOPBACK],
    [2, '198.51.100.1', LOOPBACK],
    [2, ', 192.0.2.7', LOOPBACK],
    [1, '2001:db8::7', '2001:db8::7'],
    // Some proxies add the port, with which every connection would be a source of its own.
    [1, '192.0.2.7:50123', '192.0.2.7'],
    [1, '[2001:db8::7]:50123', '2001:db8::7'],
    [2, '[2001:db8::7]:50123, 192.0.2.7:1', '2001:db8::7'],
    [1, '[2001:db8::7]', '2001:db8::7'],
    [1, 'unknown', 'unknown'],
    [1, 'x'.repeat(64), 'x'.repeat(64)],
    [1, 'x'.repeat(65), LOOPBACK],
    [1, `sk_test_${'0'.repeat(64)}`, LOOPBACK],
    [1, '', LOOPBACK],
  ])('row %#: %i proxies', async (proxies, forwarded, address) => {
    await using app = await createTestApp({ env: { TRUST_PROXY: String(proxies) }, tools });
    expect(await sourceWith(app, forwarded)).toBe(address);
  });

  test('is found in several headers as in one list', async () => {
    await using app = await createTestApp({ env: { TRUST_PROXY: '2' }, tools });
    const twice = '203.0.113.9, 198.51.100.1\r\nX-Forwarded-For: 192.0.2.7';
    const { body } = await sendOverSocket(app.url, postText('/tools/where_from', '{}', { 'X-Forwarded-For': twice }));
    expect(JSON.parse(body)).toEqual({ source: '198.51.100.1' });
  });

  test('is the socket’s if no proxy is trusted, whatever the headers say', async () => {
    await using app = await createTestApp({ tools });
    expect(await sourceWith(app, '203.0.113.7')).toBe('127.0.0.1');
  });
});

test.each([
  [1, ['https', 'http,HTTPS'], ['https, http', '']],
  // With fewer entries than proxies, the inner one passes on what the outer one said.
  [
    2,
    ['https, http', 'http, https, http', 'https'],
    ['http, https', 'https, http, https', 'https, http, http', 'http'],
  ],
  [3, ['https, http'], ['http, https']],
])('of %i trusted proxies the outermost says whether the client came over HTTPS', async (proxies, secure, clear) => {
  await using app = await createTestApp({ env: { ...PRODUCTION, TRUST_PROXY: String(proxies) } });
  const codeWith = async (said: string) =>
    (await app.call('get_data', {}, { 'x-api-key': KEY, 'x-forwarded-proto': said })).body.code;
  for (const said of secure) expect({ said, code: await codeWith(said) }).toEqual({ said, code: 'invalid_api_key' });
  for (const said of clear) expect({ said, code: await codeWith(said) }).toEqual({ said, code: 'https_required' });
});

describe('own TLS', () => {
  const { certFile, keyFile, cert } = makeCertificate();
  const TLS = { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile };

  test('serves HTTPS, accepts credentials, and tells browsers to stay with it', async () => {
    await using server = await startServer({ env: { ...PRODUCTION, ...TLS, JWT_SECRET: TEST_SECRET } });
    expect(server.url).toStartWith('https://127.0.0.1:');
    const response = await fetch(`${server.url}/tools/get_data`, {
      method: 'POST',
      headers: { 'x-api-key': KEY, 'x-forwarded-proto': 'http' },
      tls: { ca: cert },
    });
    expect((await readResponse(response)).body.code).toBe('invalid_api_key');
    expect(response.headers.get('strict-transport-security')).toBe('max-age=31536000');
    expect(await fetch(server.url.replace('https:', 'http:')).catch(() => 'refused')).toBe('refused');
  });
});
