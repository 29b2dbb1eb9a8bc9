// Clients that are slow on purpose: half a head, half a body. They cost a connection each, and nobody else's time. How long
// each may take is in slow-clients.long.ts; responses that nobody reads are in unread.alone.test.ts.

import { expect, test } from 'bun:test';
import { type HttpSocket, openHttpSocket, postText } from '../support/http-socket.ts';
import { createTestApp } from '../support/test-app.ts';

const HALVES = [
  'POST /tools/get_d',
  'POST /tools/get_data HTTP/1.1\r\nHost: localhost\r\nX-Slow: ',
  postText('/tools/get_data', '{', { 'Content-Length': '100000' }),
  postText('/mcp', '{', { 'Content-Length': '1048576' }),
  'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"je',
];
const CLIENTS = 300;
const REQUESTS = 200;

test('hundreds of unfinished requests leave the server responding, and stopping', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  const slow: HttpSocket[] = [];
  for (let client = 0; client < CLIENTS; client += 1) {
    const connection = await openHttpSocket(app.url);
    connection.socket.write(HALVES[client % HALVES.length] ?? '');
    slow.push(connection);
  }
  for (let request = 0; request < REQUESTS; request += 1) {
    expect((await app.useKey(key)).status).toBe(200);
  }
  // No client has a response, because none has sent a whole request, but those whose bodies would be too many.
  const responses = slow.map((connection) => connection.received()).filter((text) => text !== '');
  expect(responses.length).toBeWithin(1, (2 * CLIENTS) / HALVES.length);
  expect(responses.filter((text) => !text.startsWith('HTTP/1.1 503'))).toEqual([]);
  await app.close();
  await Promise.all(slow.map(({ closed }) => closed));
});
