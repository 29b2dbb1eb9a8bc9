// A key that was good and has ended is HTTP 401 for the whole POST: hosts run their helper for another key only then. A
// key that nobody knows, and one whose owner is blocked, are refused in-band.

import { describe, expect, test } from 'bun:test';
import { defineTool, ok } from '../../../src/start/package/index.ts';
import { childOf } from '../../support/children.ts';
import { ACCEPT, call, type HeaderMap, modern, openSse, post, request } from '../../support/mcp.ts';
import { shared } from '../../support/shared.ts';
import { bearer, createTestApp, type TestApp, type TestResponse } from '../../support/test-app.ts';
import { anyone, noInput } from '../../support/tools.ts';

const DAY_MS = 86_400_000;

let ran = 0;
const counting = defineTool(anyone, {
  ...noInput('counting'),
  run() {
    ran += 1;
    return ok({ content: [] });
  },
});

const start = (env: Record<string, string> = {}) =>
  createTestApp({ env, toolFiles: [{ file: 'counting', make: () => counting }] });

const revoke = async (app: TestApp, keyId: string) => app.call('revoke_api_key', { keyId }, await bearer(app, 'alice'));

const rotate = async (app: TestApp, keyId: string, overlapHours: number) =>
  app.call('rotate_api_key', { keyId, overlapHours }, await bearer(app, 'alice'));

const PARENT = { scopes: ['read', 'delegate'] };

/** Each makes a key that has ended, and is on record. */
const ENDED: Readonly<Record<string, (app: TestApp) => Promise<string>>> = {
  async revoked(app) {
    const { id, key } = await app.createKey('alice');
    await revoke(app, id);
    return key;
  },
  async expired(app) {
    const { key } = await app.createKey('alice', { expiresInDays: 1 });
    app.clock.sleep(DAY_MS + 1);
    return key;
  },
  async 'a previous secret whose overlap is over'(app) {
    const { id, key } = await app.createKey('alice');
    await app.useKey((await rotate(app, id, 1)).body.key);
    app.clock.sleep(2 * 3_600_000);
    return key;
  },
  async 'a child that was ended'(app) {
    const child = await childOf(app, (await app.createKey('alice', PARENT)).key);
    await revoke(app, child.id);
    return child.key;
  },
  async 'a child that has expired, for a day'(app) {
    const child = await childOf(app, (await app.createKey('alice', PARENT)).key, { expires_in: '60' });
    app.clock.sleep(DAY_MS);
    return child.key;
  },
  async 'a child whose parent was revoked'(app) {
    const parent = await app.createKey('alice', PARENT);
    const child = await childOf(app, parent.key);
    await revoke(app, parent.id);
    return child.key;
  },
};

/** Each makes a key that is good for nothing, but has not ended. */
const IN_BAND: Readonly<Record<string, (app: TestApp) => Promise<string>>> = {
  unknown: async () => `sk_test_${'0'.repeat(64)}`,
  async deleted(app) {
    const { id, key } = await app.createKey('alice');
    await app.call('delete_api_key', { keyId: id }, await bearer(app, 'alice'));
    return key;
  },
  async replaced(app) {
    const { id, key } = await app.createKey('alice');
    await rotate(app, id, 0);
    return key;
  },
  async blocked(app) {
    const { key } = await app.createKey('bob');
    await app.keys('block', 'bob');
    app.clock.sleep(1000);
    return key;
  },
};

const PING = request('ping');
const progress = { _meta: { progressToken: 1 } };

type Send = (app: TestApp, headers: HeaderMap) => Promise<TestResponse>;

const sends =
  (body: unknown): Send =>
  (app, headers) =>
    post(app, body, headers);

const sendsModern =
  (method: string, params: Record<string, unknown> = {}, accept = ACCEPT): Send =>
  (app, headers) => {
    const made = modern(method, params);
    return post(app, made.body, { ...made.headers, accept, ...headers });
  };

/** Everything that can be posted. */
const POSTS: Readonly<Record<string, Send>> = {
  'a key tool': sends(call('get_data')),
  'a key tool with progress': sends(call('get_data', {}, progress)),
  'a key tool with arguments that are no object': sends(request('tools/call', { name: 'get_data', arguments: [] })),
  'a list of the name of a key tool': sends(request('tools/call', { name: ['get_data'] })),
  'a tool for everybody': sends(call('counting')),
  'a tool for everybody with progress': sends(call('counting', {}, progress)),
  'a tool for users': sends(call('list_api_keys')),
  'a tool that is not there': sends(call('nothing')),
  'a list': sends(request('tools/list')),
  'a ping': sends(PING),
  initialize: sends(request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: {} })),
  'a notification': sends({ jsonrpc: '2.0', method: 'notifications/initialized' }),
  'a batch': sends([PING, { ...call('counting'), id: 2 }]),
  'no message': sends({}),
  'a key tool of 2026-07-28': sendsModern('tools/call', { name: 'get_data', arguments: {} }),
  'a key tool of 2026-07-28 as an event': sendsModern('tools/call', { name: 'get_data' }, 'text/event-stream'),
  'a key tool of 2026-07-28 with a wrong state': sendsModern('tools/call', { name: 'get_data', requestState: 7 }),
  'a tool for everybody of 2026-07-28': sendsModern('tools/call', { name: 'counting', arguments: {} }),
  'a list of 2026-07-28': sendsModern('tools/list'),
  'server/discover': sendsModern('server/discover'),
};

