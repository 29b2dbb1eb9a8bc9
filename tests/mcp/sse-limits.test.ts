// What many streams, quiet streams and streams that nobody reads do to the server.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool } from '../../src/authoring/tool.ts';
import { ok } from '../../src/lib/result.ts';
import { openHttpSocket, postText } from '../support/http-socket.ts';
import { call, openSse, post, request, type SseSession } from '../support/mcp.ts';
import {
  BEHIND_PROXY,
  cameFrom,
  manyStreams,
  openSseSocket,
  postTo,
  postUntilCutOff,
  type SseSocket,
  sessionsOf,
} from '../support/sse-socket.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';
import { anyone, facts, steeredTool } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 1024 * 1024;
const SESSIONS_MAX = 1000;
const PER_ADDRESS_MAX = 100;
const PER_OWNER_MAX = 100;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} });
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };

const startBehindProxy = () => createTestApp({ env: BEHIND_PROXY });

/** What a client may have done with its stream, by what it is. */
type Kind = 'nobody’s, unused' | 'nobody’s, used' | 'somebody’s, unused' | 'somebody’s, used';

async function openAs(app: TestApp, kind: Kind, address: string): Promise<SseSocket> {
  const user = kind.startsWith('somebody') ? await bearer(app, 'alice') : {};
  const stream = await openSseSocket(app.url, { ...cameFrom(address), ...user });
  await postTo(stream.postUrl, kind.endsWith('unused') ? initialized : initialize, user);
  return stream;
}

async function isOpen(app: TestApp, { postUrl }: SseSocket): Promise<boolean> {
  return (await postTo(postUrl, initialized, await bearer(app, 'alice'))).status === 202;
}

/** The order in which streams make room, whatever the order they were opened in. */
const OPENED: readonly Kind[] = [
  'somebody’s, used',
  'somebody’s, unused',
  'nobody’s, used',
  'somebody’s, unused',
  'nobody’s, unused',
  'nobody’s, used',
];
const MAKE_ROOM = [2, 4, 5, 1, 3];

/** Opens streams of all kinds, then used ones until there are as many as may be, then more, each in another’s place. */
async function makeRoomInOrder(
  app: TestApp,
  most: number,
  addressOf: (index: number) => string,
  others = 0,
): Promise<void> {
  const count = most + others;
  const opened: SseSocket[] = [];
  for (const [index, kind] of OPENED.entries()) opened.push(await openAs(app, kind, addressOf(index)));
  const users = await Promise.all(Array.from({ length: 20 }, (_, index) => bearer(app, `user ${index}`)));
  const userOf = (index: number) => users[index % users.length] ?? {};
  for (let index = opened.length; index < most; index += 1) {
    const stream = await openSseSocket(app.url, { ...cameFrom(addressOf(index)), ...userOf(index) });
    await postTo(stream.postUrl, initialize, userOf(index));
  }
  expect(await sessionsOf(app.url)).toBe(count);
  for (const [place, index] of MAKE_ROOM.entries()) {
    await openAs(app, 'somebody’s, used', addressOf(index));
    await opened[index]?.ended();
    expect(await sessionsOf(app.url)).toBe(count);
    for (const later of MAKE_ROOM.slice(place + 1)) expect(opened[later]?.text()).not.toContain('\r\n0\r\n\r\n');
  }
  const refused = await fetch(`${app.url}/sse`, { headers: { ...cameFrom(addressOf(0)), ...userOf(0) } });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(((await refused.json()) as { code: string }).code).toBe('overloaded');
  const [first] = opened;
  if (first === undefined) throw new Error('none was opened');
  expect(await isOpen(app, first)).toBe(true);
  first.drop();
  await waitFor(async () => (await sessionsOf(app.url)) < count);
  await openAs(app, 'nobody’s, unused', addressOf(0));
}

