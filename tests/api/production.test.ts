// Production: what it refuses to start without, and credentials over HTTPS only.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { makeCertificate } from '../support/certificate.ts';
import { postJson } from '../support/client.ts';
import { failingStartOn } from '../support/failing-start.ts';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import { createIssuer } from '../support/issuer.ts';
import { call, post, request } from '../support/mcp.ts';
import { startServer, USUAL_RUNTIME } from '../support/server-process.ts';
import { openSseSocket } from '../support/sse-socket.ts';
import {
  createTestApp,
  failureOf,
  readResponse,
  sharedApp,
  TEST_SECRET,
  type TestApp,
  type TestResponse,
} from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';

const PRODUCTION = { NODE_ENV: 'production' };
const BEHIND_PROXY = { ...PRODUCTION, TRUST_PROXY: '1' };
const HTTPS = { 'x-forwarded-proto': 'https' };
const KEY = `sk_live_${'0'.repeat(64)}`;

describe('start', () => {
  const env = PRODUCTION;
  const failing = (env: Record<string, string>) => failingStartOn(USUAL_RUNTIME, env);

  test('is refused with an issuer that can’t be reached, or names another, or none', async () => {
    const gone = await createIssuer();
    await gone[Symbol.asyncDispose]();
    const unreachable = await failing({ ...env, JWT_ISSUER: gone.url });
    expect(unreachable.code).toBe(1);
    expect(unreachable.stderr).toContain('JWT_ISSUER: expected an issuer whose metadata names its key set');
    expect(unreachable.stderr).toContain(`got "${gone.url}"`);
    const refusalOf = (JWT_ISSUER: string) =>
      failureOf(createTestApp({ env: { ...env, JWT_SECRET: undefined, JWT_ISSUER } }));
    await using other = await createIssuer({ metadata: { issuer: 'http://127.0.0.1:1' } });
    expect(await refusalOf(other.url)).toContain('names another issuer');
    await using nobody = await createIssuer({ metadata: { issuer: undefined } });
    expect(await refusalOf(nobody.url)).toContain("but the issuer's metadata names no issuer, got");
  });

  // Also in development, where an issuer that is away stops nothing.
  test.each([
    ['/', '', false],
    ['', '/', true],
  ])('is refused where the issuer has "%s" at its end, and JWT_ISSUER "%s"', async (named, written, isKeySetNamed) => {
    await using issuer = await createIssuer();
    const metadata = Response.json({ issuer: issuer.url + named, jwks_uri: issuer.jwksUrl });
    issuer.overrides.set('/.well-known/oauth-authorization-server', () => metadata.clone());
    const set = issuer.url + written;
    const keySet = isKeySetNamed && { JWT_JWKS_URL: issuer.jwksUrl };
    const { code, stderr } = await failing({ JWT_ISSUER: set, ...keySet });
    expect(code).toBe(1);
    expect(stderr).toContain(
      `JWT_ISSUER: expected "${issuer.url}${named}" (the issuer's metadata names another issuer), got "${set}"`,
    );
  });

  test('succeeds with an issuer of whose metadata, without a sign-in, another address names another issuer', async () => {
    await using issuer = await createIssuer();
    const other = Response.json({ issuer: 'http://127.0.0.1:1', jwks_uri: issuer.jwksUrl });
    issuer.overrides.set('/.well-known/openid-configuration', () => other.clone());
    await using server = await startServer({ env: { ...env, JWT_ISSUER: issuer.url } });
    expect((await fetch(server.url)).status).toBe(200);
  });

  test('succeeds outside production with an issuer that can’t be reached', async () => {
    await using server = await startServer({ env: { JWT_ISSUER: 'http://127.0.0.1:1' } });
    expect((await fetch(server.url)).status).toBe(200);
  });

  test.each<[string, (issuer: string) => Record<string, string>]>([
    ['with an issuer', (issuer) => ({ ...env, JWT_ISSUER: issuer })],
    ['with a key set, reached or not', () => ({ ...env, JWT_JWKS_URL: 'http://127.0.0.1:1/jwks' })],
  ])('succeeds %s', async (_what, envOf) => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { JWT_SECRET: undefined, ...envOf(issuer.url) } });
    expect((await fetch(app.url)).status).toBe(200);
  });
});

const app = await sharedApp({ env: PRODUCTION });

