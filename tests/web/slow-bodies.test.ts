// Bodies that come slowly or never to their end: what they hold while they are read, and who makes room for whom.

import { expect, test } from 'bun:test';
import { defineTool, ok } from '../../src/start/package/index.ts';
import { type HttpSocket, openHttpSocket, postText, sendOverSocket } from '../support/http-socket.ts';
import { call, post, request } from '../support/mcp.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { anyone, noInput } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 1024 * 1024;
/** As many bodies of 1 MiB as may be under way. */
const MOST = 64;

const ping = (bytes: number) => {
  const body = JSON.stringify(request('ping', { padding: '' }));
  return body.replace('""', `"${'x'.repeat(bytes - body.length)}"`);
};
const LONG = ping(MIB);

const CHUNKED_HEAD =
  'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';

const status = async (app: TestApp, body: string) => (await post(app, body)).status;

/** Sends the head of a body of 1 MiB, and so much of it. */
async function begin(app: TestApp, bytes: number, body = LONG): Promise<HttpSocket> {
  const connection = await openHttpSocket(app.url);
  connection.socket.write(postText('/mcp', body.slice(0, bytes), { 'Content-Length': String(MIB) }));
  return connection;
}

const beginAll = (app: TestApp, bytes: number, count = MOST) =>
  Promise.all(Array.from({ length: count }, () => begin(app, bytes)));

const isFull = (app: TestApp) => waitFor(async () => (await status(app, LONG)) === 503);

const responded = ({ readUntil }: HttpSocket) => readUntil((text) => text.includes('\r\n\r\n'));
const responses = (connections: readonly HttpSocket[]) =>
  connections.map((connection) => connection.received().slice(0, 'HTTP/1.1 503'.length)).filter((text) => text !== '');

test('bodies without their last byte are counted before they are read, and make room for others after a second', async () => {
  await using app = await createTestApp();
  const slow = await beginAll(app, MIB - 1);
  await isFull(app);
  expect(await status(app, ping(16 * 1024))).toBe(200); // as long as a head may be
  expect(responses(slow)).toEqual([]);
  app.clock.advance(1001);
  expect(await status(app, LONG)).toBe(200);
  await waitFor(() => responses(slow).length > 0);
  expect(responses(slow)).toEqual(['HTTP/1.1 503']);
});

test('a body of no announced length is counted as it comes, once it is longer than a head may be', async () => {
  await using app = await createTestApp();
  await beginAll(app, 1, MOST - 1);
  const last = await openHttpSocket(app.url);
  last.socket.write(postText('/mcp', '{', { 'Content-Length': String(MIB - 8 * 1024) }));
  await waitFor(async () => (await status(app, ping(17 * 1024))) === 503);
  const chunked = async (bytes: number) => {
    const text = `${CHUNKED_HEAD}${bytes.toString(16)}\r\n${ping(bytes)}\r\n0\r\n\r\n`;
    return (await sendOverSocket(app.url, text)).status;
  };
  expect([await chunked(16 * 1024), await chunked(17 * 1024)]).toEqual([200, 503]);
});

test('whole bodies keep their room until their requests are over: nothing is gained by cutting them off', async () => {
  const finished = Promise.withResolvers<void>();
  let running = 0;
  const waiting = defineTool(anyone, {
    ...noInput('waiting'),
    async run() {
      running += 1;
      await finished.promise;
      return ok({ content: [] });
    },
  });
  await using app = await createTestApp({ tools: () => [waiting] });
  const long = JSON.stringify(call('waiting', {}, { _meta: { padding: 'x'.repeat(MIB - 1024) } }));
  const calls = Array.from({ length: MOST }, () => status(app, long));
  await waitFor(() => running === MOST);
  expect(await status(app, LONG)).toBe(503);
  app.clock.advance(1001);
  expect(await status(app, LONG)).toBe(503);
  finished.resolve();
  expect(new Set(await Promise.all(calls))).toEqual(new Set([200]));
  expect(await status(app, LONG)).toBe(200);
});

test('a refused body needs no byte to be sent, and takes no room', async () => {
  await using app = await createTestApp();
  const slow = await beginAll(app, 1);
  await isFull(app);
  for (let n = 0; n < 32; n += 1) expect(await responded(await begin(app, 0))).toStartWith('HTTP/1.1 503');
  for (const { socket } of slow) socket.destroy();
  await waitFor(async () => (await status(app, LONG)) === 200);
});

test('a body that stands still is waited for while nobody needs its room', async () => {
  await using app = await createTestApp();
  const connection = await begin(app, MIB / 2);
  for (let seconds = 0; seconds < 60; seconds += 1) {
    expect(await status(app, LONG)).toBe(200);
    app.clock.advance(1000);
  }
  connection.socket.write(LONG.slice(MIB / 2));
  expect(await responded(connection)).toStartWith('HTTP/1.1 200');
});

test('a body that keeps moving is read to its end beside others that send a byte now and then', async () => {
  await using app = await createTestApp();
  const steady = await begin(app, 0); // the first that would have to make room
  const dripping = await beginAll(app, 0, MOST - 1);
  await isFull(app);
  const pieceBytes = 64 * 1024;
  for (let sent = 0; sent < MIB; sent += pieceBytes) {
    steady.socket.write(LONG.slice(sent, sent + pieceBytes));
    for (const { socket } of dripping) socket.write(' ');
    await status(app, '{}'); // what has come by now is read
    app.clock.advance(1001);
    if (sent > 0) expect(await status(app, LONG)).toBe(200);
  }
  expect(await responded(steady)).toStartWith('HTTP/1.1 200');
  await waitFor(() => responses(dripping).length > 0);
  expect([...new Set(responses(dripping))]).toEqual(['HTTP/1.1 503']);
});

test('a body that was cut off is overloaded, to be sent again, also if what has come is JSON by itself', async () => {
  await using app = await createTestApp();
  const whole = ping(20_000);
  expect(() => JSON.parse(whole)).not.toThrow();
  const connection = await begin(app, whole.length, whole);
  await status(app, '{}'); // what has come by now is read
  await beginAll(app, 0, MOST - 1);
  await isFull(app);
  app.clock.advance(1001);
  expect(await status(app, LONG)).toBe(200);
  const response = await connection.readUntil((text) => text.includes('"requestId"'));
  expect(response).toStartWith('HTTP/1.1 503');
  expect(response).toContain('Retry-After: 1');
  expect(response).toContain('"code":"overloaded"');
});
