// Input that is no message, or a broken one. Each response is checked, and then that the server still works.

import { describe, expect, test } from 'bun:test';
import { openSse, post, request } from '../support/mcp.ts';
import { sharedApp } from '../support/test-app.ts';

const MiB = 1024 * 1024;

const app = await sharedApp();

describe('ids', () => {
  test.each([
    ['a string', 'abc'],
    ['the empty string', ''],
    ['text with quotes and a line break', 'a"b\\c\n\u2028'],
    ['an integer', 42],
    ['zero', 0],
    ['a negative integer', -7],
    ['the largest exact integer', Number.MAX_SAFE_INTEGER],
  ])('%s comes back as it was', async (_what, id) => {
    expect((await post(app, request('ping', undefined, id))).body).toEqual({ jsonrpc: '2.0', id, result: {} });
  });

  test.each([
    ['null', 'null'],
    ['true', 'true'],
    ['a fraction', '1.5'],
    ['an object', '{"a":1}'],
    ['an array', '[1]'],
    ['an integer too large to be exact', '9007199254740993'],
    ['a number too large to be one', '1e999'],
  ])('%s is refused without an id in the response', async (_what, id) => {
    const { status, body } = await post(app, `{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    expect([status, body.error.code, 'id' in body]).toEqual([400, -32600, false]);
  });
});

describe('messages', () => {
  test.each([
    ['a number', '5'],
    ['a string', '"ping"'],
    ['null', 'null'],
    ['true', 'true'],
    ['an empty object', '{}'],
    ['no method', '{"jsonrpc":"2.0","id":1}'],
    ['a method that is no string', '{"jsonrpc":"2.0","id":1,"method":5}'],
    ['a method null', '{"jsonrpc":"2.0","id":1,"method":null}'],
    ['no jsonrpc', '{"id":1,"method":"ping"}'],
    ['jsonrpc 1.0', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['jsonrpc as a number', '{"jsonrpc":2.0,"id":1,"method":"ping"}'],
    ['a prototype', '{"__proto__":{"jsonrpc":"2.0","id":1,"method":"ping"}}'],
  ])('%s is -32600', async (_what, body) => {
    const response = await post(app, body);
    expect([response.status, response.body.error.code]).toEqual([400, -32600]);
  });

  test.each([
    ['nothing', ''],
    ['white space', '  \n'],
    ['no JSON', 'ping'],
    ['half a message', '{"jsonrpc":"2.0","id":1,"met'],
    ['two messages', '{"jsonrpc":"2.0","id":1,"method":"ping"}{}'],
    ['a byte order mark in the middle', '{"jsonrpc":"2.0",\ufeff"id":1}'],
  ])('%s is -32700 without an id', async (_what, body) => {
    const response = await post(app, body);
    expect([response.status, response.body]).toEqual([
      400,
      { jsonrpc: '2.0', error: { code: -32700, message: 'The body is not JSON' } },
    ]);
  });

  test.each([
    ['an array', []],
    ['a string', 'x'],
    ['null', null],
    ['a number', 1],
  ])('params, or _meta, as %s are -32602', async (_what, wrong) => {
    const params = await post(app, request('tools/list', wrong));
    expect([params.body.error.code, params.body.id]).toEqual([-32602, 1]);
    const { status, body } = await post(app, request('tools/list', { _meta: wrong }));
    expect([status, body.error.code]).toEqual([400, -32602]);
    const batch = await post(app, [request('tools/list', { _meta: wrong }, 1), request('ping', { _meta: {} }, 2)]);
    expect(batch.body).toMatchObject([
      { id: 1, error: { code: -32602 } },
      { id: 2, result: {} },
    ]);
    const notification = { jsonrpc: '2.0', method: 'notifications/x', params: { _meta: wrong } };
    expect((await post(app, notification)).status).toBe(400);
    const session = await openSse(app);
    const posted = await session.post(request('tools/list', { _meta: wrong }));
    expect([posted.status, posted.body.error.code, posted.body.id]).toEqual([400, -32602, 1]);
    await session.drop();
  });

  test.each([
    ['no params', undefined],
    ['no name', {}],
    ['a name that is no string', { name: 5 }],
    ['a name in a list', { name: ['get_data'] }],
    ['a name that no text can be made of', { name: { toString: 0, valueOf: 0 } }],
    ['an unknown name', { name: 'nope' }],
    ['the name of an object property', { name: 'constructor' }],
    ['the name __proto__', { name: '__proto__' }],
    ['arguments as an array', { name: 'get_data', arguments: [] }],
    ['arguments as text', { name: 'get_data', arguments: '{}' }],
    ['arguments null', { name: 'get_data', arguments: null }],
  ])('tools/call with %s is -32602', async (_what, params) => {
    const { status, body } = await post(app, request('tools/call', params));
    expect([status, body.error.code, body.id]).toEqual([200, -32602, 1]);
  });

  test('10,000 levels deep is a response, not a crash', async () => {
    const { key } = await app.createKey('alice');
    const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`;
    const objects = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`;
    for (const value of [deep, objects]) {
      for (const body of [
        value,
        `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${value}}}`,
        `{"jsonrpc":"2.0","id":${value},"method":"ping"}`,
        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_data","arguments":{"x":${value}}}}`,
        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_data","_meta":{"x":${value}}}}`,
      ]) {
        const { status } = await post(app, body, { 'x-api-key': key });
        expect(status).toBeLessThan(500);
      }
    }
    expect((await post(app, request('ping'))).status).toBe(200);
  });
});

describe('bodies', () => {
  test('of 1 MiB, of JSON with a charset, is read, a byte more is 413, and another type 415', async () => {
    const empty = JSON.stringify(request('ping', { x: '' }));
    const filled = (bytes: number) => JSON.stringify(request('ping', { x: 'x'.repeat(bytes - empty.length) }));
    const charset = { 'content-type': 'application/json; charset=UTF-8' };
    expect((await post(app, filled(MiB), charset)).status).toBe(200);
    const { status, body } = await post(app, filled(MiB + 1));
    expect([status, body.code]).toEqual([413, 'payload_too_large']);
    const text = await post(app, request('ping'), { 'content-type': 'text/plain' });
    expect([text.status, text.body.code]).toEqual([415, 'unsupported_media_type']);
  });
});

test('a long text of token beginnings, which must be redacted where it is echoed, holds nobody up', async () => {
  const uri = 'eyJ'.repeat(300_000);
  const { body } = await post(app, request('resources/read', { uri }));
  expect(body.error.data.uri).toBe(uri);
}, 180_000);
