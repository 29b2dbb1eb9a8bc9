// KEY_REVEAL=widget: over MCP a new key is in `_meta` for the widget alone, or it is not made.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { type Call, defineTool, ok, type ToolContent } from '../../src/start/package/index.ts';
import { call, fetchMcp, MODERN, modern, openSse, post, postModern, request, WITH_WIDGETS } from '../support/mcp.ts';
import { bearer, createTestApp, readResponse, sharedApp, type TestResponse } from '../support/test-app.ts';
import { anyone, facts } from '../support/tools.ts';

const app = await sharedApp({ env: { KEY_REVEAL: 'widget' } });
const headers = await bearer(app, 'alice');

const KEY = /sk_test_[0-9a-f]{64}/;
const INPUT = { name: 'n', scopes: ['read'] };
const params = { name: 'create_api_key', arguments: INPUT };
const count = async () => (await app.call('list_api_keys', {}, headers)).body.keys.length as number;
const ui = (declared: unknown) => ({
  'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/ui': declared } },
});

/** Checks that the key is in `_meta` and nowhere else, and that it works. */
// biome-ignore lint/suspicious/noExplicitAny: a result as clients get it
async function expectInMetaAlone(result: any): Promise<void> {
  const { _meta: meta, ...rest } = result;
  const { key } = meta['mcp-key-server/widget'];
  expect(key).toMatch(new RegExp(`^${KEY.source}$`));
  expect(JSON.stringify(rest)).not.toMatch(/sk_test|[0-9a-f]{33}/); // an id has 32 digits
  for (let at = 8; at + 8 <= key.length; at += 1) expect(JSON.stringify(rest)).not.toContain(key.slice(at, at + 8));
  expect(result.structuredContent).not.toHaveProperty('key');
  expect(result.structuredContent.warning).toStartWith('The widget shows the key');
  expect(JSON.parse(result.content[0].text)).toEqual(result.structuredContent);
  expect((await app.useKey(key)).status).toBe(200);
  expect(await app.logText()).not.toContain(key.slice(8, 16));
}

async function expectNotShown(responses: () => Promise<TestResponse['body'][]>): Promise<void> {
  const before = await count();
  for (const { result } of await responses()) {
    expect(result.isError).toBe(true);
    expect(result.content[0].text).toBe(
      'A new key is not shown to this client; use the page /keys, or a client with widgets',
    );
    expect(result).not.toHaveProperty('structuredContent');
  }
  expect(await count()).toBe(before);
}

describe('a client of 2026-07-28', () => {
  test.each([
    ['with the media type of widgets', WITH_WIDGETS],
    ['without media types', ui({})],
  ])('that declares widgets, %s, gets the key in _meta, beside the server’s own', async (_, meta) => {
    const { body } = await postModern(app, 'tools/call', params, { headers, meta });
    await expectInMetaAlone(body.result);
    expect(body.result._meta['io.modelcontextprotocol/serverInfo'].name).toBe('mcp-key-server');
    expect(body.result.resultType).toBe('complete');
  });

  test.each([
    ['nothing', {}],
    ['something else', { 'io.modelcontextprotocol/clientCapabilities': { extensions: {}, elicitation: {} } }],
    ['widgets of another type', ui({ mimeTypes: ['text/html'] })],
    ['widgets, but not as an object', ui(true)],
    ['widgets, but types that are no list', ui({ mimeTypes: 'text/html;profile=mcp-app' })],
    ['widgets in the wrong place', { 'io.modelcontextprotocol/ui': {} }],
  ])('that declares %s gets key_not_shown, and no key is made', async (_, meta) => {
    await expectNotShown(async () => [(await postModern(app, 'tools/call', params, { headers, meta })).body]);
  });

  test('gets the same in a stream that reports progress, or that is all it takes', async () => {
    for (const [accept, more] of [
      ['text/event-stream', {}],
      ['application/json, text/event-stream', { progressToken: 1 }],
    ] as const) {
      const made = modern('tools/call', params, { ...WITH_WIDGETS, ...more });
      const response = await fetchMcp(app, made.body, { ...made.headers, ...headers, accept });
      const text = await response.text();
      const json = /^data: (.*)$/m.exec(text)?.[1] ?? text;
      await expectInMetaAlone(JSON.parse(json).result);
    }
  });
});

