// Clients that are slow on purpose: half a head, half a body, and answers nobody reads. They cost a connection each,
// and nobody else's time. How long each may take is in slow-clients.long.ts.

import { expect, test } from 'bun:test';
import { type RawConnection, rawConnection, rawPost } from '../../support/raw.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';

const HALVES = [
  'POST /tools/get_d',
  'POST /tools/get_data HTTP/1.1\r\nHost: localhost\r\nX-Slow: ',
  rawPost('/tools/get_data', '{', { 'Content-Length': '100000' }),
  rawPost('/mcp', '{', { 'Content-Length': '1000000' }),
  'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"je',
];
const CLIENTS = 300;
const REQUESTS = 200;

test('hundreds of unfinished requests leave the server answering, and stopping', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  const slow: RawConnection[] = [];
  for (let client = 0; client < CLIENTS; client += 1) {
    const connection = await rawConnection(app.url);
    connection.socket.write(HALVES[client % HALVES.length] ?? '');
    slow.push(connection);
  }
  for (let request = 0; request < REQUESTS; request += 1) {
    expect((await app.useKey(key)).status).toBe(200);
  }
  // Nobody was answered, because nobody has asked yet.
  expect(slow.map((connection) => connection.received()).join('')).toBe('');
  await app.close();
  await Promise.all(slow.map(({ closed }) => closed));
});

test('answers that nobody reads hold up nobody else', async () => {
  await using app = await createTestApp();
  const { authorization } = await bearer(app, 'alice');
  const read = 'GET /widgets/preview HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const deaf = await Promise.all(Array.from({ length: 20 }, () => rawConnection(app.url)));
  for (const { socket } of deaf) {
    socket.pause();
    socket.write(read.repeat(100)); // about 10 MB of answers each
  }
  for (let request = 0; request < REQUESTS; request += 1) {
    expect((await app.call('list_api_keys', {}, { authorization })).status).toBe(200);
  }
  for (const { socket } of deaf) socket.destroy();
});