describe('credentials over plain HTTP', () => {
  const CARRYING: [string, Record<string, string>, unknown][] = [
    ['X-API-Key', { 'x-api-key': KEY }, {}],
    ['a bearer token', { authorization: 'Bearer x' }, {}],
    ['a bearer token in lower case', { authorization: 'bearer x' }, {}],
    ['_meta.api_key', {}, { _meta: { api_key: KEY } }],
  ];

  async function expectRefused({ status, body, headers }: TestResponse) {
    expect([status, body.code]).toEqual([403, 'https_required']);
    expect(headers.get('strict-transport-security')).toBeNull();
    const line = (await app.log()).findLast(({ event }) => event === 'request refused');
    expect(line).toMatchObject({ level: 'warn', code: 'https_required', requestId: body.requestId });
  }

  test.each(CARRYING)(
    '%s is refused, from loopback too, whatever it forwards, and in the log',
    async (_, headers, input) => {
      for (const forwarded of [{}, { ...HTTPS, forwarded: 'proto=https', 'x-forwarded-ssl': 'on' }]) {
        await expectRefused(await app.call('get_data', input, { ...headers, ...forwarded }));
      }
    },
  );

  test.each([
    ['a request that calls no tool', request('ping', { _meta: { api_key: KEY } })],
    ['a notification', { jsonrpc: '2.0', method: 'notifications/initialized', params: { _meta: { api_key: KEY } } }],
    ['arguments', call('x', { _meta: { api_key: KEY } })],
  ])('over MCP a key in %s is refused as well, alone, in a batch, and on /messages', async (_, message) => {
    await expectRefused(await post(app, message));
    await expectRefused(await post(app, [request('ping', {}, 2), message]));
    const { postUrl } = await openSseSocket(app.url);
    await expectRefused(await readResponse(await postJson(postUrl, message)));
  });

  // With fewer entries than proxies, the inner one passes on what the outer one said.
  test.each([
    [
      1,
      ['https', 'HTTPS', ' https ', 'http, https', 'http,HTTPS'],
      ['http', '', 'HTTP', 'https, http', 'https,', 'httpsx'],
    ],
    [
      2,
      ['https, http', 'http, https, http', 'https'],
      ['http, https', 'https, http, https', 'https, http, http', 'http'],
    ],
    [3, ['https, http'], ['http, https']],
  ])('of %i trusted proxies the outermost says whether the client came over HTTPS', async (proxies, secure, clear) => {
    await using through = await createTestApp({ env: { ...PRODUCTION, TRUST_PROXY: String(proxies) } });
    const codeWith = async (said: string) =>
      (await through.call('get_data', {}, { 'x-api-key': KEY, 'x-forwarded-proto': said })).body.code;
    for (const said of secure) expect({ said, code: await codeWith(said) }).toEqual({ said, code: 'invalid_api_key' });
    for (const said of clear) expect({ said, code: await codeWith(said) }).toEqual({ said, code: 'https_required' });
  });

  test('over HTTPS each is accepted, and browsers are told to stay with it', async () => {
    await using behind = await createTestApp({ env: BEHIND_PROXY });
    for (const [, headers, input] of CARRYING) {
      const response = await behind.call('get_data', input, { ...headers, ...HTTPS });
      expect(response.body.code).toBe('invalid_api_key');
      expect(response.headers.get('strict-transport-security')).toBe('max-age=31536000');
    }
  });

  test('a request without credential is accepted; one of another scheme carries none', async () => {
    for (const headers of [{}, { authorization: 'Basic eDp5' }, { 'x-api-key': '' }] as Record<string, string>[]) {
      expect((await app.call('get_data', {}, headers)).body.code).toBe('missing_api_key');
    }
    expect((await fetch(`${app.url}/mcp/health`)).status).toBe(200);
  });

  test('outside production it is accepted', async () => {
    await using development = await createTestApp();
    const { body, headers } = await development.useKey(KEY);
    expect([body.code, headers.get('strict-transport-security')]).toEqual(['invalid_api_key', null]);
  });
});

describe('the address a call comes from', () => {
  const tools = () => [
    defineTool(anyone, {
      ...noInput('where_from'),
      output: v.strictObject({ source: v.string() }),
      run: (_, { clientAddress }) => ok({ source: clientAddress() }),
    }),
  ];
  const sourceWith = async (app: TestApp, forwarded: string | null) =>
    (await app.call('where_from', {}, forwarded === null ? {} : { 'x-forwarded-for': forwarded })).body.source;

  const LOOPBACK = '127.0.0.1'; // that of the test, where the header says none
  test.each<readonly [number, string | null, string]>([
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
    [1, 'x'.repeat(63), 'x'.repeat(63)],
    [1, 'x'.repeat(64), LOOPBACK],
    // Neither a hash nor a key may be logged as an address.
    [1, 'a0'.repeat(32), LOOPBACK],
    [1, `sk_test_${'0'.repeat(64)}`, LOOPBACK],
    ...[null, '', ',', '203.0.113.7, '].map((empty) => [1, empty, LOOPBACK] as const),
    ...[null, ''].map((empty) => [2, empty, LOOPBACK] as const),
    [0, '203.0.113.7', LOOPBACK],
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
});

test('own TLS serves HTTPS, accepts credentials, and tells browsers to stay with it', async () => {
  const { certFile, keyFile, cert } = makeCertificate();
  const env = { ...PRODUCTION, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, JWT_SECRET: TEST_SECRET };
  await using server = await startServer({ env });
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
