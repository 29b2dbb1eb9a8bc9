// Media type, size and syntax of a body, with a length and without.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { isWhole, openHttpSocket, parseResponse, postText, sendOverSocket } from '../support/http-socket.ts';
import { labelled } from '../support/labels.ts';
import { bearer, createTestApp, readResponse, type TestApp } from '../support/test-app.ts';

const BODY_BYTES_MAX = 1024 * 1024;

let app: TestApp;
let alice: { authorization: string };
beforeAll(async () => {
  app = await createTestApp();
  alice = await bearer(app, 'alice');
});
afterAll(() => app.close());

const LIST = '/tools/list_api_keys';
const post = async (body: string | undefined, headers: Record<string, string> = {}, path = LIST) =>
  readResponse(
    await fetch(app.url + path, {
      method: 'POST',
      headers: { ...alice, ...headers },
      ...(body !== undefined && { body: Buffer.from(body) }),
    }),
  );
const JSON_TYPE = { 'content-type': 'application/json' };

describe('media type', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8"',
    'application/json; charset=utf8',
    'application/json;',
    'application/json; version=1', // parameters nobody knows are ignored
    'application/json; version=1; charset=utf-8; x="y"',
    'application/json; x-charset=latin1',
    'application/json; x="a, b"; charset="utf-8"',
  ])('%s is taken', async (type) => {
    expect((await post('{}', { 'content-type': type })).status).toBe(200);
  });

  test.each([
    'text/plain',
    'application/jsonp',
    'application/json; charset=latin1',
    'application/json; version=1; charset="utf-16"',
    'application/json; charset=utf-8-x',
    'application/json; charset=utf-8; charset=latin1',
    'application/json; x="y"; charset=latin1',
    'application/json; x="y',
    'application/json; x="y", text/plain',
    'application/json, application/json',
    'application/json;, text/plain',
    'text/json',
    'multipart/form-data',
  ])('%s is 415', async (type) => {
    const { status, body } = await post('{}', { 'content-type': type });
    expect({ status, code: body.code }).toEqual({ status: 415, code: 'unsupported_media_type' });
  });

  test('a body without a media type is 415', async () => {
    const response = await sendOverSocket(
      app.url,
      `POST ${LIST} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}`,
    );
    expect(response.status).toBe(415);
  });

  test('an empty body is {} and needs no media type', async () => {
    expect((await post(undefined)).status).toBe(200);
    expect((await post(undefined, { 'content-type': 'text/plain' })).status).toBe(200);
    expect((await post('', JSON_TYPE)).status).toBe(200);
    const { status, body } = await post(undefined, {}, '/tools/revoke_api_key');
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
  });

  test('a chunked body of nothing is {}, with a media type and without', async () => {
    const head = `POST ${LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${alice.authorization}\r\nTransfer-Encoding: chunked\r\n`;
    expect((await sendOverSocket(app.url, `${head}Content-Type: application/json\r\n\r\n0\r\n\r\n`)).status).toBe(200);
    expect((await sendOverSocket(app.url, `${head}\r\n0\r\n\r\n`)).status).toBe(200);
    expect((await sendOverSocket(app.url, `${head}\r\n2\r\n{}\r\n0\r\n\r\n`)).status).toBe(415);
  });
});

