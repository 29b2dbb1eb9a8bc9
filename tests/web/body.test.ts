// Media type, size and syntax of a body, with a length and without.

import { describe, expect, test } from 'bun:test';
import { isWhole, openHttpSocket, parseResponse, postText, sendOverSocket } from '../support/http-socket.ts';
import { labelled } from '../support/labels.ts';
import { bearer, readResponse, sharedApp } from '../support/test-app.ts';

const BODY_BYTES_MAX = 1024 * 1024;

const app = await sharedApp();
const alice = await bearer(app, 'alice');

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
/** A POST whose body, as it goes over the wire, comes after these lines. */
const raw = (body: string, ...lines: string[]) =>
  sendOverSocket(
    app.url,
    [`POST ${LIST} HTTP/1.1`, 'Host: localhost', `Authorization: ${alice.authorization}`, ...lines, '', body].join(
      '\r\n',
    ),
  );
const CHUNKED = 'Transfer-Encoding: chunked';
const AS_JSON = 'Content-Type: application/json';
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const LAST_CHUNK = '0\r\n\r\n';

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
    expect((await raw('{}', 'Content-Length: 2')).status).toBe(415);
    expect((await raw(chunk('{}') + LAST_CHUNK, CHUNKED)).status).toBe(415);
  });

  test('an empty body is {} and needs no media type', async () => {
    expect((await post(undefined)).status).toBe(200);
    expect((await post(undefined, { 'content-type': 'text/plain' })).status).toBe(200);
    expect((await post('', JSON_TYPE)).status).toBe(200);
    const { status, body } = await post(undefined, {}, '/tools/revoke_api_key');
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
  });

  test('a chunked body of nothing is {}, with a media type and without', async () => {
    expect((await raw(LAST_CHUNK, CHUNKED, AS_JSON)).status).toBe(200);
    expect((await raw(LAST_CHUNK, CHUNKED)).status).toBe(200);
  });
});

describe('JSON', () => {
  const NONE = ['{', '{"a":1,}', "{'a':1}", 'undefined', '{"a":NaN}', '{"a":1e}', '{"a":"\u0001"}', '{}{}'];
  const NO_OBJECT = ['[]', '[{}]', 'null', '1', '"text"', 'true'];
  test.each([
    ...labelled([...NONE, '[['.repeat(50_000)]).map((row) => [...row, 'The body is not JSON'] as const),
    ...labelled(NO_OBJECT).map((row) => [...row, 'The body must be one JSON object'] as const),
  ])('%s is 400 invalid_json', async (_label, text, detail) => {
    const { body } = await post(text, JSON_TYPE);
    expect(body).toMatchObject({ status: 400, code: 'invalid_json', detail });
  });

  test('a byte order mark alone is no empty body, with a length and in chunks', async () => {
    const mark = '\u{feff}';
    const chunked = await raw(chunk(mark) + LAST_CHUNK, CHUNKED, AS_JSON);
    expect((await post(mark, JSON_TYPE)).body.code).toBe('invalid_json');
    expect([chunked.status, JSON.parse(chunked.body).code]).toEqual([400, 'invalid_json']);
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
  ])(
    '%s the limit (%d bytes) is %d, with a length, with the same twice, and in chunks',
    async (_where, bytes, status) => {
      const body = sized(bytes);
      const response = await post(body, JSON_TYPE);
      expect(response.status).toBe(status);
      if (status === 413) expect(response.body.code).toBe('payload_too_large');
      const length = `Content-Length: ${bytes}`;
      expect((await raw(body, length, length, AS_JSON)).status).toBe(status);
      const chunks = (body.match(/.{1,65536}/g) ?? []).map(chunk).join('');
      expect((await raw(chunks + LAST_CHUNK, CHUNKED, AS_JSON)).status).toBe(status);
    },
  );

  test('the same length twice, of no body, is taken', async () => {
    expect((await raw('', 'Content-Length: 0', 'Content-Length: 0', AS_JSON)).status).toBe(200);
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
    connection.socket.write(`POST ${LIST} HTTP/1.1\r\nHost: localhost\r\n${AS_JSON}\r\n${CHUNKED}\r\n\r\n`);
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
