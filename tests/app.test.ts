// Paths, methods, and the order of the checks that come before any handler.

import { describe, expect, test } from 'bun:test';
import { postText, sendOverSocket } from './support/http-socket.ts';
import { PATHS } from './support/tables.ts';
import { bearer, createTestApp, readResponse, sharedApp } from './support/test-app.ts';

const app = await sharedApp();

const fetched = async (path: string, init?: RequestInit) => readResponse(await fetch(app.url + path, init));

describe('paths', () => {
  test('GET / says what this is, in plain text', async () => {
    const { status, headers, body } = await fetched('/');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
    for (const said of ['mcp-key-server', 'MCP server', '1.0.0', 'not a website', 'MCP client']) {
      expect(body).toContain(said);
    }
    for (const path of [
      '/tools/<tool_name>',
      '/mcp',
      '/sse',
      '/messages',
      '/token',
      '/mcp/health',
      '/openapi.json',
      '/widgets/preview',
    ]) {
      expect(body).toContain(app.url + path);
    }
    expect(body).toContain(`${app.url}/.well-known/oauth-protected-resource\n`);
  });

  test.each(['/nope', '/tools', '/Tools/get_data', '/index.html', '/%2e%2e/etc/passwd'])(
    '%s is 404 not_found',
    async (path) => {
      const { status, body } = await fetched(path);
      expect({ status, code: body.code }).toEqual({ status: 404, code: 'not_found' });
    },
  );

  test.each(['nope', '', 'Get_Data', 'get%5Fdata', '*', '__proto__', 'constructor', 'toString'])(
    'POST /tools/%s is 404 tool_not_found',
    async (name) => {
      const { status, body } = await fetched(`/tools/${name}`, { method: 'POST' });
      expect({ status, code: body.code }).toEqual({ status: 404, code: 'tool_not_found' });
    },
  );

  test.each(['GET', 'PUT', 'OPTIONS'])('%s of a tool that is not there is 404 too, not 405', async (method) => {
    const { status, headers, body } = await fetched('/tools/nope', { method });
    expect({ status, code: body.code }).toEqual({ status: 404, code: 'tool_not_found' });
    expect(headers.get('allow')).toBeNull();
  });

  test('a query changes nothing about the path', async () => {
    expect((await fetched('/?a=b')).status).toBe(200);
    expect((await fetched('/tools/get_data?x=1', { method: 'POST' })).body.code).toBe('missing_api_key');
  });
});

describe('methods', () => {
  test.each(['GET', 'HEAD', 'PATCH'])('%s of a tool is 405, and Allow says POST', async (method) => {
    const { status, headers, body } = await fetched('/tools/get_data', { method });
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
    if (method !== 'HEAD') expect(body.code).toBe('method_not_allowed');
  });

  test.each(['/', '/openapi.json', '/nope'])('HEAD %s has the head of GET and no body', async (path) => {
    const head = await fetch(app.url + path, { method: 'HEAD' });
    const get = await fetch(app.url + path);
    const body = await get.text();
    expect(head.status).toBe(get.status);
    expect(await head.text()).toBe('');
    expect(head.headers.get('content-type')).toBe(get.headers.get('content-type'));
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(body)));
  });

  test('OPTIONS without preflight says what a path allows', async () => {
    const { status, headers } = await fetched('/tools/get_data', { method: 'OPTIONS' });
    expect({ status, allow: headers.get('allow') }).toEqual({ status: 204, allow: 'POST' });
  });
});

/** Their own policies are tested with them. */
const PAGES = ['/keys', '/widgets/preview', '/authorize'];

test('every response forbids sniffing, framing and running', async () => {
  for (const path of [...PATHS.filter((path) => !PAGES.includes(path)), '/nope']) {
    for (const method of ['GET', 'POST', 'OPTIONS', 'DELETE', 'HEAD']) {
      const { headers, body } = await fetch(app.url + path, { method });
      await body?.cancel();
      expect({ path, method, sniff: headers.get('x-content-type-options') }).toMatchObject({ sniff: 'nosniff' });
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'");
    }
  }
});

