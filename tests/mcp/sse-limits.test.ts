// What many streams, quiet streams and streams that nobody reads do to the server.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { ok } from '../../src/lib/result.ts';
import { defineTool } from '../../src/tools/core/tool.ts';
import { call, openSse, post, request } from '../support/mcp.ts';
import { rawConnection, rawPost } from '../support/raw.ts';
import {
  BEHIND_PROXY,
  cameFrom,
  manyStreams,
  postTo,
  postUntilCutOff,
  type RawStream,
  rawStream,
  sessionsOf,
} from '../support/raw-sse.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';
import { anyone, facts, steeredTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const SESSIONS_MAX = 1000;
const PER_ADDRESS_MAX = 100;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} });
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };

const startBehindProxy = () => createTestApp({ env: BEHIND_PROXY });

/** What a client may have done with its stream, by what it is. */
type Kind = 'nobody’s, unused' | 'nobody’s, used' | 'somebody’s, unused' | 'somebody’s, used';

async function openAs(app: TestApp, kind: Kind, address: string): Promise<RawStream> {
  const user = kind.startsWith('somebody') ? await bearer(app, 'alice') : {};
  const stream = await rawStream(app.url, { ...cameFrom(address), ...user });
  await postTo(stream.postUrl, kind.endsWith('unused') ? initialized : initialize, user);
  return stream;
}

async function isOpen(app: TestApp, { postUrl }: RawStream): Promise<boolean> {
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
  const opened: RawStream[] = [];
  for (const [index, kind] of OPENED.entries()) opened.push(await openAs(app, kind, addressOf(index)));
  const user = await bearer(app, 'alice');
  for (let index = opened.length; index < most; index += 1) {
    const stream = await rawStream(app.url, { ...cameFrom(addressOf(index)), ...user });
    await postTo(stream.postUrl, initialize, user);
  }
  expect(await sessionsOf(app.url)).toBe(count);
  for (const [place, index] of MAKE_ROOM.entries()) {
    await openAs(app, 'somebody’s, used', addressOf(index));
    await opened[index]?.ended();
    expect(await sessionsOf(app.url)).toBe(count);
    for (const later of MAKE_ROOM.slice(place + 1)) expect(opened[later]?.text()).not.toContain('\r\n0\r\n\r\n');
  }
  const refused = await fetch(`${app.url}/sse`, { headers: { ...cameFrom(addressOf(0)), ...user } });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(((await refused.json()) as { code: string }).code).toBe('overloaded');
  const [first] = opened;
  if (first === undefined) throw new Error('none was opened');
  expect(await isOpen(app, first)).toBe(true);
  first.drop();
  await until(async () => (await sessionsOf(app.url)) < count);
  await openAs(app, 'nobody’s, unused', addressOf(0));
}

describe('the number of streams', () => {
  test('at the limit the oldest of nobody makes room, then the oldest that nobody has used; then a new one is 503', async () => {
    await using app = await startBehindProxy();
    await makeRoomInOrder(app, SESSIONS_MAX, (index) => `192.0.2.${index % 20}`);
  }, 30_000);

  test('of one address, at its share the same, among its own', async () => {
    await using app = await startBehindProxy();
    const others = [
      await openAs(app, 'nobody’s, unused', '192.0.2.1'),
      await openAs(app, 'somebody’s, unused', '192.0.2.1'),
    ];
    // A /64 is one address: one host may own it.
    const addressOf = (index: number) => `2001:db8:0:1::${index}`;
    await makeRoomInOrder(app, PER_ADDRESS_MAX, addressOf, others.length);
    for (const other of others) expect(await isOpen(app, other)).toBe(true);
  }, 30_000);

  test('an anonymous client that opens all it can takes only its share, and nobody’s place', async () => {
    await using app = await startBehindProxy();
    const mine = await openAs(app, 'nobody’s, used', '192.0.2.1');
    const flood: RawStream[] = [];
    for (let round = 0; round < 20; round += 1) {
      const some = Array.from({ length: 50 }, () => rawStream(app.url, cameFrom('198.51.100.7')));
      flood.push(...(await Promise.all(some)));
    }
    expect(flood).toHaveLength(SESSIONS_MAX);
    expect(await sessionsOf(app.url)).toBe(1 + PER_ADDRESS_MAX);
    expect(await isOpen(app, mine)).toBe(true);
    await openAs(app, 'nobody’s, unused', '192.0.2.2');
    expect(await sessionsOf(app.url)).toBe(2 + PER_ADDRESS_MAX);
  }, 30_000);

  test('without a proxy the address is the connection’s, whatever the headers say', async () => {
    await using app = await createTestApp();
    await manyStreams(app.url, PER_ADDRESS_MAX + 10);
    expect(await sessionsOf(app.url)).toBe(PER_ADDRESS_MAX);
  }, 30_000);
});

