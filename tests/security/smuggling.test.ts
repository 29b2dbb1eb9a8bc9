// Request smuggling (RFC 9112 §11.2): a request whose length can be read in two ways is refused and its connection
// closed, so that no proxy in front of this server can be made to take part of it for somebody else's request.

import { describe, expect, test } from 'bun:test';
import { parseResponses } from '../support/http-responses.ts';
import { openHttpSocket } from '../support/http-socket.ts';
import { sharedApp } from '../support/test-app.ts';

const app = await sharedApp();

const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n';
const LAST = 'GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';

const post = (framing: string, body: string) =>
  `POST /tools/get_data HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${framing}\r\n${body}`;

/** The statuses of all responses on one connection, once the server has closed it. */
async function statusesOf(sent: string): Promise<number[]> {
  const connection = await openHttpSocket(app.url);
  connection.socket.write(Buffer.from(sent, 'latin1'));
  await connection.closed;
  return parseResponses(connection.received(), false).responses.map(({ status }) => status);
}

const CHUNKED = `2\r\n{}\r\n0\r\n\r\n`;

describe('one response, and the end of the connection', () => {
  test.each([
    ['Content-Length and Transfer-Encoding', 'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'],
    ['Transfer-Encoding and Content-Length', 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', '0\r\n\r\n'],
    ['two lengths', 'Content-Length: 2\r\nContent-Length: 44\r\n', '{}'],
    ['a list of lengths', 'Content-Length: 2, 2\r\n', '{}'],
    ['a signed length', 'Content-Length: +2\r\n', '{}'],
    ['a negative length', 'Content-Length: -2\r\n', '{}'],
    ['a hexadecimal length', 'Content-Length: 0x2\r\n', '{}'],
    ['a length that begins like one', 'Content-Length: 2a\r\n', '{}'],
    ['a length of two numbers', 'Content-Length: 2 2\r\n', '{}'],
    ['an empty length', 'Content-Length:\r\n', '{}'],
    ['a length that overflows', 'Content-Length: 18446744073709551618\r\n', '{}'],
    ['a space before the colon', 'Content-Length : 2\r\n', '{}'],
    ['a space before the colon of Transfer-Encoding', 'Transfer-Encoding : chunked\r\n', CHUNKED],
    ['an unknown coding', 'Transfer-Encoding: xchunked\r\n', CHUNKED],
    ['identity', 'Transfer-Encoding: identity\r\n', CHUNKED],
    ['chunked not last', 'Transfer-Encoding: chunked, identity\r\n', CHUNKED],
    ['a coding this server does not know', 'Transfer-Encoding: gzip, chunked\r\n', CHUNKED],
    ['two codings', 'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', CHUNKED],
    ['a vertical tab', 'Transfer-Encoding: \x0bchunked\r\n', CHUNKED],
    ['a folded header', 'Transfer-Encoding:\r\n chunked\r\n', CHUNKED],
    ['any folded header', 'X-Folded: a\r\n b\r\nContent-Length: 2\r\n', '{}'],
    ['NUL in a header', 'X-NUL: a\0b\r\nContent-Length: 2\r\n', '{}'],
    ['a signed chunk size', 'Transfer-Encoding: chunked\r\n', '+2\r\n{}\r\n0\r\n\r\n'],
    ['a negative chunk size', 'Transfer-Encoding: chunked\r\n', '-1\r\n{}\r\n0\r\n\r\n'],
    ['a chunk size with 0x', 'Transfer-Encoding: chunked\r\n', '0x2\r\n{}\r\n0\r\n\r\n'],
    ['a chunk size that overflows', 'Transfer-Encoding: chunked\r\n', 'FFFFFFFFFFFFFFFF2\r\n{}\r\n0\r\n\r\n'],
    ['a chunk longer than its size', 'Transfer-Encoding: chunked\r\n', '2\r\n{}XX0\r\n\r\n'],
  ])('%s', async (_what, framing, body) => {
    expect(await statusesOf(post(framing, body) + SMUGGLED + LAST)).toEqual([400]);
  });
});

describe('what can be read in only one way is read that way', () => {
  test.each([
    ['a length', 'Content-Length: 2\r\n', '{}'],
    ['the same length twice', 'Content-Length: 2\r\nContent-Length: 2\r\n', '{}'],
    ['a length after a tab', 'Content-Length:\t2\r\n', '{}'],
    ['chunks', 'Transfer-Encoding: chunked\r\n', CHUNKED],
    ['chunks in another case', 'TRANSFER-ENCODING: Chunked\r\n', CHUNKED],
    ['a chunk extension', 'Transfer-Encoding: chunked\r\n', '2;a=b\r\n{}\r\n0\r\n\r\n'],
  ])('%s', async (_what, framing, body) => {
    expect(await statusesOf(post(framing, body) + LAST)).toEqual([401, 404]);
  });

  test.each([
    ['an unknown path', '/nope', 'application/json', 404],
    ['a wrong media type', '/tools/get_data', 'text/plain', 415],
    ['an unknown tool', '/tools/nope', 'application/json', 404],
    ['an open stream that is none', '/messages?sessionId=x', 'application/json', 404],
  ])('a body nobody reads is no request: %s', async (_what, path, type, status) => {
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\n`;
    expect(await statusesOf(`${head}Content-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}${LAST}`)).toEqual([
      status,
      404,
    ]);
  });

  test('the body of a GET is no request either', async () => {
    const head = `GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${SMUGGLED.length}\r\n\r\n`;
    expect(await statusesOf(head + SMUGGLED + LAST)).toEqual([200, 404]);
  });

  test.each([20_000, 1_000_000])('nor is the rest of a body of %d bytes, after the response', async (bytes) => {
    const body = 'x'.repeat(bytes - SMUGGLED.length) + SMUGGLED;
    const connection = await openHttpSocket(app.url);
    connection.socket.write(`PUT /verify HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${bytes}\r\n\r\n`);
    connection.socket.write(body.slice(0, bytes / 2));
    await connection.readUntil((received) => received.includes('\r\n\r\n'));
    connection.socket.write(body.slice(bytes / 2) + LAST);
    await connection.closed;
    expect(parseResponses(connection.received(), false).responses.map(({ status }) => status)).toEqual([401, 404]);
  });

  test('a body too large for the server is not read as requests', async () => {
    const body = SMUGGLED.repeat(30_000);
    const head = `POST /tools/get_data HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
    const statuses = await statusesOf(`${head}Content-Length: ${body.length}\r\n\r\n${body}${LAST}`);
    expect(statuses[0]).toBe(413);
    expect(statuses.slice(1)).toEqual(statuses.length > 1 ? [404] : []);
  });
});

test.each([
  ['another server', 'example.com:443', 405],
  ['a URL', 'http://localhost/', 405],
  ['no path', '*', 405],
  ['a path', '/', 405],
  ['keys for other services', '/verify', 401],
])('CONNECT ends its connection, on which a proxy could send others’ requests: %s', async (_what, target, status) => {
  expect(await statusesOf(`CONNECT ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).toEqual([status]);
});

test('two Host headers are refused', async () => {
  const head = 'GET / HTTP/1.1\r\nConnection: close\r\n';
  for (const hosts of [
    ['localhost', 'evil.example'],
    ['evil.example', 'localhost'],
    ['localhost', 'localhost'],
  ]) {
    expect(await statusesOf(`${head}${hosts.map((host) => `Host: ${host}\r\n`).join('')}\r\n`)).toEqual([403]);
  }
});

test('a host in the request line does not get around the check', async () => {
  const line = (target: string, host: string) => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  expect(await statusesOf(line('http://localhost/', 'evil.example'))).toEqual([403]);
});
