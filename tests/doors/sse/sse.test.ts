// The HTTP+SSE transport of 2024-11-05: GET /sse and POST /messages.

import { describe, expect, test } from 'bun:test';
import { defineTool, ok, type ToolDeps } from '../../../src/start/package/index.ts';
import { createAuthorizationServer } from '../../support/authorization-server.ts';
import { postJson } from '../../support/client.ts';
import { testClock } from '../../support/clock.ts';
import { parseResponses } from '../../support/http-responses.ts';
import { openHttpSocket } from '../../support/http-socket.ts';
import { ACCEPT, call, openSse, post, request, WITH_WIDGETS } from '../../support/mcp.ts';
import { sessionsOf } from '../../support/sse-socket.ts';
import {
  bearer,
  createTestApp,
  insertKey,
  NO_CONNECTION,
  readResponse,
  sharedApp,
  type TestApp,
} from '../../support/test-app.ts';
import { anyone, noInput, steeredTool } from '../../support/tools.ts';
import { waitFor } from '../../support/wait-for.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} }, 0);

const NO_SESSION = {
  type: 'about:blank',
  title: 'Not Found',
  status: 404,
  detail: 'No such session here; behind a balancer /sse needs sticky routing',
  code: 'session_not_found',
  requestId: expect.stringMatching(/./),
};

const app = await sharedApp();

