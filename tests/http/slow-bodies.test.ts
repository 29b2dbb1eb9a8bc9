// Bodies that come slowly or never to their end: what they hold while they are read, and for how long.

import { expect, test } from 'bun:test';
import { type HttpSocket, openHttpSocket, postText } from '../support/http-socket.ts';
import { post, request } from '../support/mcp.ts';
import { createTestApp, type TestApp } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const MIB = 1024 * 1024;
/** What one address may have under way. */
const EACH_MAX = 16;
const PER_S = 32 * 1024;

const ping = (bytes: number) => {
  const body = JSON.stringify(request('ping', { padding: '' }));
  return body.replace('""', `"${'x'.repeat(bytes - body.length)}"`);
};
const LONG = ping(MIB);

const status = async (app: TestApp, body: string) => (await post(app, body)).status;

/** Sends the head of LONG, and so much of it. */
async function begin(app: TestApp, bytes: number, headers: Record<string, string> = {}): Promise<HttpSocket> {
  const connection = await openHttpSocket(app.url);
  connection.socket.write(postText('/mcp', LONG.slice(0, bytes), { 'Content-Length': String(MIB), ...headers }));
  return connection;
}

const responded = ({ readUntil }: HttpSocket) => readUntil((text) => text.includes('\r\n\r\n'));

test('bodies without their last byte are counted before they are read, and make room for others after a second', async () => {
  await using app = await createTestApp();
  const slow = await Promise.all(Array.from({ length: EACH_MAX }, () => begin(app, MIB - 1)));
  await waitFor(async () => (await status(app, LONG)) === 503);
  expect(await status(app, ping(16 * 1024))).toBe(200); // as long as a head may be
  expect(slow.map((connection) => connection.received()).join('')).toBe('');
  app.clock.advance(1001);
  expect(await status(app, LONG)).toBe(200);
  for (const connection of slow) expect(await responded(connection)).toStartWith('HTTP/1.1 400');
});

test('a refused body needs no byte to be sent, and takes no room', async () => {
  await using app = await createTestApp();
  const slow = await Promise.all(Array.from({ length: EACH_MAX }, () => begin(app, 1)));
  await waitFor(async () => (await status(app, LONG)) === 503);
  for (let n = 0; n < 2 * EACH_MAX; n += 1) expect(await responded(await begin(app, 0))).toStartWith('HTTP/1.1 503');
  for (const { socket } of slow) socket.destroy();
  await waitFor(async () => (await status(app, LONG)) === 200);
});

test('a body that stands still is given up after 10 seconds', async () => {
  await using app = await createTestApp();
  const connection = await begin(app, MIB / 2);
  let seconds = 0;
  for (; connection.received() === ''; seconds += 1) {
    await status(app, '{}'); // what has come by now is read
    app.clock.advance(1000);
  }
  expect(seconds).toBeWithin(10, 15);
  expect(await responded(connection)).toStartWith('HTTP/1.1 400');
});

test('a body that keeps moving, but below 32 KiB a second, is given up; one above is read to its end', async () => {
  await using app = await createTestApp();
  const [slow, steady] = [await begin(app, 0), await begin(app, 0)];
  const sent = { slow: 0, steady: 0 };
  while (sent.steady < MIB) {
    slow.socket.write(LONG.slice(sent.slow, sent.slow + PER_S / 4));
    steady.socket.write(LONG.slice(sent.steady, sent.steady + PER_S + 1000));
    sent.slow += PER_S / 4;
    sent.steady += PER_S + 1000;
    await status(app, '{}');
    app.clock.advance(1000);
  }
  expect(await responded(steady)).toStartWith('HTTP/1.1 200');
  expect(slow.received()).toStartWith('HTTP/1.1 400');
});

test('a body that was cut off is refused, also if what has come is JSON by itself', async () => {
  await using app = await createTestApp();
  const whole = LONG.slice(0, 20_000 - 2).replace(/x*$/, (text) => `${text}"}}`);
  expect(() => JSON.parse(whole)).not.toThrow();
  const connection = await openHttpSocket(app.url);
  connection.socket.write(postText('/mcp', whole, { 'Content-Length': String(MIB) }));
  while (connection.received() === '') {
    await status(app, '{}'); // what has come by now is read
    app.clock.advance(1000);
  }
  expect(await responded(connection)).toStartWith('HTTP/1.1 400');
});