describe('JSON', () => {
  test.each(
    labelled([
      '{',
      '{"a":1,}',
      "{'a':1}",
      'undefined',
      '{"a":NaN}',
      '{"a":1e}',
      '{"a":"\u0001"}',
      '{}{}',
      '[]',
      '[{}]',
      'null',
      '1',
      '"text"',
      'true',
      '[['.repeat(50_000),
    ]),
  )('%s is 400 invalid_json', async (_label, text) => {
    const { status, body } = await post(text, JSON_TYPE);
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_json' });
  });

  test('a byte order mark alone is no empty body, with a length and in chunks', async () => {
    const mark = '\u{feff}';
    const head = `POST ${LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${alice.authorization}\r\nContent-Type: application/json\r\n`;
    const chunked = await sendOverSocket(app.url, `${head}Transfer-Encoding: chunked\r\n\r\n3\r\n${mark}\r\n0\r\n\r\n`);
    expect((await post(mark, JSON_TYPE)).body.code).toBe('invalid_json');
    expect({ status: chunked.status, code: JSON.parse(chunked.body).code }).toEqual({
      status: 400,
      code: 'invalid_json',
    });
  });

  test('deep nesting is refused like any unknown field', async () => {
    const { status, body } = await post(`{"x":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, JSON_TYPE);
    expect({ status, code: body.code }).toEqual({ status: 400, code: expect.stringMatching(/^invalid_(json|input)$/) });
  });
});

test.each([
  [100, 200],
  [101, 400],
])('a form of %d fields is %d', async (fields, status) => {
  const body = `token=x${'&a=b'.repeat(fields - 1)}`;
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  expect((await post(body, form, '/revoke')).status).toBe(status);
});

describe('size', () => {
  /** A JSON object of exactly `bytes`. */
  const sized = (bytes: number) => `{"_meta":"${'x'.repeat(bytes - '{"_meta":""}'.length)}"}`;

  test.each([
    ['below', BODY_BYTES_MAX - 1, 200],
    ['at', BODY_BYTES_MAX, 200],
    ['above', BODY_BYTES_MAX + 1, 413],
  ])('with a length: %s the limit (%d bytes) is %d', async (_where, bytes, status) => {
    const response = await post(sized(bytes), JSON_TYPE);
    expect(response.status).toBe(status);
    if (status === 413) expect(response.body.code).toBe('payload_too_large');
  });

  const chunked = (body: string) =>
    `POST ${LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${alice.authorization}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
  const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

  test.each([
    ['below', BODY_BYTES_MAX - 1, 200],
    ['at', BODY_BYTES_MAX, 200],
    ['above', BODY_BYTES_MAX + 1, 413],
  ])('chunked without one: %s the limit (%d bytes) is %d', async (_where, bytes, status) => {
    const parts = sized(bytes).match(/.{1,65536}/g) ?? [];
    expect((await sendOverSocket(app.url, chunked(parts.map(chunk).join('')), '0\r\n\r\n')).status).toBe(status);
  });

  test.each([
    ['at', sized(BODY_BYTES_MAX), 200],
    ['above', sized(BODY_BYTES_MAX + 1), 413],
    ['far below, without a body,', '', 200],
  ])('with the same length twice: %s the limit', async (_where, body, status) => {
    const length = `Content-Length: ${body.length}\r\n`;
    const head = `POST ${LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${alice.authorization}\r\nContent-Type: application/json\r\n`;
    expect((await sendOverSocket(app.url, `${head}${length}${length}\r\n${body}`)).status).toBe(status);
  });

  test('a length over the limit is refused before a byte of the body is sent', async () => {
    const { status, body } = await sendOverSocket(
      app.url,
      postText(LIST, '', { 'Content-Length': String(BODY_BYTES_MAX + 1) }),
    );
    expect(status).toBe(413);
    expect(JSON.parse(body).code).toBe('payload_too_large');
  });

  test('a chunked body over the limit is refused while it streams in, not after', async () => {
    const connection = await openHttpSocket(app.url);
    connection.socket.write(chunked(''));
    const piece = chunk('x'.repeat(256 * 1024));
    for (let sent = 0; sent < 5; sent += 1) connection.socket.write(piece);
    // No last chunk is ever sent.
    const { status, body } = parseResponse(await connection.readUntil(isWhole));
    expect(status).toBe(413);
    expect(JSON.parse(body).code).toBe('payload_too_large');
    connection.socket.destroy();
  });

  test('far over it the runtime cuts in, and the server goes on', async () => {
    const huge = await sendOverSocket(app.url, postText(LIST, '', { 'Content-Length': String(64 * 1024 * 1024) }));
    expect(huge.status).toBe(413);
    expect((await post('{}', JSON_TYPE)).status).toBe(200);
  });

  test('a body cut off in the middle changes nothing and disturbs nobody', async () => {
    const connection = await openHttpSocket(app.url);
    const body = '{"name":"half","scopes":["read"]}';
    connection.socket.write(
      postText('/tools/create_api_key', body.slice(0, 10), {
        Authorization: alice.authorization,
        'Content-Length': String(body.length),
      }),
    );
    await new Promise<void>((sent) => connection.socket.end(() => sent()));
    await connection.closed;
    expect((await post('{}', JSON_TYPE)).body.keys).toEqual([]);
  });
});

test('an over-long path, header and odd method get a response or a closed connection, and the server goes on', async () => {
  for (const head of [
    `GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    `GET / HTTP/1.1\r\nHost: localhost\r\nX-Big: ${'a'.repeat(100_000)}\r\n\r\n`,
    'BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    '\0\0\0\0\r\n\r\n',
  ]) {
    const connection = await openHttpSocket(app.url);
    connection.socket.write(head);
    await Promise.race([connection.closed, connection.readUntil((text) => text.includes('\r\n'))]);
    expect(connection.received()).not.toMatch(/^HTTP\/1\.1 50[^5]/);
    connection.socket.destroy();
  }
  expect((await fetch(app.url)).status).toBe(200);
});
