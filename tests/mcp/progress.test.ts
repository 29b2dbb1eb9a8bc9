// Progress of a call on /mcp, and what becomes of a call whose client goes away.

import { describe, expect, test } from 'bun:test';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { openHttpSocket, postText } from '../support/http-socket.ts';
import { ACCEPT, call, eventReader, fetchMcp, type HeaderMap, modern, post, request } from '../support/mcp.ts';
import { createTestApp, NO_CONNECTION } from '../support/test-app.ts';
import { anyone, noInput, steeredTool } from '../support/tools.ts';

const TOKEN = { _meta: { progressToken: 'p-1' } };

async function startSteered(body: unknown = call('steered', {}, TOKEN), headers: HeaderMap = {}) {
  const steered = steeredTool();
  const app = await createTestApp({ tools: () => [steered.tool] });
  const leave = new AbortController();
  const response = fetchMcp(app, body, headers, leave.signal);
  await steered.running;
  return { app, steered, response, leave, [Symbol.asyncDispose]: () => app.close() };
}

const eventsOf = (response: Response) => {
  if (response.body === null) throw new Error('no body');
  return eventReader(response.body);
};

const messagesOf = async (response: Promise<Response>) =>
  (await eventsOf(await response).rest()).map(({ data }) => JSON.parse(data));

describe('progress', () => {
  test('progress makes the response an event stream that ends with the result', async () => {
    await using started = await startSteered();
    const { steered } = started;
    steered.report(0, 100);
    const response = await started.response;
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(response.headers.get('cache-control')).toContain('no-cache');
    expect(response.headers.get('x-accel-buffering')).toBe('no');
    steered.report(50, 100, 'half of it');
    steered.finish();
    const messages = await messagesOf(started.response);
    const notification = (params: object) => ({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 'p-1', ...params },
    });
    expect(messages).toEqual([
      notification({ progress: 0, total: 100 }),
      notification({ progress: 50, total: 100, message: 'half of it' }),
      { jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'done' }] } },
    ]);
  });

  test('progress arrives as it is reported, not when the tool is done', async () => {
    await using started = await startSteered();
    const { steered, response } = started;
    steered.report(1);
    const events = eventsOf(await response);
    expect(JSON.parse((await events.next())?.data ?? '').params.progress).toBe(1);
    steered.report(2);
    expect(JSON.parse((await events.next())?.data ?? '').params.progress).toBe(2);
    steered.finish();
    expect(JSON.parse((await events.next())?.data ?? '').result.content[0].text).toBe('done');
    expect(await events.next()).toBeUndefined();
  });

  test('progress only increases, and what clients could not read is left out of it, or not sent', async () => {
    await using started = await startSteered();
    const { steered, response } = started;
    for (const progress of [1, 1, 0, Number.NaN, Number.POSITIVE_INFINITY]) steered.report(progress);
    steered.report(2, Number.POSITIVE_INFINITY, 7 as never);
    steered.report(3, 3, 'half \ud83d');
    steered.finish();
    expect((await messagesOf(response)).map(({ params }) => params)).toEqual([
      { progressToken: 'p-1', progress: 1 },
      { progressToken: 'p-1', progress: 2 },
      { progressToken: 'p-1', progress: 3, total: 3, message: 'half \ufffd' },
      undefined,
    ]);
  });

  test.each<[string, unknown, HeaderMap]>([
    ['without a token', call('steered'), {}],
    ['with a token of a wrong type', call('steered', {}, { _meta: { progressToken: { a: 1 } } }), {}],
    ['with a token of 1,025 characters', call('steered', {}, { _meta: { progressToken: 'x'.repeat(1025) } }), {}],
    ['for a client that takes no event stream', call('steered', {}, TOKEN), { accept: 'application/json' }],
  ])('%s is not told, and the response is JSON', async (_what, body, headers) => {
    await using started = await startSteered(body, headers);
    const { steered } = started;
    steered.report(1);
    steered.finish();
    const response = await started.response;
    expect(response.headers.get('content-type')).toBe('application/json');
    expect((await response.json()).result.content[0].text).toBe('done');
  });

  test('a call with a progress token is a stream from its beginning, and no progress comes after its result', async () => {
    await using started = await startSteered();
    const { steered } = started;
    steered.finish();
    const response = await started.response;
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    const events = eventsOf(response);
    expect(JSON.parse((await events.next())?.data ?? '').result.content[0].text).toBe('done');
    steered.report(1);
    expect(await events.next()).toBeUndefined();
  });

  test.each([
    ['a list', request('tools/list', TOKEN)],
    ['an unknown tool', call('nothing', {}, TOKEN)],
    ['arguments that are no object', call('steered', 5, TOKEN)],
  ])('%s with a progress token is no stream', async (_what, body) => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const { status, headers } = await post(app, body);
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json']);
  });

  test.each<[string, string | number, (progressToken: string | number) => { body: unknown; headers: HeaderMap }]>([
    [
      '1,024 characters',
      'x'.repeat(1024),
      (progressToken) => ({ body: call('steered', {}, { _meta: { progressToken } }), headers: {} }),
    ],
    ['a number in 2026-07-28', 7, (progressToken) => modern('tools/call', { name: 'steered' }, { progressToken })],
  ])('a token of %s comes back with the progress', async (_what, progressToken, make) => {
    const { body, headers } = make(progressToken);
    await using started = await startSteered(body, headers);
    const { steered, response } = started;
    steered.report(1);
    steered.finish();
    const [progress, { result }] = await messagesOf(response);
    expect(progress.params).toEqual({ progressToken, progress: 1 });
    expect(result.resultType).toBe(progressToken === 7 ? 'complete' : undefined);
  });
});