describe('the number of streams', () => {
  test('at the limit of streams the oldest without an owner is closed first, then the oldest unused one; then a new one is 503', async () => {
    await using app = await startBehindProxy();
    await makeRoomInOrder(app, SESSIONS_MAX, (index) => `192.0.2.${index % 20}`);
  }, 60_000);

  test('an address at its share of streams has its own closed in the same order', async () => {
    await using app = await startBehindProxy();
    const others = [
      await openAs(app, 'nobody’s, unused', '192.0.2.1'),
      await openAs(app, 'somebody’s, unused', '192.0.2.1'),
    ];
    // A /64 is one address: one host may own it.
    const addressOf = (index: number) => `2001:db8:0:1::${index}`;
    await makeRoomInOrder(app, PER_ADDRESS_MAX, addressOf, others.length);
    for (const other of others) expect(await isOpen(app, other)).toBe(true);
  }, 60_000);

  test('one owner has 100 streams, from however many addresses, and takes no more by claiming those of nobody', async () => {
    await using app = await startBehindProxy();
    const alice = await bearer(app, 'alice');
    const addressOf = (index: number) => cameFrom(`192.0.2.${index % 10}`);
    for (let index = 0; index < PER_OWNER_MAX; index += 1) {
      const stream = await openSseSocket(app.url, { ...addressOf(index), ...alice });
      await postTo(stream.postUrl, initialize, alice);
    }
    const refused = await fetch(`${app.url}/sse`, { headers: { ...addressOf(0), ...alice } });
    expect(refused.status).toBe(503);
    const nobodys = await openSseSocket(app.url, addressOf(0));
    expect((await postTo(nobodys.postUrl, initialize, alice)).status).toBe(503);
    expect((await postTo(nobodys.postUrl, initialize)).status).toBe(202);
    const bob = await openSseSocket(app.url, { ...addressOf(0), ...(await bearer(app, 'bob')) });
    expect((await postTo(bob.postUrl, initialize, await bearer(app, 'bob'))).status).toBe(202);
  }, 60_000);

  test('an anonymous client that opens all it can takes only its share, and nobody’s place', async () => {
    await using app = await startBehindProxy();
    const mine = await openAs(app, 'nobody’s, used', '192.0.2.1');
    const flood: SseSocket[] = [];
    for (let round = 0; round < 20; round += 1) {
      const some = Array.from({ length: 50 }, () => openSseSocket(app.url, cameFrom('198.51.100.7')));
      flood.push(...(await Promise.all(some)));
    }
    expect(flood).toHaveLength(SESSIONS_MAX);
    expect(await sessionsOf(app.url)).toBe(1 + PER_ADDRESS_MAX);
    expect(await isOpen(app, mine)).toBe(true);
    await openAs(app, 'nobody’s, unused', '192.0.2.2');
    expect(await sessionsOf(app.url)).toBe(2 + PER_ADDRESS_MAX);
  }, 60_000);

  test('without a proxy the address is the connection’s, whatever the headers say', async () => {
    await using app = await createTestApp();
    await manyStreams(app.url, PER_ADDRESS_MAX + 10);
    expect(await sessionsOf(app.url)).toBe(PER_ADDRESS_MAX);
  }, 60_000);
});

describe('a quiet stream', () => {
  test('a quiet stream gets a comment every 15 seconds, for an hour', async () => {
    await using app = await createTestApp();
    const session = await openSse(app);
    app.clock.advance(14_999);
    await session.post(request('ping'));
    await session.nextMessage();
    expect(session.events.comments()).toBe(0);
    app.clock.advance(1); // the server looks once a second, from now on at full seconds
    for (let comments = 1; comments <= 240; comments += 1) {
      app.clock.advance(15_000);
      await session.events.comment();
      expect(session.events.comments()).toBe(comments);
    }
    await session.post(request('ping', undefined, 'an hour later'));
    expect((await session.nextMessage()).id).toBe('an hour later');
  }, 60_000);

  test('a quiet stream of progress gets comments too', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const body = JSON.stringify(call('steered', {}, { _meta: { progressToken: 1 } }));
    const { socket, readUntil: reads } = await openHttpSocket(app.url);
    socket.write(postText('/mcp', body, { Accept: 'text/event-stream' }));
    await steered.running;
    steered.report(1);
    await reads((text) => text.includes('"progress":1'));
    app.clock.advance(15_000);
    await reads((text) => text.includes(': keepalive'));
    steered.finish();
    await reads((text) => text.includes('"result"'));
    socket.destroy();
  }, 60_000);
});