describe('the order of checks', () => {
  // Each request has this fault and every later one; the first of the order is the response.
  const EVIL = { Host: 'evil.example', Origin: 'https://evil.example' };
  const codeOf = ({ body }: { body: string }) => JSON.parse(body).code as string;
  const head = (start: string, named: Record<string, string>) =>
    [start, ...Object.entries(named).map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n');
  const send = (start: string, named: Record<string, string>, to = app) =>
    sendOverSocket(to.url, head(start, named)).then(codeOf);

  test('host before origin, origin before route, route before method', async () => {
    expect(await send('GET /nope HTTP/1.1', EVIL)).toBe('host_denied');
    expect(await send('GET /nope HTTP/1.1', { ...EVIL, Host: 'localhost' })).toBe('origin_denied');
    expect(await send('PUT /nope HTTP/1.1', { Host: 'localhost' })).toBe('not_found');
  });

  const post = (body: string, named: Record<string, string> = {}, to = app) =>
    sendOverSocket(to.url, postText('/tools/get_data', body, named)).then(codeOf);

  test('method before HTTPS, HTTPS before media type', async () => {
    await using production = await createTestApp({ env: { NODE_ENV: 'production' } });
    const named = { Host: 'localhost', 'X-API-Key': 'sk_live_x' };
    expect(await send('PUT /tools/get_data HTTP/1.1', named, production)).toBe('method_not_allowed');
    expect(await post('x', { 'Content-Type': 'text/plain', 'X-API-Key': 'x' }, production)).toBe('https_required');
  });

  test('media type before size, size before JSON, JSON before credential', async () => {
    expect(await post('x', { 'Content-Type': 'text/plain', 'Content-Length': '2000000' })).toBe(
      'unsupported_media_type',
    );
    expect(await post('x', { 'Content-Length': '2000000' })).toBe('payload_too_large');
    expect(await post('x')).toBe('invalid_json');
  });

  test('credential before scope, rate limit before scope, scope before input', async () => {
    await using limited = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '1' } });
    const wrong = { unknown: 1 };
    const { key } = await limited.createKey('alice', { scopes: [] });
    expect((await limited.call('get_data', wrong)).body.code).toBe('missing_api_key');
    expect((await limited.call('get_data', wrong, { 'x-api-key': key })).body.code).toBe('insufficient_scope');
    expect((await limited.call('get_data', wrong, { 'x-api-key': key })).body.code).toBe('rate_limited');
  });

  test('credential before input on a management tool', async () => {
    expect((await app.call('create_api_key', {})).body.code).toBe('missing_token');
    expect((await app.call('create_api_key', {}, await bearer(app, 'alice'))).body.code).toBe('invalid_input');
  });
});

test('BASE_PATH is before every path', async () => {
  await using under = await createTestApp({ env: { BASE_PATH: '/keys' } });
  const { origin } = new URL(under.url);
  expect(await (await fetch(under.url)).text()).toContain(`${under.url}/mcp`);
  for (const path of ['/', '/mcp/health', '/openapi.json']) {
    expect((await fetch(under.url + path)).status).toBe(200);
    expect((await fetch(origin + path)).status).toBe(404);
  }
  expect((await under.call('get_data')).body.code).toBe('missing_api_key');
  expect((await fetch(`${origin}/tools/get_data`, { method: 'POST' })).status).toBe(404);
});

test('PUBLIC_URL is what the server calls itself, a prefix that a proxy strips included', async () => {
  await using behind = await createTestApp({ env: { PUBLIC_URL: 'https://example.com/keys/' } });
  expect(await (await fetch(`${behind.url}/`)).text()).toContain('https://example.com/keys/mcp');
  expect((await readResponse(await fetch(`${behind.url}/openapi.json`))).body.servers).toEqual([
    { url: 'https://example.com/keys' },
  ]);
});
