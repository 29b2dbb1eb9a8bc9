// The HTTP+SSE transport of 2024-11-05: GET /sse and POST /messages.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool } from '../../src/tools/tool.ts';
import { ACCEPT, call, openSse, post, request } from '../support/mcp.ts';
import { NO_CONNECTION } from '../support/peer.ts';
import { sessionsOf } from '../support/raw-sse.ts';
import { bearer, createTestApp } from '../support/test-app.ts';
import { anyone, facts, steeredTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} }, 0);

describe('GET /sse', () => {
  test('is an event stream that first says where to post', async () => {
    await using app = await createTestApp();
    const response = await fetch(`${app.url}/sse`);
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

  test('POST is 405, so that clients that try the newer transport first fall back', async () => {
    await using app = await createTestApp();
    const { status, headers } = await fetch(`${app.url}/sse`, { method: 'POST', body: '{}' });
    expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  test('HEAD opens no session', async () => {
    await using app = await createTestApp();
    // Bypasses the runtime, which would end the body of an answer to HEAD, and a session with it.
    const { status, headers } = await app.service.app.fetch(
      new Request(`${app.url}/sse`, { method: 'HEAD' }),
      NO_CONNECTION,
    );
    expect([status, headers.get('content-type'), await sessionsOf(app.url)]).toEqual([200, 'text/event-stream', 0]);
  });

  test('refuses a foreign origin and answers an allowed one', async () => {
    await using app = await createTestApp();
    expect((await fetch(`${app.url}/sse`, { headers: { origin: 'https://evil.example' } })).status).toBe(403);
    const response = await fetch(`${app.url}/sse`, { headers: { origin: 'http://localhost:1' } });
    expect(response.headers.get('access-control-allow-origin')).toBe('http://localhost:1');
    await response.body?.cancel();
  });
});

describe('POST /messages', () => {
  test('is 202, and the answer comes on the stream', async () => {
    await using app = await createTestApp();
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
    ['no session id', '/messages', 400],
    ['an empty one', '/messages?sessionId=', 400],
    ['an unknown one', '/messages?sessionId=00000000-0000-4000-8000-000000000000', 404],
    ['one that is no id', '/messages?sessionId=__proto__', 404],
  ])('%s', async (_what, path, expected) => {
    await using app = await createTestApp();
    const { status } = await fetch(app.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(request('ping')),
    });
    expect(status).toBe(expected);
  });

  test.each<[string, string, Record<string, string>, number, unknown]>([
    ['no JSON', '{"jsonrpc"', {}, 400, -32700],
    ['no body', '', {}, 400, -32700],
    ['no message', '{}', {}, 400, -32600],
    ['a batch', JSON.stringify([request('ping')]), {}, 400, -32600],
    ['an id null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', {}, 400, -32600],
    ['another media type', '{}', { 'content-type': 'text/plain' }, 415, undefined],
    ['too much', JSON.stringify(request('ping', { x: 'x'.repeat(1024 * 1024) })), {}, 413, undefined],
  ])('%s is an error in the answer to the POST', async (_what, message, headers, status, code) => {
    await using app = await createTestApp();
    const session = await openSse(app);
    const answer = await session.post(message, headers);
    expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
    await session.post(request('ping', undefined, 'still here'));
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'still here', result: {} });
  });

  test('each is authenticated by its own headers', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice');
    const session = await openSse(app);
    await session.post(call('get_data'), { 'x-api-key': key });
    expect((await session.nextMessage()).result.structuredContent.owner).toBe('alice');
    await session.post(call('get_data'));
    expect((await session.nextMessage()).result.content[0].text).toBe('No API key provided');
    await session.post(call('get_data', {}, { _meta: { api_key: key } }));
    expect((await session.nextMessage()).result.structuredContent.owner).toBe('alice');
  });

  test('a bug fails its own request, not the stream', async () => {
    const broken = defineTool(anyone, {
      ...facts('broken'),
      input: v.strictObject({}),
      run: async () => {
        throw new Error('oops');
      },
    });
    await using app = await createTestApp({ tools: () => [broken] });
    const session = await openSse(app);
    await session.post(call('broken'));
    expect(await session.nextMessage()).toMatchObject({ id: 1, error: { code: -32603 } });
    await session.post(request('ping', undefined, 2));
    expect((await session.nextMessage()).id).toBe(2);
  });
});