/** A tool whose calls all return `chars` characters at once, when they are told to. */
function largeTool(chars: number) {
  const ready = Promise.withResolvers<void>();
  const seen = { running: 0 };
  const tool = defineTool(anyone, {
    ...facts('large'),
    input: v.strictObject({}),
    async run() {
      seen.running += 1;
      await ready.promise;
      return ok({ content: [{ type: 'text', text: 'x'.repeat(chars) }] });
    },
  });
  return { tool, seen, response: ready.resolve };
}

/** Has that many calls return 200 KB at the same moment, and reads what comes, by id. */
async function burstOf(calls: number): Promise<Map<number, string>> {
  const { tool, seen, response } = largeTool(200_000);
  await using app = await createTestApp({ tools: () => [tool] });
  const session = await openSse(app);
  for (let id = 0; id < calls; id += 1) await session.post({ ...call('large'), id });
  await waitFor(() => seen.running === calls);
  response();
  const responses = new Map<number, string>();
  while (responses.size < calls) {
    const { id, result } = await session.nextMessage();
    responses.set(id, result.content[0].text);
  }
  return responses;
}

describe('responses that are ready at the same moment', () => {
  test('20 responses of 200 KB at the same moment all reach a client that reads', async () => {
    for (const text of (await burstOf(20)).values()) expect(text).toHaveLength(200_000);
  });

  test('of 60 large responses at the same moment, those without room are replaced by an error that says so', async () => {
    const texts = [...(await burstOf(60)).values()];
    const whole = texts.filter((text) => text.length === 200_000);
    expect(whole.length).toBeGreaterThanOrEqual(20);
    expect(whole.length).toBeLessThan(60);
    const others = new Set(texts.filter((text) => text.length !== 200_000));
    expect([...others]).toEqual(['The server is at its limit; try again']);
  });
});

describe('the bytes of the calls under way in a session', () => {
  const TIMEOUT_MS = 5000;

  /** A tool whose calls wait until they are aborted. */
  const waiting = () =>
    defineTool(anyone, {
      ...facts('waiting'),
      timeoutMs: TIMEOUT_MS,
      input: v.strictObject({ text: v.string() }),
      async run({ text }, { signal }) {
        if (text !== '') await new Promise((resolve) => signal.addEventListener('abort', resolve));
        return ok({ content: [{ type: 'text', text: 'done' }] });
      },
    });

  /** A call whose message has that many bytes. */
  function callOf(id: number, bytes: number): string {
    const ofText = (text: string) => JSON.stringify({ ...call('waiting', { text }), id });
    return ofText('x'.repeat(bytes - ofText('').length));
  }
  const cancelled = (requestId: number) => ({ ...request('notifications/cancelled', { requestId }), id: undefined });

  /** Posts calls of 1 MiB; returns the ids of those that were taken. */
  async function fill(session: SseSession, ids: readonly number[]): Promise<number[]> {
    const taken: number[] = [];
    for (const id of ids) {
      const { status, body, headers } = await session.post(callOf(id, MIB));
      if (status === 202) taken.push(id);
      else expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
    }
    return taken;
  }

  test('four of 1 MiB are taken; what comes then is refused, also without a length, and counts nothing', async () => {
    await using app = await createTestApp({ tools: () => [waiting()] });
    const [session, other] = [await openSse(app), await openSse(app)];
    expect(await fill(session, [1, 2, 3])).toEqual([1, 2, 3]);
    const { socket, readUntil } = await openHttpSocket(app.url);
    const chunk = `${(MIB - 200).toString(16)}\r\n${callOf(4, MIB - 200)}\r\n0\r\n\r\n`;
    const headers = 'Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked';
    socket.write(`POST ${session.endpoint} HTTP/1.1\r\n${headers}\r\n\r\n${chunk}`);
    expect(await readUntil((text) => text.includes('\r\n\r\n'))).toStartWith('HTTP/1.1 202 ');
    socket.destroy();
    for (let round = 0; round < 3; round += 1) expect((await session.post(callOf(5, 201))).status).toBe(503);
    expect((await session.post(callOf(5, 200))).status).toBe(202);
    expect((await session.post({ ...call('waiting', { text: '' }), id: 6 })).status).toBe(503);
    await session.post(request('ping', undefined, 'x'.repeat(1000)));
    expect((await session.nextMessage()).result).toEqual({});
    expect(await fill(other, [1])).toEqual([1]);
  });

  test('a call that is done, cancelled or out of time makes room for the next', async () => {
    await using app = await createTestApp({ tools: () => [waiting()] });
    const session = await openSse(app);
    const done = { ...call('waiting', { text: '' }), id: 'x'.repeat(MIB / 2) };
    for (let round = 0; round < 10; round += 1) {
      expect((await session.post(done)).status).toBe(202);
      expect((await session.nextMessage()).id).toBe(done.id);
    }
    expect(await fill(session, [1, 2, 3, 4, 5])).toEqual([1, 2, 3, 4]);
    await session.post(cancelled(2));
    await session.post(cancelled(3));
    expect(await fill(session, [6, 7, 8])).toEqual([6, 7]);
    app.clock.advance(TIMEOUT_MS);
    for (const id of [1, 4, 6, 7]) expect((await session.nextMessage()).id).toBe(id);
    expect(await fill(session, [1, 2, 3, 4, 5])).toEqual([1, 2, 3, 4]);
  });
});

