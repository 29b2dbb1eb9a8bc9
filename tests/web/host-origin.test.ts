// Which hosts are accepted, and which pages may call. When credentials need HTTPS is in api/production.test.ts.

import { describe, expect, test } from 'bun:test';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import { createTestApp, sharedApp, type TestApp } from '../support/test-app.ts';

const asked = (app: TestApp, host: string, path = '/') =>
  sendOverSocket(app.url, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);

const from = (app: TestApp, origin: string, init: RequestInit = {}, path = '/tools/get_data') =>
  fetch(app.url + path, { method: 'POST', ...init, headers: { origin, ...init.headers } });

const app = await sharedApp();

describe('host', () => {
  test('by default loopback names and IP literals are accepted, other names are not', async () => {
    for (const host of 'localhost LOCALHOST:3000 a.localhost 127.0.0.1 127.9.9.9:1 [::1]:3000 10.1.2.3'.split(' ')) {
      expect((await asked(app, host)).status).toBe(200);
    }
    for (const host of [
      'evil.example',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'localhost.',
      'a@localhost',
      'a b',
    ]) {
      const { status, body } = await asked(app, host);
      expect({ host, status }).toEqual({ host, status: expect.any(Number) });
      // The runtime itself refuses text that is no host at all.
      if (body !== '') expect(JSON.parse(body)).toMatchObject({ status: 403, code: 'host_denied' });
      expect(status).toBeGreaterThanOrEqual(400);
    }
  });

  test('a header that only begins like a host is refused, on any path', async () => {
    for (const host of [
      '',
      'localhost?',
      'localhost#',
      'localhost/',
      'localhost/x',
      'localhost:1:2',
      'localhost\\x',
      'a:b@localhost',
      '?',
    ]) {
      for (const path of ['/', '/widgets/preview?data=one', '/messages?sessionId=x', '/tools/get_data']) {
        const { status, body } = await asked(app, host, path);
        expect({ host, path, status, code: JSON.parse(body).code }).toMatchObject({ status: 403, code: 'host_denied' });
      }
    }
  });

  test("PUBLIC_URL's host is accepted", async () => {
    await using app = await createTestApp({ env: { PUBLIC_URL: 'https://keys.example' } });
    expect((await asked(app, 'keys.example')).status).toBe(200);
    expect((await asked(app, 'Keys.Example:443')).status).toBe(200);
    expect((await asked(app, 'other.example')).status).toBe(403);
  });

  test('ALLOWED_HOSTS replaces the names, and IP literals still pass', async () => {
    await using app = await createTestApp({ env: { ALLOWED_HOSTS: 'keys.example,b.example' } });
    expect((await asked(app, 'keys.example')).status).toBe(200);
    expect((await asked(app, 'B.example:8080')).status).toBe(200);
    expect((await asked(app, 'localhost')).status).toBe(403);
    expect((await asked(app, '192.0.2.1')).status).toBe(200);
  });

  test('an HTTP/1.0 request without Host is accepted, as old probes send it', async () => {
    for (const path of ['/', '/mcp/health', '/openapi.json?x=1', '/widgets/preview?theme=dark']) {
      expect((await sendOverSocket(app.url, `GET ${path} HTTP/1.0\r\n\r\n`)).status).toBe(200);
    }
    expect((await sendOverSocket(app.url, 'GET /nope HTTP/1.0\r\n\r\n')).status).toBe(404);
    // With an empty Host, or one that is not a name, it is refused.
    for (const host of ['', 'a/b', '?', 'a b']) expect((await asked(app, host)).status).toBe(403);
    for (const host of ['a/b', 'pod-17.cluster.internal']) {
      expect((await asked(app, host, '/mcp/health')).status).toBe(200); // which responds to any name
    }
  });

  test('a denied host is named in the log, cut to 100 characters and without secrets', async () => {
    await using app = await createTestApp();
    const hosts = ['evil.example:80', 'x'.repeat(101), `sk_test_${'0'.repeat(64)}.example`, `a${'0'.repeat(64)}`];
    const shown = [
      'evil.example:80',
      'x'.repeat(100),
      '[redacted].example',
      `a${'0'.repeat(64)}`, // not a hash: it has one character more
    ];
    for (const host of hosts) expect((await asked(app, host)).status).toBe(403);
    expect((await asked(app, `0${'ab'.repeat(31)}c`)).status).toBe(403);
    const lines = (await app.log()).filter(({ event }) => event === 'request refused');
    expect(lines.map(({ level, code, host }) => ({ level, code, host }))).toEqual(
      [...shown, '[redacted]'].map((host) => ({ level: 'warn', code: 'host_denied', host })),
    );
  });
});