describe('a quiet stream', () => {
  test('gets a comment when 15 seconds have passed, and again, for an hour', async () => {
    await using app = await createTestApp();
    const session = await openSse(app);
    app.clock.advance(14_999);
    await Bun.sleep(1100); // the longest the server may take to look at its streams
    await session.post(request('ping'));
    await session.nextMessage();
    expect(session.events.comments()).toBe(0);
    for (let third = 0; third < 3; third += 1) {
      app.clock.advance(20 * 60_000);
      await session.events.comment();
    }
    await session.post(request('ping', undefined, 'an hour later'));
    expect((await session.nextMessage()).id).toBe('an hour later');
  }, 20_000);

  test('of progress does, too', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const body = JSON.stringify(call('steered', {}, { _meta: { progressToken: 1 } }));
    const { socket, until: reads } = await rawConnection(app.url);
    socket.write(rawPost('/mcp', body, { Accept: 'text/event-stream' }));
    await steered.running;
    steered.report(1);
    await reads((text) => text.includes('"progress":1'));
    app.clock.advance(15_000);
    await reads((text) => text.includes(': keepalive'));
    steered.finish();
    await reads((text) => text.includes('"result"'));
    socket.destroy();
  }, 20_000);
});

/** A tool whose calls answer all together with `chars` characters each, when they are told to. */
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
  return { tool, seen, answer: ready.resolve };
}

/** Has that many calls answer with 200 KB at the same moment, and reads what comes, by id. */
async function burstOf(calls: number): Promise<Map<number, string>> {
  const { tool, seen, answer } = largeTool(200_000);
  await using app = await createTestApp({ tools: () => [tool] });
  const session = await openSse(app);
  for (let id = 0; id < calls; id += 1) await session.post({ ...call('large'), id });
  await until(() => seen.running === calls);
  answer();
  const answered = new Map<number, string>();
  while (answered.size < calls) {
    const { id, result } = await session.nextMessage();
    answered.set(id, result.content[0].text);
  }
  return answered;
}

describe('answers that are ready at the same moment', () => {
  test('reach a client that reads, 4 MB together', async () => {
    for (const text of (await burstOf(20)).values()) expect(text).toHaveLength(200_000);
  });

  test('beyond that each has one, and those without room say so', async () => {
    const texts = [...(await burstOf(60)).values()];
    const whole = texts.filter((text) => text.length === 200_000);
    expect(whole.length).toBeGreaterThanOrEqual(20);
    expect(whole.length).toBeLessThan(60);
    const others = new Set(texts.filter((text) => text.length !== 200_000));
    expect([...others]).toEqual(['The server is at its limit; try again']);
  });
});

describe('an answer that is larger than an event may be', () => {
  const TOO_LARGE = 'The result is too large for this transport; use /mcp';

  test('is one in-band that says so, and the stream goes on', async () => {
    const { tool, answer } = largeTool(1024 * 1024);
    answer();
    const structured = defineTool(anyone, {
      ...facts('structured'),
      input: v.strictObject({}),
      output: v.strictObject({ text: v.string() }),
      run: () => ok({ text: 'x'.repeat(600_000) }), // which MCP has twice
    });
    const page = {
      name: 'page',
      title: 'page',
      description: 'a large page',
      mimeType: 'text/plain',
      uri: 'ui://large',
      read: () => ({ text: 'x'.repeat(1024 * 1024) }),
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
    const error = { code: -32000, message: TOO_LARGE, data: { code: 'overloaded' } };
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'page', error });
    await session.post(request('ping', undefined, 'still here'));
    expect(await session.nextMessage()).toEqual({ jsonrpc: '2.0', id: 'still here', result: {} });
  });
});

describe('a stream that nobody reads', () => {
  test('is cut off once its buffer is full, and its session with it', async () => {
    await using app = await createTestApp();
    const stream = await rawStream(app.url);
    stream.pause();
    await postUntilCutOff(stream);
    expect(await sessionsOf(app.url)).toBe(0);
    stream.drop();
  }, 30_000);
});

describe('an orderly stop', () => {
  test('ends idle streams at once, and others when their calls are done', async () => {
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