describe('a response that is larger than an event may be', () => {
  const TOO_LARGE = 'The result is too large for this transport; use /mcp';

  test('a response too large for an event becomes an in-band error, and the stream goes on', async () => {
    const { tool, response } = largeTool(4 * MIB);
    response();
    const structured = defineTool(anyone, {
      ...facts('structured'),
      input: v.strictObject({}),
      output: v.strictObject({ text: v.string() }),
      run: () => ok({ text: 'x'.repeat(2 * MIB) }), // which MCP has twice
    });
    const page = {
      name: 'page',
      title: 'page',
      description: 'a large page',
      mimeType: 'text/plain',
      uri: 'ui://large',
      read: () => ({ text: 'x'.repeat(4 * MIB) }),
    };
    await using app = await createTestApp({ tools: () => [tool, structured], resources: [page] });
    const session = await openSse(app);
    for (const name of ['large', 'structured']) {
      await session.post(call(name));
      const { id, result } = await session.nextMessage();
      expect([id, result]).toEqual([1, { content: [{ type: 'text', text: TOO_LARGE }], isError: true }]);
      expect((await post(app, call(name))).body.result.isError).toBeUndefined();
    }
    await session.post(request('resources/read', { uri: page.uri }, 'page'));
    const error = { code: -31000, message: TOO_LARGE, data: { code: 'overloaded' } };
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'page', error });
    await session.post(request('ping', undefined, 'still here'));
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'still here', result: {} });
  });
});

describe('a stream that nobody reads', () => {
  test('a stream that is not read is cut off once its buffer is full, and its session ends', async () => {
    await using app = await createTestApp();
    const stream = await openSseSocket(app.url);
    stream.pause();
    await postUntilCutOff(stream);
    expect(await sessionsOf(app.url)).toBe(0);
    stream.drop();
  }, 60_000);
});

describe('an orderly stop', () => {
  test('a graceful stop ends idle streams at once, and others when their calls are done', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const [idle, busy] = [await openSse(app), await openSse(app)];
    await busy.post(call('steered'));
    await steered.running;
    app.service.app.endStreams();
    let isIdle = false;
    const whenIdle = app.service.app.idle().then(() => {
      isIdle = true;
    });
    expect(await idle.events.next()).toBeUndefined();
    expect((await fetch(`${app.url}/sse`)).status).toBe(503);
    expect(await sessionsOf(app.url)).toBe(1);
    expect(isIdle).toBe(false);
    steered.finish();
    await whenIdle;
    expect((await busy.nextMessage()).id).toBe(1);
    expect(await busy.events.next()).toBeUndefined();
    expect(await sessionsOf(app.url)).toBe(0);
  });
});
