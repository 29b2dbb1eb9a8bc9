// Headers in which proxies tell what a request was before it reached them. Anybody can send them: except for the two
// that are believed from a trusted proxy (tests/api/production.test.ts), they change nothing.

import { describe, expect, test } from 'bun:test';
import { createIssuer } from '../support/issuer.ts';
import { openSse } from '../support/mcp.ts';
import { PATHS } from '../support/tables.ts';
import { createTestApp, readResponse, type TestApp } from '../support/test-app.ts';

const FORGED: Readonly<Record<string, string>> = {
  forwarded: 'for=192.0.2.1;host=evil.example;proto=https',
  'x-forwarded-host': 'evil.example',
  'x-forwarded-server': 'evil.example',
  'x-forwarded-port': '1',
  'x-forwarded-prefix': '/evil',
  'x-forwarded-path': '/evil',
  'x-forwarded-scheme': 'https',
  'x-forwarded-ssl': 'on',
  'front-end-https': 'on',
  'x-host': 'evil.example',
  'x-original-host': 'evil.example',
  'x-original-url': '/mcp/health',
  'x-rewrite-url': '/mcp/health',
  'x-real-ip': '192.0.2.1',
  'x-client-ip': '192.0.2.1',
  'true-client-ip': '192.0.2.1',
  'cf-connecting-ip': '192.0.2.1',
  'x-http-method-override': 'DELETE',
  'x-method-override': 'DELETE',
  'x-authenticated-user': 'alice',
  'x-forwarded-user': 'alice',
  'x-remote-user': 'alice',
};
/** But for a stream, which has no end, and what says the time. */
const READ = PATHS.filter((path) => path !== '/sse' && path !== '/mcp/health');

/** All of a response, without what differs from one to the next: its id has one digit more at times. */
async function said(app: TestApp, path: string, init: RequestInit): Promise<object> {
  const { status, headers, body } = await readResponse(await fetch(app.url + path, init));
  return {
    status,
    headers: [...headers].filter(([name]) => name !== 'date' && name !== 'content-length'),
    body: typeof body === 'string' ? body : { ...body, requestId: 'any' },
  };
}

describe.each([
  [
    'where no proxy is trusted',
    { NODE_ENV: 'production' },
    { 'x-forwarded-proto': 'https', 'x-forwarded-for': '192.0.2.1' },
  ],
  ['behind a trusted proxy', { NODE_ENV: 'production', TRUST_PROXY: '1' }, {}],
])('%s', (_, env, more) => {
  test('no response differs, alone or with all of them', async () => {
    await using issuer = await createIssuer();
    await using app = await createTestApp({ env: { ...env, JWT_SECRET: undefined, JWT_ISSUER: issuer.url } });
    const forged = { ...FORGED, ...more };
    const kinds = [forged, ...Object.entries(forged).map(([name, value]) => ({ [name]: value }))];
    const key = { 'x-api-key': `sk_live_${'0'.repeat(64)}` };
    for (const path of READ) {
      const plain = await said(app, path, {});
      for (const headers of kinds) expect(await said(app, path, { headers })).toEqual(plain);
    }
    for (const path of ['/tools/get_data', '/tools/create_api_key', '/mcp']) {
      for (const carried of [{}, key]) {
        const plain = await said(app, path, { method: 'POST', headers: carried });
        for (const headers of kinds)
          expect(await said(app, path, { method: 'POST', headers: { ...headers, ...carried } })).toEqual(plain);
      }
    }
    const { endpoint, drop } = await openSse(app, forged);
    expect(endpoint).toMatch(/^\/messages\?sessionId=[0-9a-f-]{36}$/);
    await drop();
  });

  test('a Host that is refused is not accepted because of other headers', async () => {
    await using app = await createTestApp({ env });
    const headers = { host: 'evil.example', 'x-forwarded-host': 'localhost', forwarded: 'host=localhost' };
    expect((await app.call('get_data', {}, headers)).body.code).toBe('host_denied');
  });
});
