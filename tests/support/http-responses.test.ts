// What tests read off sockets.

import { expect, test } from 'bun:test';
import { parseResponses } from './http-responses.ts';

const STREAM = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n';

test('a stream that is cut off by another response is no whole response, and reading it ends', () => {
  const received = `${STREAM}HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n`;
  expect(parseResponses(received, false)).toEqual({ responses: [], rest: received });
  expect(parseResponses(`${STREAM}0\r\n\r\n`, false)).toMatchObject({ responses: [{ body: 'abc' }], rest: '' });
});