describe('a client that goes away', () => {
  const asModern = () => modern('tools/call', { name: 'steered' }, { progressToken: 1 });

  test('2026-07-28: closing the stream cancels the call', async () => {
    const { body, headers } = asModern();
    await using started = await startSteered(body, headers);
    const { steered, response } = started;
    steered.report(1);
    const events = eventsOf(await response);
    await events.next();
    await events.cancel();
    started.leave.abort();
    await steered.aborted;
    steered.finish();
  });

  test('2026-07-28: the end of the stream is enough to cancel, but not before 2026-07-28', async () => {
    for (const [made, cancels] of [
      [asModern(), true],
      [{ body: call('steered', {}, TOKEN), headers: {} }, false],
    ] as const) {
      const steered = steeredTool();
      await using app = await createTestApp({ tools: () => [steered.tool] });
      const headers = { 'content-type': 'application/json', accept: ACCEPT, ...made.headers };
      const sent = new Request(`${app.url}/mcp`, { method: 'POST', headers, body: JSON.stringify(made.body) });
      const response = app.handler.fetch(sent, NO_CONNECTION);
      await steered.running;
      steered.report(1);
      await (await response).body?.cancel();
      expect(steered.isAborted()).toBe(cancels);
      steered.finish();
    }
  });

  test('before 2026-07-28: closing the stream cancels nothing, the call runs to its end', async () => {
    const older = steeredTool({ name: 'older' });
    const newer = steeredTool({ name: 'newer' });
    await using app = await createTestApp({ tools: () => [older.tool, newer.tool] });
    const leave = new AbortController();
    const first = fetchMcp(app, call('older', {}, TOKEN), {}, leave.signal);
    await older.running;
    const { body, headers } = modern('tools/call', { name: 'newer' });
    const second = fetchMcp(app, body, headers, leave.signal);
    await newer.running;
    leave.abort();
    await Promise.allSettled([first, second]);
    await newer.aborted; // by now the server knows of both
    expect(older.isAborted()).toBe(false);
    older.report(1);
    older.finish();
    newer.finish();
    expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('a call that has its response is not cancelled any more', async () => {
    const steered = steeredTool();
    await using app = await createTestApp({ tools: () => [steered.tool] });
    const leave = new AbortController();
    const { body, headers } = modern('tools/call', { name: 'steered' });
    const init = { method: 'POST', headers: { 'content-type': 'application/json', accept: ACCEPT, ...headers } };
    const request = new Request(`${app.url}/mcp`, { ...init, signal: leave.signal, body: JSON.stringify(body) });
    const response = app.handler.fetch(request, NO_CONNECTION);
    await steered.running;
    steered.finish();
    expect((await (await response).json()).result.content).toEqual([{ type: 'text', text: 'done' }]);
    leave.abort(); // as the end of its request does, on Deno after a response too
    expect(steered.isAborted()).toBe(false);
  });
});

test('a result for which there is no room is refused on its stream, in-band', async () => {
  const large = defineTool(anyone, {
    ...noInput('large'),
    run(_input, { progress }) {
      progress(1);
      return ok({ content: [{ type: 'text', text: 'x'.repeat(4 * 1024 * 1024) }] });
    },
  });
  await using app = await createTestApp({ tools: () => [large] });
  const body = JSON.stringify(call('large', {}, TOKEN));
  const asked = Array.from({ length: 8 }, async () => {
    const { socket, readUntil } = await openHttpSocket(app.url);
    socket.write(postText('/mcp', body, { Accept: ACCEPT }));
    await readUntil((text) => text.includes('"progress":1'));
    socket.pause();
    return { socket, readUntil };
  });
  const texts = (await Promise.all(asked)).map(async ({ socket, readUntil }) => {
    socket.resume();
    return readUntil((text) => text.endsWith('\r\n0\r\n\r\n'));
  });
  const refused = (await Promise.all(texts)).filter((text) => text.includes('The server is at its limit; try again'));
  expect(refused.length).toBeWithin(1, 6);
  for (const text of refused) expect(text).toContain('"isError":true');
});

test('a client that never reads costs the progress it misses, and no memory', async () => {
  const steered = steeredTool();
  await using app = await createTestApp({ tools: () => [steered.tool] });
  const response = fetchMcp(app, call('steered', {}, TOKEN));
  await steered.running;
  steered.report(1);
  const unread = await response;
  const padding = 'x'.repeat(10_000);
  for (let progress = 2; progress < 20_000; progress += 1) steered.report(progress, undefined, padding);
  steered.finish();
  const events = await eventsOf(unread).rest();
  expect(JSON.parse(events.at(-1)?.data ?? '').result.content[0].text).toBe('done');
  // 200 MB were reported; what was kept is what the buffers hold, the kernel's among them.
  expect(events.reduce((bytes, { data }) => bytes + data.length, 0)).toBeLessThan(8 * 1024 * 1024);
});