describe('GET /sse', () => {
  test('is an event stream that first says where to post', async () => {
    const response = await fetch(`${app.url}/sse`, { headers: { origin: 'http://localhost:1' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('http://localhost:1');
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('cache-control')).toContain('no-cache');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    await response.body?.cancel();
    const { endpoint } = await openSse(app);
    expect(endpoint.startsWith('/messages?sessionId=')).toBe(true);
    expect(endpoint.split('=')[1]).toMatch(UUID);
  });

  test.each([
    [{ BASE_PATH: '/keys' }, '/keys/messages'],
    [{ PUBLIC_URL: 'https://example.com/some/where' }, '/some/where/messages'],
    [{ PUBLIC_URL: 'https://example.com/' }, '/messages'],
  ])('names the path that clients see with %j', async (env, path) => {
    await using app = await createTestApp({ env });
    const response = await fetch(`${app.url}/sse`);
    const text = new TextDecoder().decode((await response.body?.getReader().read())?.value);
    expect(text).toStartWith(`event: endpoint\ndata: ${path}?sessionId=`);
  });

  test('HEAD opens no session', async () => {
    const before = await sessionsOf(app.url);
    // Bypasses the runtime, which would end the body of a response to HEAD, and a session with it.
    const head = new Request(`${app.url}/sse`, { method: 'HEAD' });
    const { status, headers } = await app.handler.fetch(head, NO_CONNECTION);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(await sessionsOf(app.url)).toBe(before);
  });
});

describe('POST /messages', () => {
  test('is 202, and the response comes on the stream', async () => {
    const session = await openSse(app);
    const { status, body } = await session.post(initialize);
    expect([status, body]).toEqual([202, '']);
    expect(await session.nextMessage()).toMatchObject({ id: 0, result: { protocolVersion: '2024-11-05' } });
    expect((await session.post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202);
    await session.post(request('tools/list', undefined, 'list'));
    expect((await session.nextMessage()).result.tools).toContainEqual(expect.objectContaining({ name: 'get_data' }));
    await session.post(request('nope', undefined, 2));
    expect(await session.nextMessage()).toMatchObject({ id: 2, error: { code: -32601 } });
  });

  test.each([
    ['no session id', '/messages', 400, { code: 'invalid_input' }],
    ['an empty one', '/messages?sessionId=', 400, { code: 'invalid_input' }],
    ['an unknown one', '/messages?sessionId=00000000-0000-4000-8000-000000000000', 404, NO_SESSION],
    ['one that is no id', '/messages?sessionId=__proto__', 404, NO_SESSION],
  ])('%s', async (_what, path, status, problem) => {
    const response = await readResponse(await postJson(app.url + path, request('ping')));
    expect(response).toMatchObject({ status, body: problem });
    expect(JSON.stringify(response.body)).not.toContain('tool');
  });

  test('a session that is none is said before what is wrong with the body', async () => {
    for (const [query, status] of [
      ['', 400],
      ['?sessionId=none', 404],
    ] as const)
      expect((await fetch(`${app.url}/messages${query}`, { method: 'POST', body: '{' })).status).toBe(status);
  });

  test('two in one packet are both answered, even before the first stream', async () => {
    await using app = await createTestApp();
    const message = JSON.stringify(request('ping'));
    const head = `POST /messages?sessionId=none HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
    const written = (header: string) => `${head}${header}Content-Length: ${message.length}\r\n\r\n${message}`;
    const connection = await openHttpSocket(app.url);
    connection.socket.write(written('') + written('Connection: close\r\n'));
    await connection.closed;
    const { responses } = parseResponses(connection.received(), false);
    expect(responses.map(({ status }) => status)).toEqual([404, 404]);
  });

  test.each<[string, string, Record<string, string>, number, unknown]>([
    ['no JSON', '{"jsonrpc"', {}, 400, -32700],
    ['no body', '', {}, 400, -32700],
    ['no message', '{}', {}, 400, -32600],
    ['a batch', JSON.stringify([request('ping')]), {}, 400, -32600],
    ['an id null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', {}, 400, -32600],
    ['another media type', '{}', { 'content-type': 'text/plain' }, 415, undefined],
    ['too much', JSON.stringify(request('ping', { x: 'x'.repeat(1024 * 1024) })), {}, 413, undefined],
  ])('%s is an error in the response to the POST', async (_what, message, headers, status, code) => {
    const session = await openSse(app);
    const response = await session.post(message, headers);
    expect([response.status, response.body.error?.code]).toEqual([status, code]);
    await session.post(request('ping', undefined, 'still here'));
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'still here', result: {} });
  });

  test('each is authenticated by its own headers', async () => {
    const { key } = await app.createKey('alice');
    const session = await openSse(app);
    await session.post(call('get_data'));
    expect((await session.nextMessage()).result.content[0].text).toBe('No API key provided');
    await session.post(call('get_data'), { 'x-api-key': key });
    expect((await session.nextMessage()).result.structuredContent.owner).toBe('alice');
    await session.post(call('get_data', {}, { _meta: { api_key: key } }));
    expect((await session.nextMessage()).result.structuredContent.owner).toBe('alice');
    await session.post(call('list_api_keys'), await bearer(app, 'alice'));
    expect((await session.nextMessage()).result.structuredContent.keys).toHaveLength(1);
  });

  test('a tool can ask for the address after the 202 that ends the request', async () => {
    const asks = ({ guards }: ToolDeps) =>
      defineTool(guards.apiKey, {
        ...noInput('asks'),
        async run(_input, { clientAddress }) {
          await Bun.sleep(50);
          return ok({ content: [{ type: 'text', text: clientAddress() }] });
        },
      });
    await using app = await createTestApp({ tools: asks });
    const session = await openSse(app, { 'x-api-key': await insertKey(app, 'alice') });
    expect((await session.post(call('asks'))).status).toBe(202);
    expect((await session.nextMessage()).result.content).toEqual([{ type: 'text', text: '127.0.0.1' }]);
    await session.drop();
  });

  test('a bug fails its own request, not the stream', async () => {
    const run = () => Promise.reject(new Error('oops'));
    const broken = defineTool(anyone, { ...noInput('broken'), run });
    await using own = await createTestApp({ tools: () => [broken] });
    const session = await openSse(own);
    await session.post(call('broken'));
    expect(await session.nextMessage()).toMatchObject({ id: 1, error: { code: -32603 } });
    await session.post(request('ping', undefined, 2));
    expect((await session.nextMessage()).id).toBe(2);
  });
});

const cancelled = (requestId: unknown) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
});

/** Credentials as headers, by what they are. */
async function credentialsIn(app: TestApp): Promise<Record<string, Record<string, string>>> {
  const key = async (sub: string) => ({ 'x-api-key': (await app.createKey(sub)).key });
  return {
    'no credential': {},
    'a token of hers': await bearer(app, 'alice'),
    'a key of hers': await key('alice'),
    'a token of another user': await bearer(app, 'mallory'),
    'a key of another user': await key('mallory'),
    'a token that is none': { authorization: 'Bearer nonsense' },
    'a key that is none': { 'x-api-key': `sk_test_${'0'.repeat(64)}` },
    'a token of hers and a key of another user': { ...(await bearer(app, 'alice')), ...(await key('mallory')) },
    'a token of another user and a key that is none': { ...(await bearer(app, 'mallory')), 'x-api-key': 'nonsense' },
  };
}
const HERS = ['a token of hers', 'a key of hers', 'a token of hers and a key of another user'];
const NOBODYS = ['no credential', 'a token that is none', 'a key that is none'];

describe('a session belongs to somebody', () => {
  test.each(HERS)('opened with %s: others find nothing there, and change nothing', async (opener) => {
    const all = await credentialsIn(app);
    if (opener === 'a token of hers and a key of another user') delete all['a token of another user'];
    const session = await openSse(app, all[opener]);
    const as = (headers: Record<string, string> = {}) => ({ authorization: '', 'x-api-key': '', ...headers });
    for (const [who, headers] of Object.entries(all)) {
      const isHers = HERS.includes(who) || (opener.includes('another') && who.includes('another'));
      for (const [message, hersIs] of [
        [request('ping', undefined, who), 202],
        [call('get_data'), 202],
        [cancelled(1), 202],
        [{}, 400],
      ] as const) {
        const { status, body } = await session.post(message, as(headers));
        expect([who, status]).toEqual([who, isHers ? hersIs : 404]);
        if (!isHers) expect(body).toEqual(NO_SESSION);
      }
      if (!isHers) continue;
      expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: who, result: {} });
      expect((await session.nextMessage()).id).toBe(1);
    }
  });

  test.each(NOBODYS)('opened with %s, to nobody, until a valid credential is sent to it', async (opener) => {
    const all = await credentialsIn(app);
    const session = await openSse(app, all[opener]);
    const as = (who: string) => ({ authorization: '', 'x-api-key': '', ...all[who] });
    for (const who of NOBODYS) {
      expect((await session.post(request('tools/list', undefined, who), as(who))).status).toBe(202);
      expect((await session.nextMessage()).id).toBe(who);
    }
    expect((await session.post(initialize, as('a key of hers'))).status).toBe(202);
    for (const who of NOBODYS) expect((await session.post(request('ping'), as(who))).body).toEqual(NO_SESSION);
    expect((await session.post(request('ping'), as('a token of another user'))).body).toEqual(NO_SESSION);
    expect((await session.post(request('ping'), as('a token of hers'))).status).toBe(202);
  });

  test('a key in _meta makes it somebody’s, too, and opens it with any message', async () => {
    const session = await openSse(app);
    const meta = { _meta: { api_key: (await app.createKey('alice')).key } };
    expect((await session.post(call('get_data', {}, meta))).status).toBe(202);
    const other = { _meta: { api_key: (await app.createKey('mallory')).key } };
    for (const [params, status] of [
      [undefined, 404],
      [other, 404],
      [meta, 202],
    ] as const) {
      expect((await session.post(request('ping', params))).status).toBe(status);
      expect((await session.post(call('get_data', {}, params))).status).toBe(status);
      expect((await session.post({ ...cancelled(7), params: { requestId: 7, ...params } })).status).toBe(status);
    }
  });

  test('whoever opened it may come back with a newer token', async () => {
    await using app = await createTestApp();
    const session = await openSse(app, await bearer(app, 'alice'));
    app.clock.sleep(2 * 3_600_000); // awake, it would cut off a stream of which nobody reads a comment
    expect((await session.post(request('ping'), await bearer(app, 'alice'))).status).toBe(202);
  });

  test('a user token that has expired names its owner still, and is refused as in any call', async () => {
    await using app = await createTestApp();
    const [alice, mallory] = [await bearer(app, 'alice'), await bearer(app, 'mallory')];
    const { key } = await app.createKey('alice');
    const sessions = [await openSse(app, { 'x-api-key': key }), await openSse(app, await bearer(app, 'alice'))];
    app.clock.sleep(2 * 3_600_000);
    for (const session of sessions) {
      const as = (headers: Record<string, string>) => ({ authorization: '', 'x-api-key': '', ...headers });
      expect((await session.post(call('list_api_keys'), as(alice))).status).toBe(202);
      expect((await session.nextMessage()).result).toEqual({
        content: [{ type: 'text', text: 'The user token has expired' }],
        isError: true,
      });
      expect((await session.post(request('ping'), as(mallory))).body).toEqual(NO_SESSION);
      const withAnother = { ...alice, 'x-api-key': (await app.createKey('mallory')).key };
      expect((await session.post(call('get_data'), as(withAnother))).body).toEqual(NO_SESSION);
    }
  });

  test('with such a token nothing in the session changes: no call is cancelled, no capability declared', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({
      toolFiles: [{ file: 'steered', make: () => steered.tool }],
      env: { KEY_REVEAL: 'widget' },
    });
    const ended = await bearer(app, 'alice');
    app.clock.sleep(2 * 3_600_000);
    const session = await openSse(app, await bearer(app, 'alice'));
    await session.post(call('steered'));
    await steered.running;
    expect((await session.post(cancelled(1), ended)).status).toBe(202);
    const capabilities = WITH_WIDGETS['io.modelcontextprotocol/clientCapabilities'];
    const declared = request('initialize', { protocolVersion: '2024-11-05', capabilities, clientInfo: {} }, 2);
    expect((await session.post(declared, ended)).status).toBe(202);
    expect((await session.nextMessage()).id).toBe(2);
    expect(steered.isAborted()).toBe(false);
    steered.finish();
    expect((await session.nextMessage()).id).toBe(1);
    await session.post(call('create_api_key', { name: 'n', scopes: [] }));
    expect((await session.nextMessage()).result.isError).toBe(true); // this client shows no widgets
  });
});

describe('while it can’t be known whose a credential is, a session takes nothing of it, and none is opened with it', () => {
  const UNAVAILABLE = { status: 503, retryAfter: '1' };
  async function said(posted: Promise<{ status: number; headers: Headers; body: { code?: string } }>) {
    const { status, headers, body } = await posted;
    return { status, retryAfter: headers.get('retry-after'), code: body.code };
  }

  test('a session takes no credential while the key store is out of reach', async () => {
    await using app = await createTestApp();
    const all = await credentialsIn(app);
    const hers = await openSse(app, all['a token of hers']);
    const nobodys = await openSse(app);
    await app.loseStore();
    app.clock.advance(2000);
    const unavailable = { ...UNAVAILABLE, code: 'store_unavailable' };
    const refused = { status: 404, retryAfter: null, code: 'session_not_found' };
    const taken = { status: 202, retryAfter: null, code: undefined };
    for (const [who, ofHers, ofNobodys] of [
      ['a key of hers', unavailable, unavailable],
      ['a key of another user', unavailable, unavailable],
      ['a key that is none', unavailable, unavailable],
      ['a token of another user and a key of another user', unavailable, unavailable],
      ['a token of hers and a key of another user', taken, unavailable],
      ['a token of hers', taken, taken],
      ['a token of another user', refused, refused], // the one before has made it hers
      ['no credential', refused, refused],
    ] as const) {
      const headers = {
        authorization: '',
        'x-api-key': '',
        ...all[who],
        ...(who.startsWith('a token of another user and') && {
          ...all['a token of another user'],
          ...all['a key of another user'],
        }),
      };
      for (const message of [request('ping'), call('get_data'), cancelled(1)]) {
        expect([who, await said(hers.post(message, headers))]).toEqual([who, ofHers]);
        expect([who, await said(nobodys.post(message, headers))]).toEqual([who, ofNobodys]);
      }
    }
    const opening = fetch(`${app.url}/sse`, { headers: all['a key of hers'] ?? {} });
    expect(await said(opening.then(readResponse))).toEqual(unavailable);
    expect((await fetch(`${app.url}/sse`, { headers: all['a token of hers'] ?? {} })).status).toBe(200);
    expect((await fetch(`${app.url}/sse`)).status).toBe(200);
  });

  test('a session takes no credential while the key set is out of reach', async () => {
    const clock = testClock();
    await using issuer = await createAuthorizationServer({ nowMs: clock.nowMs });
    const env = { JWT_SECRET: undefined, JWT_ISSUER: issuer.url };
    await using app = await createTestApp({ clock, env });
    const exp = clock.nowMs() / 1000 + 24 * 3600;
    const tokenOf = async (sub: string) => ({
      authorization: `Bearer ${await issuer.token({ sub, aud: app.url, exp })}`,
    });
    const session = await openSse(app, await tokenOf('alice'));
    expect((await session.post(request('ping'))).status).toBe(202);
    issuer.overrides.set('/jwks', () => new Response('no', { status: 500 }));
    clock.sleep(12 * 3_600_000); // longer than a key set is used without being fetched anew
    const unavailable = { ...UNAVAILABLE, code: 'auth_unavailable' };
    for (const sub of ['alice', 'mallory']) {
      expect(await said(session.post(call('list_api_keys'), await tokenOf(sub)))).toEqual(unavailable);
    }
    expect((await session.post(request('ping'), { authorization: 'Bearer nonsense' })).body).toEqual(NO_SESSION);
    issuer.overrides.clear();
    clock.advance(1000); // the pause after a failed fetch
    expect((await session.post(request('ping'), await tokenOf('alice'))).status).toBe(202);
    expect((await session.post(request('ping'), await tokenOf('mallory'))).body).toEqual(NO_SESSION);
  });
});

describe('calls', () => {
  test('progress comes on the stream before the response, and nothing after it', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app);
    await session.post(call('steered', {}, { _meta: { progressToken: 'p' } }));
    await steered.running;
    steered.report(1, 2);
    expect((await session.nextMessage()).params).toEqual({ progressToken: 'p', progress: 1, total: 2 });
    steered.finish();
    expect((await session.nextMessage()).id).toBe(1);
    steered.report(2, 2);
    await session.post(request('ping', undefined, 'next'));
    expect((await session.nextMessage()).id).toBe('next');
  });

  test('notifications/cancelled of its owner aborts the call, which then gets no response and no progress', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app, await bearer(app, 'alice'));
    await session.post(call('steered', {}, { _meta: { progressToken: 'p' } }));
    await steered.running;
    for (const other of [2, '1', null, undefined, {}]) await session.post(cancelled(other));
    for (const headers of [{ authorization: '' }, await bearer(app, 'mallory'), { authorization: 'Bearer nonsense' }]) {
      expect((await session.post(cancelled(1), headers)).status).toBe(404);
    }
    expect(steered.isAborted()).toBe(false);
    expect((await session.post(cancelled(1))).status).toBe(202);
    await steered.aborted;
    steered.report(1, 2);
    steered.finish();
    await session.post(request('ping', undefined, 'next'));
    expect((await session.nextMessage()).id).toBe('next');
  });

  test('an id that is under way is refused until its response is sent', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app);
    await session.post(call('steered'));
    const again = await session.post(call('steered'));
    expect([again.status, again.body.error.code]).toEqual([400, -32600]);
    steered.finish();
    expect((await session.nextMessage()).id).toBe(1);
    expect((await session.post(call('steered'))).status).toBe(202);
    expect((await session.nextMessage()).id).toBe(1);
  });

  test('more than 256 under way are refused, other requests still get a response', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app);
    for (let id = 0; id < 256; id += 1) await session.post({ ...call('steered'), id });
    const over = await session.post({ ...call('steered'), id: 256 });
    expect([over.status, over.body.code, over.headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
    steered.finish();
    for (let id = 0; id < 256; id += 1) expect((await session.nextMessage()).id).toBe(id);
    expect((await session.post({ ...call('steered'), id: 256 })).status).toBe(202);
  });

  test('a stream ends its session, and the call of a client that left runs to its end', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app);
    await session.post(call('steered'));
    await steered.running;
    await session.drop();
    await waitFor(async () => (await sessionsOf(app.url)) === 0);
    expect((await session.post(request('ping'))).status).toBe(404);
    expect(steered.isAborted()).toBe(false);
    steered.finish();
    expect((await post(app, request('ping'), { accept: ACCEPT })).status).toBe(200);
    expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
  });
});