/** What can be posted in a session. */
const MESSAGES = [call('get_data'), call('counting'), PING, { jsonrpc: '2.0', method: 'notifications/x' }, {}, []];

const TWO_WAYS: readonly [string, (key: string) => HeaderMap][] = [
  ['X-API-Key', (key) => ({ 'x-api-key': key })],
  ['Bearer', (key) => ({ authorization: `Bearer ${key}` })],
];

const CHALLENGE = 'Bearer error="invalid_token", error_description="Invalid or expired API key"';

describe.each([
  ['without Connect', {}],
  ['with Connect', { OAUTH_REDIRECTS: 'loopback' }],
])('%s', async (mode, env: Record<string, string>) => {
  const app = await shared(start(env));

  const expectEnded = (what: string, header: string, { status, headers, body }: TestResponse) => {
    expect([what, status, body.code]).toEqual([what, 401, 'invalid_api_key']);
    const challenge = headers.get('www-authenticate') ?? '';
    expect([what, challenge]).toEqual([what, expect.stringContaining(CHALLENGE)]);
    const isNamed = mode === 'with Connect' && header === 'Bearer';
    expect([what, challenge.includes('resource_metadata=')]).toEqual([what, isNamed]);
  };

  describe.each(Object.entries(ENDED))('%s', (_ending, make) => {
    test.each(TWO_WAYS)('in %s it is 401 on /mcp, whatever is posted, and nothing runs', async (header, headersOf) => {
      const key = await make(app);
      ran = 0;
      for (const [what, send] of Object.entries(POSTS)) expectEnded(what, header, await send(app, headersOf(key)));
      expect(ran).toBe(0);
    });

    test.each(TWO_WAYS)(
      'in %s it is 401 on /messages, in a session of nobody and of its owner',
      async (header, headersOf) => {
        const key = await make(app);
        const sessions = [await openSse(app), await openSse(app, await bearer(app, 'alice'))];
        for (const session of sessions) {
          for (const message of MESSAGES) {
            const response = await session.post(message, { authorization: '', ...headersOf(key) });
            expectEnded(JSON.stringify(message), header, response);
          }
        }
        const others = await openSse(app, await bearer(app, 'mallory'));
        for (const message of MESSAGES) {
          expect((await others.post(message, { authorization: '', ...headersOf(key) })).status).toBe(404);
        }
      },
    );

    test('beside a user token, too; in the metadata of a message it is refused in-band', async () => {
      const key = await make(app);
      const user = await bearer(app, 'alice');
      expectEnded('beside a token', 'X-API-Key', await post(app, call('list_api_keys'), { ...user, 'x-api-key': key }));
      const { status, body } = await post(app, call('counting', {}, { _meta: { api_key: key } }), user);
      expect([status, body.result]).toEqual([200, { content: [] }]);
      expect((await post(app, call('list_api_keys', {}, { _meta: { api_key: key } }), user)).status).toBe(200);
      expect((await post(app, request('tools/list', { _meta: { api_key: key } }))).status).toBe(200);
    });
  });

  test.each(Object.entries(IN_BAND))('a key that is %s stays in-band in X-API-Key', async (_what, make) => {
    const headers = { 'x-api-key': await make(app) };
    for (const [what, send] of Object.entries(POSTS)) {
      const { status } = await send(app, headers);
      expect([what, status === 401]).toEqual([what, false]);
    }
    const { result } = (await post(app, call('get_data'), headers)).body;
    expect(result).toEqual({ content: [{ type: 'text', text: 'Invalid or expired API key' }], isError: true });
  });

  test('the log says why, and of which key', async () => {
    const { id, key } = await app.createKey('alice');
    await revoke(app, id);
    for (const send of [POSTS['a ping'], POSTS['a key tool'], POSTS['a batch']]) {
      const { body } = await (send as Send)(app, { 'x-api-key': key });
      const lines = (await app.log()).filter(({ requestId }) => requestId === body.requestId);
      expect(lines).toMatchObject([{ event: 'Invalid or expired API key', reason: 'revoked', keyId: id }]);
    }
  });
});