describe('a session belongs to somebody', () => {
  test('to whoever opened it: others find nothing there', async () => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const session = await openSse(app, alice);
    const mallory = await bearer(app, 'mallory');
    const answer = await session.post(call('list_api_keys'), mallory);
    expect([answer.status, answer.body.code]).toEqual([404, 'not_found']);
    const { key } = await app.createKey('mallory');
    expect((await session.post(request('ping'), { authorization: '', 'x-api-key': key })).status).toBe(404);
    expect((await session.post(request('ping', undefined, 'mine'), alice)).status).toBe(202);
    expect((await session.nextMessage()).id).toBe('mine');
  });

  test('whoever opened it may come back with a newer token, or a key of theirs', async () => {
    await using app = await createTestApp();
    const session = await openSse(app, await bearer(app, 'alice'));
    app.clock.advance(60_000);
    expect((await session.post(request('ping'), await bearer(app, 'alice'))).status).toBe(202);
    const { key } = await app.createKey('alice');
    expect((await session.post(request('ping'), { authorization: '', 'x-api-key': key })).status).toBe(202);
  });

  test('opened by nobody, to the first who posts', async () => {
    await using app = await createTestApp();
    const session = await openSse(app);
    expect((await session.post(initialize)).status).toBe(202);
    const { key } = await app.createKey('alice');
    expect((await session.post(call('get_data', {}, { _meta: { api_key: key } }))).status).toBe(202);
    const other = await app.createKey('mallory');
    expect((await session.post(request('ping'), { 'x-api-key': other.key })).status).toBe(404);
    expect((await session.post(call('get_data', {}, { _meta: { api_key: other.key } }))).status).toBe(404);
    expect((await session.post(request('ping'), { 'x-api-key': key })).status).toBe(202);
  });

  test('a credential that is not valid makes nobody its owner', async () => {
    await using app = await createTestApp();
    const session = await openSse(app, { authorization: 'Bearer nonsense' });
    await session.post(call('get_data'), { authorization: '', 'x-api-key': `sk_test_${'0'.repeat(64)}` });
    expect((await session.nextMessage()).result.content[0].text).toBe('Invalid or expired API key');
    expect((await session.post(request('ping'), await bearer(app, 'alice'))).status).toBe(202);
  });

  test('a token that has expired is told so, in-band', async () => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    const session = await openSse(app, alice);
    app.clock.advance(2 * 3_600_000);
    expect((await session.post(call('list_api_keys'), alice)).status).toBe(202);
    expect((await session.nextMessage()).result.content[0].text).toBe('Invalid or expired user token');
  });
});

describe('calls', () => {
  test('progress comes on the stream before the answer, and nothing after it', async () => {
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

  test('notifications/cancelled aborts the call, which then gets no answer', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const session = await openSse(app);
    await session.post(call('steered'));
    await steered.running;
    const cancelled = (requestId: unknown) => ({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId },
    });
    for (const other of [2, '1', null, undefined, {}]) await session.post(cancelled(other));
    expect(steered.isAborted()).toBe(false);
    await session.post(cancelled(1));
    await steered.aborted;
    steered.finish();
    await session.post(request('ping', undefined, 'next'));
    expect((await session.nextMessage()).id).toBe('next');
  });

  test('an id that is under way is refused until it is answered', async () => {
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

  test('more than 256 under way are refused, others still answered', async () => {
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
    await until(async () => (await sessionsOf(app.url)) === 0);
    expect((await session.post(request('ping'))).status).toBe(404);
    expect(steered.isAborted()).toBe(false);
    steered.finish();
    expect((await post(app, request('ping'), { accept: ACCEPT })).status).toBe(200);
    expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
  });
});
