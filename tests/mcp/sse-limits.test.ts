// What many streams, quiet streams and streams that nobody reads do to the server.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { ok } from '../../src/problem.ts';
import { defineTool } from '../../src/tools/tool.ts';
import { call, openSse, request } from '../support/mcp.ts';
import { rawConnection, rawPost } from '../support/raw.ts';
import { manyStreams, postTo, postUntilCutOff, rawStream, sessionsOf } from '../support/raw-sse.ts';
import { createTestApp } from '../support/test-app.ts';
import { anyone, facts, steeredTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const SESSIONS_MAX = 1000;
const initialize = request('initialize', { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: {} });

describe('the number of streams', () => {
  test('at the limit the oldest that never initialized makes room', async () => {
    await using app = await createTestApp();
    const first = await rawStream(app.url);
    await postTo(first.postUrl, initialize);
    const second = await rawStream(app.url);
    await manyStreams(app.url, SESSIONS_MAX - 2);
    expect(await sessionsOf(app.url)).toBe(SESSIONS_MAX);
    const latest = await rawStream(app.url);
    await second.ended();
    expect(await sessionsOf(app.url)).toBe(SESSIONS_MAX);
    expect((await postTo(second.postUrl, request('ping'))).status).toBe(404);
    for (const { postUrl, contains } of [first, latest]) {
      await postTo(postUrl, request('ping', undefined, 'here'));
      await contains('"here"');
    }
  }, 30_000);

  test('when all are in use a new one is 503, until one ends', async () => {
    await using app = await createTestApp();
    const open = await manyStreams(app.url, SESSIONS_MAX, async ({ postUrl }) => {
      await postTo(postUrl, initialize);
    });
    const refused = await fetch(`${app.url}/sse`);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(((await refused.json()) as { code: string }).code).toBe('overloaded');
    open[500]?.drop();
    await until(async () => (await sessionsOf(app.url)) < SESSIONS_MAX);
    await rawStream(app.url);
  }, 30_000);
});

describe('a quiet stream', () => {
  test('gets a comment when 15 seconds have passed, and again, for an hour', async () => {
    await using app = await createTestApp();
    const session = await openSse(app);
    app.clock.advance(14_999);
    await Bun.sleep(1100); // the longest the server may take to look
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
    app.clock.advance(15_000);
    await reads((text) => text.includes(': keepalive'));
    steered.finish();
    await reads((text) => text.includes('"result"'));
    socket.destroy();
  }, 20_000);
});

test('answers that are ready at the same moment reach a client that reads, however large they are together', async () => {
  const ready = Promise.withResolvers<void>();
  const running: string[] = [];
  const large = defineTool(anyone, {
    ...facts('large'),
    input: v.strictObject({}),
    async run(_input, { requestId }) {
      running.push(requestId);
      await ready.promise;
      return ok({ content: [{ type: 'text', text: 'x'.repeat(200_000) }] });
    },
  });
  await using app = await createTestApp({ tools: () => [large] });
  const session = await openSse(app);
  const ids = Array.from({ length: 20 }, (_, id) => id);
  for (const id of ids) await session.post({ ...call('large'), id });
  await until(() => running.length === ids.length);
  ready.resolve();
  const answered: number[] = [];
  while (answered.length < ids.length) answered.push((await session.nextMessage())?.id);
  expect(answered.sort((a, b) => a - b)).toEqual(ids);
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
