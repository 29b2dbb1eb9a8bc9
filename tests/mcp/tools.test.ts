// Tools and resources over /mcp: lists, denials, what is returned and in which media type. Who may call what is in
// ../security/authorization.test.ts.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, err, ok, type Problem, type ToolContent } from '../../src/start/package/index.ts';
import { call, callOverWays, post, postModern, request, WAYS } from '../support/mcp.ts';
import { bearer, createTestApp, sharedApp } from '../support/test-app.ts';
import { anyone, NOT_JSON, noInput, SERVER_TOOLS } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const app = await sharedApp();

const textOf = (body: { result: { content: { text: string }[] } }) => body.result.content[0]?.text;

describe('tools/list', () => {
  test('names the tools in a fixed order, the same in both eras', async () => {
    const first = (await post(app, request('tools/list'))).body.result.tools;
    const asModern = (await postModern(app, 'tools/list')).body.result.tools;
    expect(first.map(({ name }: { name: string }) => name)).toEqual(SERVER_TOOLS);
    expect(asModern).toEqual(first);
  });

  test('says what an agent and a client need to know of each, and of each field, of those for admins too', async () => {
    await using own = await createTestApp({ env: { ADMIN_CLAIM: 'sub=root' } });
    const { tools } = (await post(own, request('tools/list'))).body.result;
    for (const tool of tools) {
      expect(tool.title.length).toBeGreaterThan(3);
      expect(tool.description.length).toBeGreaterThan(40);
      expect(tool.inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(tool.outputSchema.type).toBe('object');
      for (const [field, { type, anyOf, description }] of Object.entries<Record<string, unknown>>(
        tool.inputSchema.properties ?? {},
      )) {
        expect([tool.name, field, type ?? anyOf, description]).toEqual([
          tool.name,
          field,
          expect.anything(),
          expect.any(String),
        ]);
      }
    }
    const named = (name: string) => tools.find((tool: { name: string }) => tool.name === name);
    expect(named('get_data').inputSchema).toEqual({ type: 'object', additionalProperties: false });
    expect(Object.keys(named('list_api_keys').inputSchema.properties)).toEqual(['cursor', 'childrenOf']);
    expect(named('list_api_keys').inputSchema.required).toEqual([]);
    const ends = { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false };
    const reads = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
    for (const [name, hints] of [
      ['create_api_key', { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }],
      ['list_api_keys', reads],
      ['rotate_api_key', { ...ends, idempotentHint: false }],
      ['revoke_api_key', ends],
      ['delete_api_key', ends],
      ['whoami', reads],
      ['get_data', reads],
    ] as const) {
      expect([name, named(name).annotations]).toMatchObject([name, hints]);
    }
    for (const { name, annotations } of tools) {
      const hints = name.startsWith('admin_list') ? reads : name.startsWith('admin_') ? ends : {};
      expect([name, annotations]).toMatchObject([name, hints]);
    }
  });

  test('a tool in JavaScript may have each annotation of MCP, a title for lists too', async () => {
    const annotations = { title: 'Short', readOnlyHint: true };
    const titled = defineTool(anyone, {
      ...noInput('titled'),
      annotations: annotations as never,
      run: () => ok({ content: [] }),
    });
    await using own = await createTestApp({ tools: () => [titled] });
    expect((await post(own, request('tools/list'))).body.result.tools[0].annotations).toEqual(annotations);
  });

  test('links a widget under both names clients know', async () => {
    const { tools } = (await post(app, request('tools/list'))).body.result;
    const uri = 'ui://widget/api-key-created.html';
    expect(tools[0]._meta).toEqual({ ui: { resourceUri: uri }, 'ui/resourceUri': uri });
    expect(tools[4]._meta).toBeUndefined();
  });
});

describe('denials are in-band', () => {
  test('the first text is the sentence, the second what helps: the scopes, the seconds', async () => {
    await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '1', RATE_LIMIT_WINDOW: '30s' } });
    const { key } = await app.createKey('alice', { scopes: ['write'] });
    const textsOf = async (tool: string, headers: Record<string, string>) => {
      const { isError, content } = (await post(app, call(tool), headers)).body.result;
      expect(isError).toBe(true);
      return content.map(({ type, text }: { type: string; text: string }) => type === 'text' && text);
    };
    expect(await textsOf('get_data', { 'x-api-key': key })).toEqual([
      'Insufficient permissions',
      'The key needs these scopes: read',
    ]);
    app.clock.advance(10_001);
    expect(await textsOf('get_data', { 'x-api-key': key })).toEqual([
      'Rate limit exceeded; try again later',
      'Try again in 20 s',
    ]);
    const alice = await bearer(app, 'alice');
    await app.loseStore();
    expect(await textsOf('list_api_keys', alice)).toEqual([
      'The key store is out of reach; try again',
      'Try again in 1 s',
    ]);
  });

  test('bad input says what is wrong and where, never what was sent', async () => {
    const input = { name: 7, scopes: ['read', 'no good'], expiresInDays: -1 };
    const { status, body } = await post(app, call('create_api_key', input), await bearer(app, 'alice'));
    expect([status, body.result.isError]).toEqual([200, true]);
    const lines = textOf(body)?.split('\n') ?? [];
    expect(lines[0]).toBe('The input does not fit the schema of the tool:');
    expect(lines.slice(1).map((line) => line.split(':')[0])).toEqual(['- name', '- scopes.1', '- expiresInDays']);
    expect(textOf(body)).not.toContain('no good');
  });

  test('a bug is -32603 over each way, and says nothing but the id to look for in the log', async () => {
    const thrown = () => {
      throw new Error('secret detail');
    };
    const tools = [
      defineTool(anyone, { ...noInput('sync'), run: thrown }),
      defineTool(anyone, { ...noInput('async'), run: async () => thrown() }),
      defineTool(anyone, { ...noInput('not-json'), run: () => ok(NOT_JSON) }),
      defineTool(anyone, { ...noInput('no-blocks'), run: () => ok({} as ToolContent) }),
      defineTool(anyone, { ...noInput('no-problem'), run: () => err('a text' as never) }),
      defineTool(anyone, { ...noInput('not-whole'), run: () => err({ code: 'insufficient_scope' } as Problem) }),
    ];
    await using own = await createTestApp({ tools: () => tools });
    for (const { name } of tools) {
      const seen = (await own.log()).length;
      const messages = await callOverWays(own, name);
      for (const { error } of messages) {
        expect(error).toEqual({
          code: -32603,
          message: 'Something went wrong on the server',
          data: { requestId: expect.any(String) },
        });
      }
      const lines = (await own.log()).slice(seen).filter(({ event }) => event !== 'replica opened');
      expect(lines).toMatchObject(
        messages.map(({ error }) => ({
          level: 'error',
          event: 'internal error',
          tool: name,
          requestId: error.data.requestId,
        })),
      );
    }
  });
});

