// When a client is told by HTTP to sign in, and when a refusal stays in-band.

import { describe, expect, test } from 'bun:test';
import { call, openSse, post, request } from '../../support/mcp.ts';
import { bearer, createTestApp, sharedApp } from '../../support/test-app.ts';

const PING = request('ping');
const UNKNOWN = `sk_test_${'0'.repeat(64)}`;

describe.each(['lazy', 'eager'])('where clients get a key, %s', async (mode) => {
  const app = await sharedApp({ env: { OAUTH_REDIRECTS: 'loopback', MCP_AUTH: mode } });
  const { key } = await app.createKey('alice');
  const user = await bearer(app, 'alice');

  const at = (path: string) =>
    `scope="read", resource_metadata="${app.url}/.well-known/oauth-protected-resource${path}"`;
  const withBearer = (token: string) => ({ authorization: `Bearer ${token}` });

  test.each([
    ['a ping', PING],
    ['a list of tools', request('tools/list')],
    ['a key tool', call('get_data')],
    ['a tool for users', call('list_api_keys')],
    ['a batch', [PING, { ...PING, id: 2 }]],
    ['a notification', { jsonrpc: '2.0', method: 'notifications/initialized' }],
  ])('a bearer token that is none is challenged, whatever its shape, for %s', async (_, body) => {
    for (const token of ['x', UNKNOWN, 'a-key-of-another-form-1', 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.xxxx']) {
      const { status, headers } = await post(app, body, withBearer(token));
      expect(status).toBe(401);
      expect(headers.get('www-authenticate')).toMatch(/^Bearer error="invalid_token", error_description="[^"=]+", /);
      expect(headers.get('www-authenticate')).toEndWith(at('/mcp'));
    }
  });

  test('the call of a key tool without a credential is challenged without an error', async () => {
    const { status, headers } = await post(app, call('get_data'));
    expect([status, headers.get('www-authenticate')]).toEqual([401, `Bearer realm="mcp-key-server", ${at('/mcp')}`]);
    expect(headers.get('ratelimit-policy')).toBe('"key";q=1000;w=3600');
  });

  test('anything else without a credential is challenged only if eager, for want of a key', async () => {
    for (const body of [PING, [call('get_data')], call('list_api_keys')]) {
      const { status, body: problem } = await post(app, body);
      expect(status).toBe(mode === 'eager' ? 401 : 200);
      if (mode === 'eager') expect(problem.code).toBe('missing_api_key');
    }
  });

  const scopeless = (await app.createKey('alice', { scopes: ['write'] })).key;
  const IN_META = call('get_data', {}, { _meta: { api_key: UNKNOWN } });
  test.each([
    ['a wrong X-API-Key', { 'x-api-key': UNKNOWN }, call('get_data'), 'Invalid or expired API key'],
    ['a wrong key in the metadata of a call', {}, IN_META, 'Invalid or expired API key'],
    ['a key without the scope', withBearer(scopeless), call('get_data'), 'Insufficient permissions'],
    ['a user token for a key tool', user, call('get_data'), 'This tool needs an API key; a user token was sent'],
    [
      'a key for a tool for users',
      withBearer(key),
      call('list_api_keys'),
      'This tool needs a user token; an API key was sent',
    ],
    ['a wrong bearer token beside an X-API-Key', { 'x-api-key': key, ...withBearer('x') }, call('get_data'), null],
  ])('%s stays in-band', async (_, headers: Record<string, string>, message, sentence) => {
    const { status, body } = await post(app, message, headers);
    expect([status, body.result.isError]).toEqual([200, sentence === null ? undefined : true]);
    if (sentence !== null) expect(body.result.content[0].text).toBe(sentence);
  });

  test('a tool for users says in-band where keys are managed, and works with a user token', async () => {
    const { body } = await post(app, call('create_api_key', { name: 'n', scopes: [] }), withBearer(key));
    expect(body.result.content.map(({ text }: { text: string }) => text)).toEqual([
      'This tool needs a user token; an API key was sent',
      `This tool needs a user token; keys are managed at ${app.url}/keys`,
    ]);
    expect((await post(app, call('list_api_keys'), user)).body.result.isError).toBeUndefined();
  });

  test('where there is no page for keys, no page is named', async () => {
    await using without = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback', MCP_AUTH: mode, KEYS_PAGE: '0' } });
    const { key } = await without.createKey('alice');
    const { body } = await post(without, call('list_api_keys'), withBearer(key));
    expect(body.result.content[1].text).toBe('This tool needs a user token');
  });

  test('the check of a bearer token counts no use, and completes no rotation', async () => {
    const { id } = await app.createKey('bob');
    const bob = await bearer(app, 'bob');
    const { key: next } = (await app.call('rotate_api_key', { keyId: id }, bob)).body;
    expect((await post(app, PING, withBearer(next))).status).toBe(200);
    const session = await openSse(app, withBearer(next));
    await session.post(PING, withBearer(next));
    await session.drop();
    const [listed] = (await app.call('list_api_keys', {}, bob)).body.keys;
    expect([listed.rotation.state, listed.lastUsedAt]).toEqual(['until_first_use', undefined]);
  });

  test('/sse and /messages are challenged with the metadata of /sse', async () => {
    const opened = await fetch(`${app.url}/sse`, { headers: withBearer(UNKNOWN) });
    expect([opened.status, opened.headers.get('www-authenticate')?.endsWith(at('/sse'))]).toEqual([401, true]);
    const session = await openSse(app);
    const refused = await session.post(call('get_data'));
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      401,
      `Bearer realm="mcp-key-server", ${at('/sse')}`,
    ]);
    const ended = await session.post(PING, withBearer(UNKNOWN));
    expect([ended.status, ended.headers.get('www-authenticate')?.endsWith(at('/sse'))]).toEqual([401, true]);
    expect((await session.post(PING)).status).toBe(202);
    await session.drop();
  });

  test('a foreign session is 404 before its credential is judged', async () => {
    const session = await openSse(app, withBearer(key));
    expect((await session.post(PING, withBearer(UNKNOWN))).status).toBe(404);
    await session.drop();
  });
});
