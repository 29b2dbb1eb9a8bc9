// Bodies that are not UTF-8 (RFC 8259 §8.1), and such as would have to be decoded first: refused by every route, before
// anything is read from them, so that nothing is stored with U+FFFD in place of what was sent.

import { describe, expect, test } from 'bun:test';
import { sendOverSocket } from '../support/http-socket.ts';
import { call, modern, openSse } from '../support/mcp.ts';
import { pathOf, type RouteFacts, rows } from '../support/tables.ts';
import { bearer, sharedApp } from '../support/test-app.ts';

const env = { OAUTH_REDIRECTS: 'loopback', OAUTH_DEVICE: '1' };

const app = await sharedApp({ env });
const alice = { ...(await bearer(app, 'alice')), 'content-type': 'application/json', origin: app.url };

const bytes = (text: string) => Buffer.from(text, 'latin1');
const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';

const send = async (path: string, body: Uint8Array<ArrayBuffer>, headers: Record<string, string>) => {
  const response = await fetch(app.url + path, { method: 'POST', headers, body });
  return { status: response.status, headers: response.headers, text: await response.text() };
};

const NOT_UTF8 =
  /"code":"invalid_json"|"error":"invalid_(?:request|client_metadata)"|"code":-32700|The body is not UTF-8/;

const TYPES = { json: [JSON_TYPE], form: [FORM_TYPE], json_or_form: [JSON_TYPE, FORM_TYPE] } as const;

const posts = rows.filter(([name, { method }]) => method.includes('POST') && name !== 'messages');

describe.each(posts)('%s', (_name, route: RouteFacts) => {
  test.each(TYPES[route.takes ?? 'json'])('refuses what is not UTF-8 in %s, and what is compressed', async (type) => {
    const bodies =
      type === JSON_TYPE ? ['{"name":"Z\xfcrich"}', '["Z\xfcrich"]'] : ['token=Z\xfcrich', 'token=Z%FCrich'];
    for (const body of bodies) {
      const { status, text } = await send(pathOf(route), bytes(body), { ...alice, 'content-type': type });
      expect({ body, status }).toEqual({ body, status: 400 });
      expect(text).toMatch(NOT_UTF8);
    }
    const headers = { ...alice, 'content-type': type, 'content-encoding': 'gzip' };
    const compressed = await send(pathOf(route), Bun.gzipSync(bytes('{}')), headers);
    expect([compressed.status, compressed.headers.get('accept-encoding')]).toEqual([415, 'identity']);
  });
});

const create = (name: string, headers = alice) =>
  send('/tools/create_api_key', bytes(`{"name":"${name}","scopes":[]}`), headers);

describe('a name', () => {
  test.each([
    ['Latin-1', 'Z\xfcrich'],
    ['a sequence cut off, as long as U+FFFD', '\xf0\x9f\x98'],
    ['an overlong form', '\xc1\xa1'],
    ['a surrogate', '\xed\xa0\x80'],
    ['above U+10FFFF', '\xf4\x90\x80\x80'],
  ])('%s is 400, also beside U+FFFD itself, in a long body, and in chunks', async (_what, name) => {
    for (const tried of [name, `\xef\xbf\xbd${name}`, name + 'x'.repeat(20_000)]) {
      const { status, text } = await create(tried);
      expect({ status, ...JSON.parse(text) }).toMatchObject({ status: 400, code: 'invalid_json' });
    }
    const head = `POST /tools/create_api_key HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${alice.authorization}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const body = `{"name":"${name}","scopes":[]}`;
    const pieces = Array.from(body, (char) => `1\r\n${char}\r\n`).join('');
    expect((await sendOverSocket(app.url, bytes(`${head + pieces}0\r\n\r\n`))).status).toBe(400);
  });

  test('U+FFFD itself, and what follows a byte order mark, is taken as it is', async () => {
    const { status, text } = await create('\xef\xbf\xbd');
    expect([status, JSON.parse(text).name]).toEqual([200, '\u{fffd}']);
    const marked = await send('/tools/list_api_keys', bytes('\xef\xbb\xbf{}'), alice);
    expect(marked.status).toBe(200);
  });
});

test('a large body is refused for its size, not for its bytes', async () => {
  const head = `POST /revoke HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const body = `\xfc${'x'.repeat(1024 * 1024)}`;
  const { status } = await sendOverSocket(app.url, bytes(`${head}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`));
  expect(status).toBe(413);
});

test('MCP of both eras, and /sse', async () => {
  const named = (message: object) => bytes(JSON.stringify(message).replace('NAME', 'Z\xfcrich'));
  const input = { name: 'create_api_key', arguments: { name: 'NAME', scopes: [] } };
  const { body, headers } = modern('tools/call', input);
  const session = await openSse(app, alice);
  const legacy = call(input.name, input.arguments);
  for (const answered of [
    await send('/mcp', named(legacy), alice),
    await send('/mcp', named([legacy] as object), alice),
    await send('/mcp', named(body as object), { ...alice, ...headers }),
    await send(session.endpoint, named(legacy), alice),
  ]) {
    expect([answered.status, JSON.parse(answered.text).error.code]).toEqual([400, -32700]);
  }
  await session.drop();
});

test.each([
  ['identity', 200],
  ['Identity', 200],
  ['', 200],
  ['identity, identity', 200],
  ['gzip', 415],
  ['br', 415],
  ['identity, gzip', 415],
  ['x-identity', 415],
  ['identityx', 415],
])('Content-Encoding %p is %d', async (encoding, status) => {
  const headers = { ...alice, 'content-encoding': encoding };
  expect((await send('/tools/list_api_keys', bytes('{}'), headers)).status).toBe(status);
  expect((await send('/tools/list_api_keys', bytes(''), headers)).status).toBe(200); // there is nothing to decode
});
