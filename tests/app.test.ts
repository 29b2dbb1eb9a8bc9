// Paths, methods, and the order of the checks that come before any handler.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { postText, sendOverSocket } from './support/http-socket.ts';
import { PATHS } from './support/tables.ts';
import { bearer, createTestApp, readResponse, type TestApp } from './support/test-app.ts';

let app: TestApp;
beforeAll(async () => {
  app = await createTestApp();
});
afterAll(() => app.close());

const fetched = async (path: string, init?: RequestInit) => readResponse(await fetch(app.url + path, init));

describe('paths', () => {
  test('GET / says what this is, in plain text', async () => {
    const { status, headers, body } = await fetched('/');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
    for (const said of ['mcp-key-server', 'MCP server', '1.0.0', 'not a website', 'MCP client']) {
      expect(body).toContain(said);
    }
    for (const path of ['/tools/<tool_name>', '/mcp', '/sse', '/mcp/health', '/widgets/preview', '/openapi.json']) {
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
  test.each([
    ['POST', '/', 'GET, HEAD'],
    ['DELETE', '/mcp/health', 'GET, HEAD'],
    ['PUT', '/openapi.json', 'GET, HEAD'],
    ['GET', '/tools/get_data', 'POST'],
    ['HEAD', '/tools/get_data', 'POST'],
    ['PATCH', '/tools/get_data', 'POST'],
  ])('%s %s is 405, and Allow says %s', async (method, path, allow) => {
    const { status, headers, body } = await fetched(path, { method });
    expect(status).toBe(405);
    expect(headers.get('allow')).toBe(allow);
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
  const send = (head: string) => sendOverSocket(app.url, `${head}\r\n\r\n`);
  const codeOf = ({ body }: { body: string }) => JSON.parse(body).code as string;
  const headers = (named: Record<string, string>) =>
    Object.entries(named)
      .map(([name, value]) => `${name}: ${value}`)
      .join('\r\n');

  test('host before origin', async () => {
    expect(codeOf(await send(`GET /nope HTTP/1.1\r\n${headers(EVIL)}`))).toBe('host_denied');
  });

  test('origin before route', async () => {
    expect(codeOf(await send(`GET /nope HTTP/1.1\r\n${headers({ ...EVIL, Host: 'localhost' })}`))).toBe(
      'origin_denied',
    );
  });

  test('route before method', async () => {
    expect(codeOf(await send('PUT /nope HTTP/1.1\r\nHost: localhost'))).toBe('not_found');
  });

  const post = (body: string, named: Record<string, string> = {}, to = app) =>
    sendOverSocket(to.url, postText('/tools/get_data', body, named)).then(codeOf);

  test('method before HTTPS, HTTPS before media type', async () => {
    await using production = await createTestApp({ env: { NODE_ENV: 'production' } });
    const credential = 'X-API-Key: sk_live_x';
    const put = await sendOverSocket(
      production.url,
      `PUT /tools/get_data HTTP/1.1\r\nHost: localhost\r\n${credential}\r\n\r\n`,
    );
    expect(codeOf(put)).toBe('method_not_allowed');
    expect(await post('x', { 'Content-Type': 'text/plain', 'X-API-Key': 'x' }, production)).toBe('https_required');
  });

  test('media type before size', async () => {
    expect(await post('x', { 'Content-Type': 'text/plain', 'Content-Length': '2000000' })).toBe(
      'unsupported_media_type',
    );
  });

  test('size before JSON', async () => {
    expect(await post('x', { 'Content-Length': '2000000' })).toBe('payload_too_large');
  });

  test('JSON before credential', async () => {
    expect(await post('x')).toBe('invalid_json');
  });

  test.each(['/authorize', '/device/request', '/device/decision'])(
    'size and JSON before credential at %s, where the page sends what a person decides',
    async (path) => {
      await using asked = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' } });
      const decide = (named = {}) => sendOverSocket(asked.url, postText(path, 'x', named)).then(codeOf);
      expect(await decide({ 'Content-Length': '2000000' })).toBe('payload_too_large');
      expect(await decide()).toBe('invalid_json');
      expect(await decide({ Authorization: 'Bearer x' })).toBe('invalid_json');
    },
  );

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