test('an older client on /mcp can’t say what it shows, in initialize or as in 2026-07-28, nor in a batch', async () => {
  const capabilities = Object.values(WITH_WIDGETS)[0];
  await post(app, request('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: {} }));
  const plain = call('create_api_key', INPUT);
  const claimed = call('create_api_key', INPUT, { _meta: WITH_WIDGETS });
  for (const message of [plain, claimed]) {
    await expectNotShown(async () => [(await post(app, message, headers)).body]);
  }
  await expectNotShown(async () => (await post(app, [plain, { ...plain, id: 2 }], headers)).body);
  expect((await post(app, claimed, { ...headers, 'mcp-protocol-version': MODERN })).status).toBe(400);
});

test.each([
  ['declared widgets in initialize gets the key in _meta', Object.values(WITH_WIDGETS)[0]],
  ['did not gets key_not_shown', {}],
  ['declared nonsense gets key_not_shown', null],
  ['never sent initialize gets key_not_shown', undefined],
])('a session of /sse that %s', async (what, capabilities) => {
  const sse = await openSse(app, headers);
  if (capabilities !== undefined) {
    await sse.post(request('initialize', { protocolVersion: '2024-11-05', capabilities, clientInfo: {} }, 0));
    await sse.nextMessage();
  }
  const create = async () => {
    await sse.post(call('create_api_key', INPUT));
    return sse.nextMessage();
  };
  if (what.endsWith('in _meta')) await expectInMetaAlone((await create()).result);
  else await expectNotShown(async () => [await create()]);
  await sse.drop();
});

test('a new secret of a rotation is in _meta, too, or the key stays as it is', async () => {
  const { id, key } = await app.createKey('alice');
  const rotation = { name: 'rotate_api_key', arguments: { keyId: id, overlapHours: 0 } };
  const refused = await post(app, call('rotate_api_key', rotation.arguments), headers);
  expect(refused.body.result.content[0].text).toStartWith('A new key is not shown');
  expect((await app.useKey(key)).status).toBe(200);
  const { body } = await postModern(app, 'tools/call', rotation, { headers, meta: WITH_WIDGETS });
  await expectInMetaAlone(body.result);
  expect((await app.useKey(key)).status).toBe(401);
});

test('without the page /keys nobody is sent there', async () => {
  await using without = await createTestApp({ env: { KEY_REVEAL: 'widget', KEYS_PAGE: '0' } });
  const { id } = await without.createKey('alice');
  const alice = await bearer(without, 'alice');
  for (const refused of [call('create_api_key', INPUT), call('rotate_api_key', { keyId: id })]) {
    const { body } = await post(without, refused, alice);
    expect(body.result.content[0].text).toBe('A new key is not shown to this client; use a client with widgets');
  }
});

test('REST has the key in its response as ever, and its description says what is so over MCP alone', async () => {
  const { status, body } = await app.call('create_api_key', INPUT, headers);
  expect([status, body.key]).toEqual([200, expect.stringMatching(KEY)]);
  const { paths } = (await readResponse(await fetch(`${app.url}/openapi.json`))).body;
  for (const tool of ['create_api_key', 'rotate_api_key']) {
    expect(paths[`/tools/${tool}`].post.description).toContain('Over MCP a widget shows the new key');
  }
});

test('bad input and a missing token are told before', async () => {
  const bad = await post(app, call('create_api_key', { ...INPUT, name: '' }), headers);
  expect(bad.body.result.content[0].text).toStartWith('The input does not fit');
  const nobody = await post(app, call('create_api_key', INPUT));
  expect(nobody.body.result.content[0].text).toBe('No user token provided');
});

test('a tool of one’s own that reports progress may have something for its widget alone, too', async () => {
  const input = v.strictObject({});
  const output = v.strictObject({ done: v.boolean() });
  const content: ToolContent = { content: [{ type: 'text', text: 'done' }] };
  async function report(call: Call): Promise<void> {
    call.progress(1);
    if (call.audience === 'model_with_widget') call.forWidget = { picture: 'a' };
  }
  const tools = [
    defineTool(anyone, {
      ...facts('reports'),
      input,
      output,
      async run(_input, call) {
        await report(call);
        return ok({ done: true });
      },
    }),
    defineTool(anyone, {
      ...facts('says'),
      input,
      async run(_input, call) {
        await report(call);
        return ok(content);
      },
    }),
  ];
  await using own = await createTestApp({ tools: () => tools });
  const streamed = async (meta: object, name = 'reports') => {
    const made = modern('tools/call', { name, arguments: {} }, { ...meta, progressToken: 1 });
    const text = await (await fetchMcp(own, made.body, made.headers)).text();
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data)).at(-1).result;
  };
  const [shown, not] = [await streamed(WITH_WIDGETS), await streamed({})];
  expect(shown._meta['mcp-key-server/widget']).toEqual({ picture: 'a' });
  expect([shown.structuredContent, not.structuredContent]).toEqual([{ done: true }, { done: true }]);
  expect(not._meta).not.toHaveProperty('mcp-key-server/widget');
  const { _meta: meta, ...said } = await streamed(WITH_WIDGETS, 'says');
  expect([meta['mcp-key-server/widget'], said]).toEqual([{ picture: 'a' }, { resultType: 'complete', ...content }]);
});

test('with KEY_REVEAL=result, the default, a client that shows widgets gets the key in the result', async () => {
  await using plain = await createTestApp();
  const alice = await bearer(plain, 'alice');
  const { body } = await postModern(plain, 'tools/call', params, { headers: alice, meta: WITH_WIDGETS });
  expect(body.result.structuredContent.key).toMatch(KEY);
  expect(body.result._meta).not.toHaveProperty('mcp-key-server/widget');
});
