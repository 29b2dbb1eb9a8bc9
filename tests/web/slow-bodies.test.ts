// Bodies that come slowly or never to their end: what they hold while they are read, and who makes room for whom.

import { expect, test } from 'bun:test';
import { type HttpSocket, openHttpSocket, postText } from '../support/http-socket.ts';
import { post, request } from '../support/mcp.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 1024 * 1024;
/** As many bodies of 1 MiB as may be under way. */
const MOST = 64;

const ping = (bytes: number) => {
  const body = JSON.stringify(request('ping', { padding: '' }));
  return body.replace('""', `"${'x'.repeat(bytes - body.length)}"`);
};
const LONG = ping(MIB);

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
  const dripping = await beginAll(app, 0, MOST - 1);
  const steady = await begin(app, 0);
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
