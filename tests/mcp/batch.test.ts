// Batches on /mcp, which only 2025-03-26 and 2024-11-05 have.

import { describe, expect, test } from 'bun:test';
import { defineTool, ok, type ToolDeps } from '../../src/start/package/index.ts';
import { call, META, post, request } from '../support/mcp.ts';
import { bearer, createTestApp, sharedApp } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';

const pings = (count: number) => Array.from({ length: count }, (_, index) => request('ping', undefined, index));

const app = await sharedApp();

describe('a batch', () => {
  test.each([[{}], [{ 'mcp-protocol-version': '2025-03-26' }], [{ 'mcp-protocol-version': '2024-11-05' }]])(
    'with %j gets its responses in its order',
    async (headers) => {
      const { key } = await app.createKey('alice');
      const batch = [
        request('ping', undefined, 'a'),
        { jsonrpc: '2.0', method: 'notifications/x' },
        call('get_data'),
        request('nope', undefined, 3),
        { jsonrpc: '2.0', id: 9, result: {} },
      ];
      const { status, body } = await post(app, batch, { 'x-api-key': key, ...headers });
      expect(status).toBe(200);
      expect(body.map(({ id }: { id: unknown }) => id)).toEqual(['a', 1, 3]);
      expect(body[1].result.structuredContent.owner).toBe('alice');
      expect(body[2].error.code).toBe(-32601);
    },
  );

  test.each([
    [0, 400],
    [1, 200],
    [100, 200],
    [101, 400],
  ])('of %d is %d', async (count, expected) => {
    const { status, body } = await post(app, pings(count));
    expect(status).toBe(expected);
    if (status === 200) expect(body).toHaveLength(count);
    else expect([body.error.code, 'id' in body]).toEqual([-32600, false]);
  });

  test.each(['2025-06-18', '2025-11-25', '2026-07-28'])('is 400 at %s', async (version) => {
    const { status, body } = await post(app, pings(2), { 'mcp-protocol-version': version });
    expect([status, body.error.code]).toEqual([400, -32600]);
  });

  test('of notifications and responses alone is 202', async () => {
    const { status, body } = await post(app, [
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 1, result: {} },
    ]);
    expect([status, body]).toEqual([202, '']);
  });

  test.each([
    ['an initialize', request('initialize', { protocolVersion: '2025-03-26' }, 2)],
    ['a request of 2026-07-28', request('tools/list', { _meta: META }, 2)],
    ['a notification of 2026-07-28', { jsonrpc: '2.0', method: 'notifications/x', params: { _meta: META } }],
    ['an id twice', request('ping')],
  ])('with %s is 400 and runs nothing', async (_what, bad) => {
    const user = await bearer(app, 'carol');
    const { status, body } = await post(app, [call('create_api_key', { name: 'x', scopes: [] }), bad], user);
    expect([status, body.error.code]).toEqual([400, -32600]);
    expect((await app.call('list_api_keys', {}, user)).body.keys).toEqual([]);
  });

  test('shows each message what the key in it can call', async () => {
    const created = await Promise.all([['read'], ['write']].map((scopes) => app.createKey('alice', { scopes })));
    const asked = created.map(({ key }, id) => request('tools/list', { _meta: { api_key: key } }, id));
    const { body } = await post(app, asked);
    const names: string[][] = body.map(({ result }: { result: { tools: { name: string }[] } }) =>
      result.tools.map(({ name }) => name),
    );
    expect(names).toEqual([['whoami', 'get_data'], ['whoami']]);
  });

  test('refuses each element that is not a message on its own', async () => {
    const { status, body } = await post(app, [
      5,
      request('ping', undefined, 'a'),
      { jsonrpc: '2.0', id: 'b', method: 5 },
    ]);
    expect(status).toBe(200);
    expect(body).toMatchObject([
      { error: { code: -32600 } },
      { id: 'a', result: {} },
      { id: 'b', error: { code: -32600 } },
    ]);
    expect('id' in body[0]).toBe(false);
  });

  test('has denials in-band, and no rate limit headers', async () => {
    await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '2' } });
    const { key } = await app.createKey('alice');
    await post(app, call('get_data'), { 'x-api-key': key }); // from now on the key is known
    const batch = [1, 2].map((id) => ({ ...call('get_data'), id }));
    const { status, body, headers } = await post(app, batch, { 'x-api-key': key });
    expect([status, headers.get('ratelimit'), headers.get('retry-after')]).toEqual([200, null, null]);
    expect(body[0].result.structuredContent.owner).toBe('alice');
    expect(body[1].result).toEqual({
      content: [
        { type: 'text', text: 'Rate limit exceeded; try again later' },
        { type: 'text', text: 'Try again in 3600 s' },
      ],
      isError: true,
    });
  });

  test('whose user token expires on its way is refused from then on', async () => {
    const tools = ({ guards }: ToolDeps) => [
      defineTool(anyone, {
        ...noInput('slow'),
        run() {
          app.clock.advance(2 * 60 * 60 * 1000);
          return ok({ content: [] });
        },
      }),
      defineTool(guards.userJwt, {
        ...noInput('for_users'),
        run: (_, { auth }) => ok({ content: [{ type: 'text', text: auth.actor }] }),
      }),
    ];
    await using app = await createTestApp({ tools });
    const batch = [request('tools/list'), call('for_users'), call('slow'), call('for_users')];
    const { body } = await post(
      app,
      batch.map((message, id) => ({ ...message, id })),
      await bearer(app, 'alice'),
    );
    expect(body[1].result).toEqual({ content: [{ type: 'text', text: 'alice' }] });
    expect(body[3].result).toEqual({ content: [{ type: 'text', text: 'The user token has expired' }], isError: true });
  });

  test('refuses what follows once its responses are large, pages included', async () => {
    const reads = Array.from({ length: 100 }, (_, id) =>
      request('resources/read', { uri: 'ui://widget/api-keys-list.html' }, id),
    );
    const { status, body } = await post(app, reads);
    const served = body.filter(({ result }: { result?: object }) => result !== undefined);
    expect([status, body.length]).toEqual([200, 100]);
    expect(served.length).toBeGreaterThan(10);
    expect(JSON.stringify(served).length).toBeLessThan(1024 * 1024 + JSON.stringify(served[0]).length);
    expect(body[99]).toEqual({
      jsonrpc: '2.0',
      id: 99,
      error: {
        code: -31000,
        message: 'The server is at its limit; try again',
        data: { code: 'overloaded', retryAfterS: 1 },
      },
    });
  });

  test('runs no more calls once their responses are large', async () => {
    let runs = 0;
    const large = defineTool(anyone, {
      ...noInput('large'),
      run() {
        runs += 1;
        return ok({ content: [{ type: 'text', text: 'x'.repeat(300 * 1024) }] });
      },
    });
    await using app = await createTestApp({ tools: () => [large] });
    const { status, body } = await post(
      app,
      [1, 2, 3, 4, 5, 6].map((id) => ({ ...call('large'), id })),
    );
    expect([status, body.length, runs]).toEqual([200, 6, 4]);
    expect(body[3].result.isError).toBeUndefined();
    expect(body[4].result).toEqual({
      content: [
        { type: 'text', text: 'The server is at its limit; try again' },
        { type: 'text', text: 'Try again in 1 s' },
      ],
      isError: true,
    });
  });
});