describe('origin', () => {
  test('a denied origin is named in the log, cut to 100 characters and without control characters', async () => {
    await using app = await createTestApp();
    const origins = ['https://evil.example', `https://${'x'.repeat(200)}.example`, 'https://a\tb\x7fc.example', ''];
    for (const origin of origins) {
      const response = await sendOverSocket(app.url, postText('/tools/get_data', '{}', { Origin: origin }));
      expect(response.status).toBe(403);
    }
    const lines = (await app.log()).filter(({ event }) => event === 'request refused');
    expect(lines.map(({ level, code, origin }) => ({ level, code, origin }))).toEqual(
      ['https://evil.example', `https://${'x'.repeat(92)}`, 'https://abc.example', ''].map((origin) => ({
        level: 'warn',
        code: 'origin_denied',
        origin,
      })),
    );
  });

  test('by default loopback origins and the public one may call', async () => {
    await using app = await createTestApp({ env: { PUBLIC_URL: 'https://keys.example/base' } });
    for (const origin of ['http://localhost:5173', 'https://127.0.0.1', 'http://[::1]:8080', 'https://keys.example']) {
      const response = await from(app, origin);
      expect(response.status).toBe(401);
      expect(response.headers.get('access-control-allow-origin')).toBe(origin);
      expect(response.headers.get('vary')).toContain('Origin');
    }
    for (const origin of 'https://evil.example null http://keys.example https://keys.example:8443 https://keys.example.evil.example file:// https://keys.example/path chrome-extension://abc'.split(
      ' ',
    )) {
      const response = await from(app, origin);
      expect({ origin, status: response.status, code: (await response.json()).code }).toEqual({
        origin,
        status: 403,
        code: 'origin_denied',
      });
      expect(response.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  test('ALLOWED_ORIGINS replaces the allowed origins, but that of PUBLIC_URL, whose page calls, too', async () => {
    const env = { ALLOWED_ORIGINS: 'https://app.example', PUBLIC_URL: 'https://keys.example/api' };
    await using app = await createTestApp({ env });
    expect((await from(app, 'https://app.example')).status).toBe(401);
    expect((await from(app, 'https://keys.example')).status).toBe(401);
    expect((await from(app, 'http://localhost')).status).toBe(403);
  });
});

describe('CORS preflight', () => {
  const ask = (app: TestApp, origin: string, headers: Record<string, string> = {}, path?: string) =>
    from(app, origin, { method: 'OPTIONS', headers: { 'access-control-request-method': 'POST', ...headers } }, path);

  test('an allowed origin may send credentials, JSON and MCP headers, and read the denials', async () => {
    const { status, headers } = await ask(app, 'http://localhost:5173');
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe('http://localhost:5173');
    expect(headers.get('access-control-allow-methods')).toContain('POST');
    const allowed = headers.get('access-control-allow-headers')?.toLowerCase().split(', ');
    for (const name of 'authorization content-type x-api-key accept mcp-protocol-version traceparent tracestate baggage mcp-session-id mcp-method mcp-name last-event-id'.split(
      ' ',
    )) {
      expect(allowed).toContain(name);
    }
    const exposed = (await from(app, 'http://localhost:5173')).headers.get('access-control-expose-headers');
    expect(exposed?.split(', ')).toEqual(['WWW-Authenticate', 'Retry-After', 'RateLimit', 'RateLimit-Policy']);
  });

  test('Mcp-Param headers are allowed when asked for, others are not', async () => {
    const { headers } = await ask(app, 'http://localhost', {
      'access-control-request-headers': 'mcp-param-region,mcp-param-tenant.id, x-other',
    });
    expect(headers.get('access-control-allow-headers')).toEndWith(', mcp-param-region, mcp-param-tenant.id');
    expect(headers.get('access-control-allow-headers')).not.toContain('x-other');
  });

  test('a denied origin gets 403 and no permission', async () => {
    const { status, headers } = await ask(app, 'https://evil.example');
    expect(status).toBe(403);
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(headers.get('access-control-allow-headers')).toBeNull();
  });
});

test.each([
  'chrome-extension://abcdefghijklmnop',
  'moz-extension://0a1b-2c',
  'app://obsidian.md',
  'tauri://localhost',
  'vscode-webview://0abc1',
])('the origin %s of an extension or a desktop app is admitted once it is listed, exactly', async (listed) => {
  await using listing = await createTestApp({ env: { ALLOWED_ORIGINS: `https://app.example, ${listed}` } });
  const { key } = await listing.createKey('alice');
  const statusOf = async (origin: string) => (await from(listing, origin, { headers: { 'x-api-key': key } })).status;
  const admitted = await from(listing, listed, { headers: { 'x-api-key': key } });
  expect([admitted.status, admitted.headers.get('access-control-allow-origin')]).toEqual([200, listed]);
  for (const other of [`${listed}x`, `${listed}/`, listed.replace('://', '://x'), 'null', 'file://']) {
    expect([other, await statusOf(other)]).toEqual([other, 403]);
  }
  expect((await from(app, listed)).status).toBe(403);
});