test('an object that a tool returns is structured, and text', async () => {
  const value = { city: 'Zürich "centre"', degrees: -1.5, notes: [null, 'a\\b'] };
  const tool = defineTool(anyone, {
    ...noInput('weather'),
    output: v.strictObject({ city: v.string(), degrees: v.number(), notes: v.array(v.nullable(v.string())) }),
    run: () => ok(value),
  });
  await using own = await createTestApp({ tools: () => [tool] });
  const { result } = (await post(own, call('weather'))).body;
  expect(result).toEqual({ content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value });
});

describe('Accept', () => {
  test.each([
    undefined,
    '*/*',
    'application/json',
    'application/*',
    'text/html',
    'text/event-stream, application/json',
    'text/event-stream;q=0, */*',
    'text/event-stream, */*;q=0.1',
    'APPLICATION/JSON;q=0.5',
    'application/json;q=0',
    '',
  ])('%s gets JSON', async (accept) => {
    const { headers } = await post(app, request('ping'), { ...(accept !== undefined && { accept }) });
    expect(headers.get('content-type')).toBe('application/json');
  });

  test.each([
    'text/event-stream',
    'Text/Event-Stream;q=0.1',
    'text/*',
    'text/event-stream, application/json;q=0',
    'application/json; q=0.0, */*',
  ])('%s, which excludes JSON, gets one event', async (accept) => {
    const { status, headers, body } = await post(app, request('ping'), { accept });
    expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(body).toBe('event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n');
  });
});

describe('resources', () => {
  const resource = {
    uri: 'ui://widget/x.html',
    name: 'x',
    title: 'X',
    description: 'A page',
    mimeType: 'text/html;profile=mcp-app',
    meta: { ui: { prefersBorder: true } },
    read: () => ({ text: '<p>x</p>' }),
  };
  test('are listed and read, with their _meta', async () => {
    await using app = await createTestApp({ resources: [resource] });
    const { read, meta, ...listed } = resource;
    expect((await post(app, request('resources/list'))).body.result.resources).toEqual([{ ...listed, _meta: meta }]);
    const { body } = await post(app, request('resources/read', { uri: resource.uri }));
    expect(body.result.contents).toEqual([
      { uri: resource.uri, mimeType: resource.mimeType, text: '<p>x</p>', _meta: meta },
    ]);
    const asModern = await postModern(app, 'resources/read', { uri: resource.uri });
    expect(asModern.body.result).toMatchObject({ ...body.result, resultType: 'complete', cacheScope: 'public' });
  });

  test('one that is read later is read over each way', async () => {
    await using app = await createTestApp({ resources: [{ ...resource, read: async () => ({ text: 'later' }) }] });
    for (const ask of Object.values(WAYS)) {
      const { result } = await ask(app, 'resources/read', { uri: resource.uri });
      expect(result.contents[0].text).toBe('later');
    }
  });

  test('what one gave first is kept for each way', async () => {
    let reads = 0;
    function read() {
      reads += 1;
      return { text: `read ${reads}` };
    }
    await using app = await createTestApp({ resources: [{ ...resource, read }] });
    const texts: unknown[] = [];
    for (const ask of Object.values(WAYS)) {
      texts.push((await ask(app, 'resources/read', { uri: resource.uri })).result.contents[0].text);
    }
    expect(new Set(texts)).toEqual(new Set(['read 1']));
  });

  test('one that is read later is read once, also for those who ask meanwhile, and again after a failure', async () => {
    let reads = 0;
    async function read() {
      reads += 1;
      const text = `read ${reads}`;
      if (reads === 1) throw new Error('not yet');
      await Bun.sleep(50); // the others ask meanwhile
      return { text };
    }
    await using app = await createTestApp({ resources: [{ ...resource, read }] });
    const ask = async () => (await post(app, request('resources/read', { uri: resource.uri }))).body;
    expect((await ask()).error.code).toBe(-32603);
    for (const { result } of [...(await Promise.all([ask(), ask(), ask()])), await ask()]) {
      expect(result.contents[0].text).toBe('read 2');
    }
  });

  test('one that has half a character has U+FFFD in its place', async () => {
    await using app = await createTestApp({ resources: [{ ...resource, read: () => ({ text: 'cut \ud83d' }) }] });
    const { result } = (await post(app, request('resources/read', { uri: resource.uri }))).body;
    expect(result.contents[0].text).toBe('cut \ufffd');
  });

  test('one for which no response has room is a bug, whose line names it', async () => {
    const read = () => ({ text: '\u00e9'.repeat(8 * 1024 * 1024) });
    await using app = await createTestApp({ resources: [{ ...resource, read }] });
    const { error } = (await post(app, request('resources/read', { uri: resource.uri }))).body;
    expect(error.code).toBe(-32603);
    expect((await app.log()).at(-1)?.error).toContain(
      `${resource.uri}: expected a resource of at most 16777216 bytes, got 16777`,
    );
  });

  test('one that is not read within a minute is refused, and read again for who asks then', async () => {
    const readings = [Promise.withResolvers<{ text: string }>(), Promise.withResolvers<{ text: string }>()];
    let reads = 0;
    const read = async () => readings[reads++]?.promise ?? { text: 'third' };
    await using app = await createTestApp({ resources: [{ ...resource, read }] });
    const ask = async () => (await post(app, request('resources/read', { uri: resource.uri }))).body;
    const first = ask();
    await waitFor(() => reads === 1);
    app.clock.advance(60_000);
    expect((await first).error.code).toBe(-32603);
    const bugs = (await app.log()).filter(({ event }) => event === 'internal error');
    expect(bugs).toMatchObject([{ uri: resource.uri, error: expect.stringContaining('read for too long') }]);
    const second = ask();
    await waitFor(() => reads === 2);
    readings[0]?.resolve({ text: 'too late' });
    readings[1]?.resolve({ text: 'second' });
    expect((await second).result.contents[0].text).toBe('second');
    expect((await ask()).result.contents[0].text).toBe('second');
    app.clock.advance(60_000);
    expect((await ask()).result.contents[0].text).toBe('second');
  });

  test.each([
    ['that throws', () => [].reduce(() => 0 as never), 'reduce'],
    ['that is read later, and fails', async () => [].reduce(() => 0 as never), 'reduce'],
    [
      'that is read later, without a text',
      async () => ({}),
      'ui://x: it reads what is no resource of MCP: Expected a text',
    ],
    ['without a text', () => ({}), 'ui://x: it reads what is no resource of MCP: Expected a text, or a blob'],
    ['with a number', () => ({ text: 7 }), 'ui://x: it reads what is no resource of MCP'],
    ['with raw bytes', () => ({ blob: '\x89PNG' }), 'ui://x: it reads what is no resource of MCP'],
  ])('one %s fails its own request over each way, and the log says why', async (_what, read, why) => {
    const broken = { ...resource, uri: 'ui://x', read: () => read() as never };
    await using own = await createTestApp({ resources: [broken] });
    const messages = [];
    for (const ask of Object.values(WAYS)) messages.push(await ask(own, 'resources/read', { uri: 'ui://x' }));
    for (const { error } of messages) {
      expect(error).toMatchObject({ code: -32603, message: 'Something went wrong on the server' });
    }
    const bugs = (await own.log()).filter(({ event }) => event === 'internal error');
    expect(bugs).toMatchObject(
      messages.map(({ error }) => ({
        level: 'error',
        uri: 'ui://x',
        error: expect.stringContaining(why),
        requestId: error.data.requestId,
      })),
    );
  });
});
