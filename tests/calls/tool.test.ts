// A tool as its author defines it: time, cancellation, output that fits its schema, bugs.

import { describe, expect, test } from 'bun:test';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import {
  type Call,
  definePrompt,
  defineTool,
  err,
  failure,
  form,
  type Guard,
  ok,
  type Problem,
  type ToolContent,
  type ToolDeps,
} from '../../src/start/package/index.ts';
import { CAPABILITIES } from '../support/asking.ts';
import { postJson, postJsonText } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { call, callOverWays, modern, post, request } from '../support/mcp.ts';
import { startSlowStore } from '../support/slow-store.ts';
import { storeOn } from '../support/store-mode.ts';
import { createTestApp, failureOf, type LogLine, sharedApp, type TestApp } from '../support/test-app.ts';
import { anyone, CONTENT_BLOCKS, facts, noInput, promptFacts, steeredTool } from '../support/tools.ts';
import { waitFor } from '../support/wait-for.ts';

const schemas = { input: v.strictObject({}), output: v.strictObject({ said: v.string() }) };

type Made = Pick<ReturnType<typeof modern>, 'body' | 'headers'>;

/** Sends a call, and hangs up as soon as it is there. */
async function callAndHangUp(app: TestApp, { body, headers }: Made, isThere: Promise<unknown>): Promise<void> {
  const hangsUp = new AbortController();
  const asked = postJson(`${app.url}/mcp`, body, headers, hangsUp.signal).catch(() => {});
  await isThere;
  hangsUp.abort();
  await asked;
}

/** Resolves with the lines about a tool once there are some, or it has run. */
async function linesOf(app: TestApp, name: string, hasRun = () => false): Promise<readonly LogLine[]> {
  const lines = async () => (await app.log()).filter(({ tool }) => tool === name);
  await waitFor(async () => hasRun() || (await lines()).length > 0);
  return lines();
}

const CANCELLED = expect.objectContaining({ level: 'info', event: 'tool call cancelled' });

describe('time', () => {
  test('a tool that takes longer than its time is given up, and its signal, its caller and the log say why', async () => {
    const [slow, overMcp, quick] = ['slow', 'over_mcp', 'quick'].map((name) => steeredTool({ name, timeoutMs: 50 }));
    if (!slow || !overMcp || !quick) throw new Error('not made');
    await using app = await createTestApp({ tools: () => [slow.tool, overMcp.tool, quick.tool] });
    const asked = [app.call('slow'), post(app, call('over_mcp')), app.call('quick')] as const;
    for (const { running } of [slow, overMcp, quick]) await running;
    app.clock.advance(49);
    expect([slow.isAborted(), overMcp.isAborted()]).toEqual([false, false]);
    quick.finish();
    expect((await asked[2]).status).toBe(200);
    app.clock.advance(1);
    const detail = 'The call took longer than it may; what it began may go on';
    const { status, body } = await asked[0];
    expect({ status, code: body.code, detail: body.detail }).toEqual({ status: 504, code: 'tool_timeout', detail });
    expect((await asked[1]).body.result).toEqual({ content: [{ type: 'text', text: detail }], isError: true });
    expect(await slow.aborted).toBeInstanceOf(Error);
    const told = { level: 'warn', event: 'tool out of time', tool: 'slow', requestId: body.requestId };
    expect(await app.log()).toContainEqual(expect.objectContaining(told));
    for (const { finish } of [slow, overMcp]) finish();
  });

  test('one that its client cancels is logged as that, and as no tool that is too slow', async () => {
    const begun = Promise.withResolvers<void>();
    await using app = await createTestApp({
      tools: () => [
        defineTool(anyone, {
          ...facts('waiting'),
          ...schemas,
          run(_input, { signal }) {
            begun.resolve();
            return new Promise((_resolve, reject) => {
              signal.addEventListener('abort', () => reject(signal.reason));
            });
          },
        }),
      ],
    });
    await callAndHangUp(app, modern('tools/call', { name: 'waiting' }), begun.promise);
    expect(await linesOf(app, 'waiting')).toEqual([CANCELLED]);
  });

  test('one whose client cancels while its guard waits never begins', async () => {
    const guarded = Promise.withResolvers<void>();
    let hasRun = false;
    const untilCancelled: Guard<Call> = ({ signal }) => {
      guarded.resolve();
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(ok({})));
      });
    };
    await using app = await createTestApp({
      tools: () => [
        defineTool(untilCancelled, {
          ...facts('cancelled'),
          ...schemas,
          run() {
            hasRun = true;
            return ok({ said: '' });
          },
        }),
      ],
    });
    await callAndHangUp(app, modern('tools/call', { name: 'cancelled' }), guarded.promise);
    const lines = await linesOf(app, 'cancelled', () => hasRun);
    expect(hasRun).toBe(false);
    expect(lines).toEqual([CANCELLED]);
  });

  test('nor does one whose client cancels while its sender is identified', async () => {
    await using slow = await startSlowStore();
    await using elsewhere = await createTestApp({ store: slow.store });
    const { key } = await elsewhere.createKey('alice');
    let hasRun = false;
    await using app = await createTestApp({
      store: slow.store,
      tools: ({ guards }) => [
        defineTool(guards.apiKey, {
          ...noInput('cancelled'),
          run() {
            hasRun = true;
            return ok({ content: [] });
          },
        }),
      ],
    });
    const read = slow.delayReadOf(key);
    const { body, headers } = modern('tools/call', { name: 'cancelled' }, { progressToken: 1 }); // a stream
    const all = { ...headers, accept: 'application/json, text/event-stream', 'x-api-key': key };
    await callAndHangUp(app, { body, headers: all }, read.made);
    for (const _ of Array(5)) await fetch(`${app.url}/mcp/health`); // meanwhile the server has seen it
    read.release();
    const lines = await linesOf(app, 'cancelled', () => hasRun);
    expect(hasRun).toBe(false);
    expect(lines).toEqual([CANCELLED]);
  });

  test.each([0, -1, Number.NaN, 2 ** 31, Number.POSITIVE_INFINITY])('a time of %d ms is refused', (timeoutMs) => {
    const make = () => defineTool(anyone, { ...facts('odd'), ...schemas, timeoutMs, run: () => ok({ said: '' }) });
    expect(make).toThrow(`odd: timeoutMs: expected above 0 and at most ${2 ** 31 - 1}, got ${timeoutMs}`);
  });
});

test('a tool may have fields that are called as what a schema has', async () => {
  const input = v.strictObject({ kind: v.string(), entries: v.string() });
  const log = defineTool(anyone, { ...facts('log'), ...schemas, input, run: () => ok({ said: '' }) });
  await using app = await createTestApp({ tools: () => [log] });
  const { body } = await post(app, request('tools/list'));
  expect(body.result.tools).toContainEqual(expect.objectContaining({ name: 'log' }));
});

/** What the tools of this app do, when they are called. */
let run: (input: { readonly id?: string | undefined }) => unknown = () => ok({ said: '' });
const counted = v.looseObject({ n: v.optional(v.number()) });
const odd = v.strictObject({ prices: v.optional(v.record(v.string(), v.number()), {}), id: v.optional(v.string()) });
const told = { ...schemas, run: () => run({}) as never };
/** An object that holds another twice, which holds another twice. */
const twice = (levels: number, inside: object = {}): object =>
  levels === 0 ? inside : twice(levels - 1, { a: inside, b: inside });
/** An object within as many others. */
const nestedIn = (inside: object, levels: number): object => (levels === 0 ? inside : nestedIn({ inside }, levels - 1));
const app = await sharedApp({
  tools: ({ guards }: ToolDeps) => [
    defineTool(anyone, { ...facts('says'), ...told }),
    defineTool(anyone, { ...facts('takes'), ...told, input: odd, run: (input) => run(input) as never }),
    defineTool(anyone, { ...facts('counts'), ...told, output: counted }),
    defineTool(anyone, { ...noInput('blocks'), run: () => run({}) as never }),
    defineTool(anyone, {
      ...noInput('asks'),
      run: (_input, { ask }) => ask({ closing: form(v.object({ why: v.string() })) as never }) as never,
    }),
    defineTool(anyone, {
      ...facts('widget'),
      ...schemas,
      run(_input, call) {
        call.forWidget = { deep: nestedIn({}, 1000) } as never;
        return ok({ said: '' });
      },
    }),
    defineTool(guards.rateLimit({ requests: 5, window: '1m', key: () => undefined }), {
      ...facts('limited'),
      ...told,
    }),
    defineTool(() => run({}) as never, { ...facts('guarded'), ...schemas, run: () => ok({ said: 'said' }) }),
    defineTool(anyone, { ...facts('fine'), ...schemas, run: () => ok({ said: 'said' }) }),
  ],
});

/** Calls a tool whose call fails as by a bug; returns the line of the log about it. */
async function bugOf(tool: string): Promise<LogLine | undefined> {
  const { status, body } = await app.call(tool);
  expect({ status, body }).toEqual({
    status: 500,
    body: {
      type: 'about:blank',
      title: 'Internal Server Error',
      status: 500,
      detail: 'Something went wrong on the server',
      code: 'internal',
      requestId: expect.any(String),
    },
  });
  const line = (await app.log()).find(({ requestId }) => requestId === body.requestId);
  expect(line).toMatchObject({ level: 'error', event: 'internal error', tool });
  return line;
}

describe('a bug in a tool is 500 with nothing but a requestId, and the log has the rest', () => {
  const story = new Error('the inside story');
  const returns = (value: unknown) => () => value;

  test.each<[string, string, typeof run, string]>([
    [
      'a throw',
      'says',
      () => {
        throw story;
      },
      'the inside story',
    ],
    ['a rejection', 'says', () => Promise.reject(story), 'the inside story'],
    [
      'wrong output',
      'says',
      returns(ok({ said: 1 })),
      'says: the output does not fit its schema: said: Expected string',
    ],
    [
      'a field without await',
      'says',
      returns(ok({ said: Promise.resolve('x') })),
      'said: Expected string, got a promise',
    ],
    ['an output without await', 'says', returns(ok(Promise.resolve({ said: 'x' }))), 'schema: it is a promise'],
    ['missing output', 'says', returns(ok({})), 'schema: said: This field is required'],
    ['too much', 'says', returns(ok({ said: 'x', more: 'secret' })), 'schema: Unknown field; the fields are said'],
    ['Infinity', 'counts', returns(ok({ n: Infinity })), "has a number that JSON can't express: Infinity\n"],
    ['-Infinity', 'counts', returns(ok({ n: -Infinity })), "has a number that JSON can't express: -Infinity\n"],
    ['NaN', 'counts', returns(ok({ deep: [{ n: 1 }, { n: NaN }] })), "has a number that JSON can't express: NaN\n"],
    [
      'depth',
      'counts',
      returns(ok({ deep: nestedIn({}, 1000) })),
      'counts: expected an output nested at most 1000 deep, without circles',
    ],
    [
      'a list, by toJSON',
      'counts',
      returns(ok({ toJSON: () => [] })),
      'expected an output that JSON writes as an object',
    ],
    ['nothing, by toJSON', 'counts', returns(ok({ toJSON() {} })), 'expected an output that JSON writes as an object'],
    ['the same twice at each level', 'counts', returns(ok({ deep: twice(21) })), 'at most 1572864 objects and lists'],
    ['nothing from a guard', 'guarded', returns(undefined), 'guarded: expected its guard to return ok(…), or err of'],
    ['null from a guard', 'guarded', returns(null), 'guarded: expected its guard to return ok(…), or err of'],
    ['a bare object', 'says', returns({ said: 'x' }), 'says: expected run to return ok(…), or err of'],
    ['nothing', 'says', returns(undefined), 'says: expected run to return ok(…), or err of'],
    ['a null as an error', 'says', returns(err(null)), 'says: expected run to return ok(…), or err of'],
  ])('%s', async (_what, tool, told, why) => {
    run = told;
    const line = await bugOf(tool);
    expect(line?.error).toContain(why);
    expect(line?.error).not.toContain('secret');
  });

  test('its call counts, and a page may read that it failed', async () => {
    run = () => Promise.reject(story);
    const { headers } = await app.call('limited', {}, { origin: 'http://localhost:1' });
    expect(headers.get('ratelimit-policy')).toBe('"key";q=5;w=60');
    expect(headers.get('ratelimit')).toBe('"key";r=4;t=60');
    expect(headers.get('access-control-allow-origin')).toBe('http://localhost:1');
  });

  test('what JSON has no form for, thrown: it fails its own call, over each way', async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    run = () => Promise.reject(cyclic);
    expect((await bugOf('says'))?.error).toBe('object without a JSON form');
    run = () => Promise.reject();
    expect((await bugOf('says'))?.error).toBe('thrown: undefined');
    run = () => Promise.reject(Symbol('secret'));
    expect((await bugOf('says'))?.error).toBe('thrown: symbol');
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke(); // from now on whatever is asked of it throws
    run = () => Promise.reject(proxy);
    expect((await bugOf('says'))?.error).toBe('object without a JSON form');
    for (const { error } of await callOverWays(app, 'says')) expect(error.code).toBe(-32603);
  });

  test('an output may be nested 1,000 deep, like an input, and what is for the widget, too', async () => {
    run = () => ok({ deep: nestedIn({}, 999) });
    expect((await app.call('counts')).status).toBe(200);
    for (const { result } of await callOverWays(app, 'counts')) expect(result.isError).toBeUndefined();
    expect((await bugOf('widget'))?.error).toContain('widget: expected an output nested at most 1000 deep');
  });

  test('what JSON makes of an object counts', async () => {
    class Counter {
      readonly start = Number.NaN;
      toJSON() {
        return { n: 7 };
      }
    }
    run = () => ok({ a: new Counter(), b: null });
    expect((await app.call('counts')).body).toEqual({ a: { n: 7 }, b: null });
  });

  const text = { type: 'text', text: 'fine' };
  test.each([
    ['nothing at all', undefined, 'Expected Object'],
    ['a block in place of a list', { content: text }, 'content: Expected Array'],
    ['a type that is none', { content: [text, { type: 'video' }] }, 'content.1.type: Expected ("text" | "image" | '],
    ['a text without its text', { content: [{ type: 'text' }] }, 'content.0.text: This field is required'],
    ['an image without data', { content: [{ type: 'image', mimeType: 'image/png' }] }, 'content.0.data: This field'],
    ['a sound without its type', { content: [{ type: 'audio', data: '' }] }, 'content.0.mimeType: This field'],
    ['raw data', { content: [{ type: 'image', data: '\x89PNG', mimeType: 'image/png' }] }, 'data: Expected base64'],
    ['a link to nowhere', { content: [{ type: 'resource_link', name: 'n' }] }, 'content.0.uri: This field is required'],
    ['a resource without contents', { content: [{ type: 'resource', resource: { uri: 'a:b' } }] }, 'a text or a blob'],
    ['an annotation that is none', { content: [{ ...text, annotations: { priority: 2 } }] }, 'priority: Expected <=1'],
    [
      'a time that is none',
      { content: [{ ...text, annotations: { lastModified: 'soon' } }] },
      'Expected iso timestamp',
    ],
    ...['2026-01-02T03:04:05+0100', '2026-01-02T03:04:05+01', '2026-01-02 03:04:05Z', '2026-02-31T03:04:05Z'].map(
      (lastModified) =>
        [
          lastModified,
          { content: [{ ...text, annotations: { lastModified } }] },
          'lastModified: Expected a time',
        ] as const,
    ),
    ['a list as _meta', { content: [{ ...text, _meta: ['a'] }] }, 'content.0._meta: Expected an object'],
    ['isError as text', { content: [text], isError: 'no' }, 'isError: Expected boolean'],
    ['a number', { content: [{ ...text, _meta: { n: Number.NaN } }] }, undefined],
  ])('content that MCP does not know, which clients would refuse: %s', async (_what, content, why) => {
    run = () => ok(content as ToolContent);
    const line = await bugOf('blocks');
    expect((await post(app, call('blocks'))).body.error.code).toBe(-32603);
    const said = why === undefined ? 'the output has a number' : 'it returns what is no content of MCP: ';
    expect(line?.error).toContain(`blocks: ${said}`);
    expect(line?.error).toContain(why ?? 'NaN');
  });

  test('a form without its message, which a client would be asked without end', async () => {
    const said = "ask: closing: expected a question, like form(schema)('Which?'), got function";
    expect((await bugOf('asks'))?.error).toContain(said);
    const { headers, body } = modern('tools/call', { name: 'asks' }, { [CAPABILITIES]: { elicitation: {} } });
    expect((await post(app, body, headers)).body.error.code).toBe(-32603);
  });

  test('without a guard it is refused, with what to write', () => {
    const definition = { ...facts('open'), ...schemas, run: () => ok({ said: '' }) };
    const define = defineTool as unknown as (...args: unknown[]) => unknown;
    for (const args of [[definition], [undefined, definition], []]) {
      expect(() => define(...args)).toThrow(
        'defineTool: expected a guard, and then the definition: defineTool(guards.',
      );
    }
  });

  const NOT_WHOLE: unknown[] = [
    'not_found',
    {},
    { code: 'no_such_code' },
    { code: 'insufficient_scope' },
    { code: 'insufficient_scope', required: 'read' },
    { code: 'insufficient_scope', required: ['read\n'] },
    { code: 'scope_not_granted' },
    { code: 'invalid_input' },
    { code: 'invalid_input', issues: ['no'] },
    { code: 'invalid_input', issues: [], detail: 7 },
    { code: 'invalid_response', issues: [{ path: 'a' }] },
    { code: 'not_found', issues: 1 },
    { code: 'not_found', issues: undefined },
    { code: 'not_found', of: 1n },
    { code: 'missing_token', sent: 'a letter' },
    { code: 'missing_token', help: 1n },
    { code: 'method_not_allowed', allow: 'GET\n' },
    { code: 'rotation_under_way', untilMs: Number.POSITIVE_INFINITY },
    { code: 'rate_limited' },
    { code: 'rate_limited', retryAfterS: 1, of: { owner: 1n } },
    { code: 'tool_failure', status: 1000, ownCode: 'x', detail: 'x' },
    { code: 'tool_failure', status: 401, ownCode: 'x', detail: 'x' },
    { code: 'tool_failure', status: 404, detail: 'x' },
    { code: 'tool_failure', status: 404, ownCode: 'not_found', detail: 'x' },
    { code: 'tool_failure', status: 404, ownCode: 'No-Order', detail: 'x' },
    { code: 'tool_failure', status: 404, ownCode: 'x', detail: '' },
    { code: 'tool_failure', status: 404, ownCode: 'x', detail: 'x', retryAfterS: 1 },
    { code: 'tool_failure', status: 407, ownCode: 'x', detail: 'x' },
    { code: 'tool_failure', status: 429, ownCode: 'x', detail: 'x', retryAfterS: 'soon' },
    { code: 'input_required' },
    { code: 'internal' },
  ];

  test('a problem that is not whole: it fails its own call, and the log names the tool', async () => {
    for (const problem of NOT_WHOLE) {
      run = () => err(problem as Problem);
      for (const name of ['says', 'guarded']) {
        expect({ problem, bug: await bugOf(name) }).toMatchObject({ problem, bug: { tool: name } });
        const [failed, fine] = (await post(app, [call(name), { ...call('fine'), id: 2 }])).body;
        expect(failed.error).toMatchObject({ code: -32603, message: 'Something went wrong on the server' });
        expect(fine.result.structuredContent).toEqual({ said: 'said' });
      }
    }
  });

  test.each<Problem>([
    { code: 'insufficient_scope', required: ['read'] },
    { code: 'scope_not_granted', grantable: [] },
    { code: 'rate_limited', retryAfterS: 0 },
    { code: 'quota_exceeded', retryAfterS: 0, of: 'owner' },
    { code: 'rotation_under_way', untilMs: 0 },
    { code: 'not_found' },
  ])('but a problem of the server is a refusal: $code', async (problem) => {
    run = () => err(problem);
    expect((await app.call('says')).body.code).toBe(problem.code);
    expect((await post(app, [call('says')])).body[0].result.isError).toBe(true);
  });
});

test('the words of a tool on bad input are kept, over REST and MCP', async () => {
  const issues = [{ path: 'day', message: 'Expected a working day' }];
  const problem = { code: 'invalid_input', issues, detail: 'Nothing is delivered then' } as const;
  run = () => err(problem);
  const { status, body } = await app.call('says');
  expect([status, body.detail, body.issues]).toEqual([400, problem.detail, issues]);
  const { result } = (await post(app, call('says'))).body;
  expect(result.content[0].text).toBe('Nothing is delivered then:\n- day: Expected a working day');
});

const ISSUES = [{ path: 'day', message: 'No' }];
test.each(['invalid_input', 'invalid_response'])(
  'of an issue of %s nothing is told but path and words',
  async (code) => {
    run = () => err({ code, issues: [{ path: 'day', message: 'No', received: 1n }] } as unknown as Problem);
    for (const name of ['says', 'guarded']) {
      const { status, body } = await app.call(name);
      expect([status, body.code, body.issues ?? ISSUES]).toEqual([400, code, ISSUES]);
      for (const { result, error } of await callOverWays(app, name)) {
        expect(result?.content[0].text ?? error.message).toContain('day: No');
        expect(error?.data.issues ?? ISSUES).toEqual(ISSUES);
      }
    }
  },
);

test('a key that was sent comes back neither in its words nor in the path of an issue', async () => {
  const key = `sk_live_${'0a'.repeat(32)}`;
  expect((await app.call('takes', { prices: { [key]: 'x' } })).body.issues).toEqual([
    { path: 'prices.[redacted]', message: 'Expected number' },
  ]);
  run = ({ id }) => err({ code: 'invalid_input', issues: [{ path: 'id', message: `No page ${id}` }] });
  const { body } = await app.call('takes', { id: key });
  expect([body.detail, body.issues]).toEqual([
    'id: No page [redacted]',
    [{ path: 'id', message: 'No page [redacted]' }],
  ]);
  run = ({ id }) => err({ code: 'invalid_input', issues: [{ path: id, message: 'No' }], detail: `${id}?` });
  const said = (await app.call('takes', { id: key })).body;
  expect([said.detail, said.issues]).toEqual(['[redacted]?', [{ path: '[redacted]', message: 'No' }]]);
  expect(JSON.stringify((await post(app, call('takes', { id: key }))).body)).not.toContain(key);
});

test('half a character, as of a text that was cut, is U+FFFD over each way: many clients read no message with it', async () => {
  const [half, whole] = ['\ud83d \\ud83d \u{1f600}', '\ufffd \\ud83d \u{1f600}'];
  run = () => ok({ content: [{ type: 'text', text: half, _meta: { [half]: half } }] });
  const expected = { content: [{ type: 'text', text: whole, _meta: { [whole]: whole } }] };
  expect((await app.call('blocks')).body).toEqual(expected);
  for (const { result } of await callOverWays(app, 'blocks')) expect(result).toMatchObject(expected);
  run = () => ok({ said: half });
  expect((await app.call('says')).body).toEqual({ said: whole });
  for (const { result } of await callOverWays(app, 'says')) {
    expect([result.structuredContent, JSON.parse(result.content[0].text)]).toEqual([{ said: whole }, { said: whole }]);
  }
  run = () => err({ code: 'invalid_input', issues: [{ path: half, message: half }] });
  const { body } = await app.call('says');
  expect([body.detail, body.issues]).toEqual([`${whole}: ${whole}`, [{ path: whole, message: whole }]]);
  run = () => err(failure({ status: 503, code: 'cut', detail: half }));
  expect((await app.call('says')).body.detail).toBe(whole);
});

test('half a character in what describes a tool or prompt is U+FFFD in every list', async () => {
  const half = { title: 'cut \ud83d', description: 'cut \ud83d' };
  const prompt = { ...promptFacts('cuts'), ...half, arguments: v.strictObject({}), run: () => ok({ messages: [] }) };
  await using app = await createTestApp({
    tools: () => [defineTool(anyone, { ...facts('cuts'), ...half, ...schemas, run: () => ok({ said: '' }) })],
    prompts: () => [definePrompt(anyone, prompt)],
    resources: [{ uri: 'ui://cut', name: 'cuts', ...half, mimeType: 'text/plain', read: () => ({ text: '' }) }],
  });
  const whole = { title: 'cut \ufffd', description: expect.stringMatching(/^cut \ufffd/) };
  for (const list of ['tools', 'prompts', 'resources']) {
    const { result } = (await post(app, request(`${list}/list`))).body;
    expect(result[list]).toContainEqual(expect.objectContaining(whole));
  }
  const { paths } = await (await fetch(`${app.url}/openapi.json`)).json();
  expect(paths['/tools/cuts'].post.summary).toBe('cut \ufffd');
});

test.each<[string, ToolContent]>([
  ['blocks of each kind, as of a failure', { content: CONTENT_BLOCKS, isError: true }],
  [
    'a time with its distance from UTC',
    { content: [{ type: 'text', text: '', annotations: { lastModified: '2026-01-02T03:04:05+01:00' } }] },
  ],
  ['nothing', { content: [] }],
])('a tool without an output schema returns %s, over REST and each way of MCP', async (_what, content) => {
  run = () => ok(content);
  expect((await app.call('blocks')).body).toEqual(content);
  for (const { result } of await callOverWays(app, 'blocks')) {
    const { _meta, resultType, ...rest } = result;
    expect([resultType ?? 'complete', rest]).toEqual(['complete', content]);
  }
});

describe('a name that cannot be used stops the start', () => {
  const toolsNamed = (names: readonly string[]) =>
    names.map((name) => defineTool(anyone, { ...facts(name), ...schemas, run: () => ok({ said: name }) }));
  const named = (...names: string[]) => createTestApp({ tools: () => toolsNamed(names) });

  test.each([
    ['none', [''], 'got ""'],
    ['one with a slash', ['a/b'], 'got "a/b"'],
    ['one that is too long', ['x'.repeat(129)], `got "${'x'.repeat(129)}"`],
    ['one that two tools have', ['echo', 'other', 'echo'], 'echo is in the server already'],
  ])('%s', async (_what, names, found) => {
    expect(await failureOf(named(...names))).toContain(found);
  });

  test('a start that stops at a tool’s name makes no database', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'keys.db');
    const store = storeOn({ DATABASE_URL: `file:${path}` });
    await failureOf(createTestApp({ store, tools: () => toolsNamed(['a/b']) }));
    expect(existsSync(path)).toBe(false);
  });

  test('a tool with any other name is served', async () => {
    await using app = await named('x'.repeat(128), 'Other.name-2');
    expect((await app.call('x'.repeat(128))).status).toBe(200);
    expect((await app.call('Other.name-2')).status).toBe(200);
  });
});

describe('its schemas', () => {
  const part = v.strictObject({ b: v.string() });
  const value = (schema: v.GenericSchema) => v.strictObject({ value: schema });
  const REQUIRED = 'This field is required';
  const byId = v.variant('by', [v.strictObject({ by: v.literal('id'), id: v.string() })]);
  const within = v.object({ lines: v.optional(v.array(v.nullable(part))), either: v.optional(v.union([part])) });
  const isNever = v.pipe(
    v.string(),
    v.check(() => false),
  );
  type Row = readonly [what: string, schema: v.GenericSchema<Record<string, unknown>>, given: object, ...string[]];
  test.each<Row>([
    ['a missing field', v.strictObject({ a: v.string() }), {}, 'a', REQUIRED],
    ['one of an object that drops others', v.object({ a: v.string() }), {}, 'a', REQUIRED],
    ['one of an object that keeps others', v.looseObject({ a: v.string() }), {}, 'a', REQUIRED],
    ['one of an object inside', v.strictObject({ a: part }), { a: {} }, 'a.b', REQUIRED],
    ['text in place of an object', v.strictObject({ a: part }), { a: 'x' }, 'a', 'Expected Object'],
    ['the same in a list', v.strictObject({ a: v.array(part) }), { a: [5] }, 'a.0', 'Expected Object'],
    [
      'an unknown field within a field',
      within,
      { lines: [{ b: '', odd: 1 }] },
      'lines.0',
      'Unknown field; the fields are b',
    ],
    [
      'one within what text may become, however it is checked after',
      value(
        v.pipe(
          v.pipe(v.unknown(), v.transform(Object), part),
          v.check(({ b }) => b === ''),
        ),
      ),
      { value: { b: '', odd: 1 } },
      'value',
      'Unknown field; the fields are b',
    ],
    [
      'one deeper within it',
      value(v.pipe(v.unknown(), v.transform(Object), v.strictObject({ line: part }))),
      { value: { line: { b: '', odd: 1 } } },
      'value.line',
      'Unknown field; the fields are b',
    ],
    [
      'but not within a record',
      v.strictObject({ lines: v.record(v.string(), part) }),
      { lines: { first: { b: '', odd: 1 } } },
      'lines.first',
      'Unknown field',
    ],
    ['nor among alternatives', within, { either: { b: '', odd: 1 } }, 'either', 'Unknown field'],
    ['nor with alternatives', byId, { by: 'id', id: 'x', odd: 1 }, '', 'Unknown field'],
    ['a format', value(v.pipe(v.number(), v.integer())), { value: 1.5 }, 'value', 'Expected integer'],
    ['another', value(v.pipe(v.string(), v.isoDate())), { value: 'soon' }, 'value', 'Expected iso date'],
    ['a length', value(v.pipe(v.string(), v.maxLength(3))), { value: 'four' }, 'value', 'Expected length <=3'],
    ['something', value(v.pipe(v.string(), v.nonEmpty())), { value: '' }, 'value', 'Expected length not 0'],
    ['a number', value(v.pipe(v.number(), v.minValue(3))), { value: 2 }, 'value', 'Expected >=3'],
    ['a beginning', value(v.pipe(v.string(), v.startsWith('a'))), { value: 'b' }, 'value', 'Expected starts with "a"'],
    ['a conversion', value(v.pipe(v.string(), v.toNumber())), { value: 'ten' }, 'value', 'Expected a number'],
    ['a function', value(isNever), { value: 'x' }, 'value', 'Expected another value'],
    ['words of its own', value(v.pipe(v.string(), v.email('Expected mail'))), { value: 'x' }, 'value', 'Expected mail'],
  ])('say of input what was expected: %s', async (_what, input, given, path, message) => {
    const tool = defineTool(anyone, { ...facts('take'), ...schemas, input, run: () => ok({ said: '' }) });
    await using own = await createTestApp({ tools: () => [tool] });
    expect((await own.call('take', given)).body).toMatchObject({ code: 'invalid_input', issues: [{ path, message }] });
  });

  test('the input schema of a tool must be of an object: another root does not compile', () => {
    // @ts-expect-error: MCP clients would refuse the whole list of tools
    defineTool(anyone, { ...facts('array'), ...schemas, output: v.array(v.string()), run: () => ok(['x']) });
    // @ts-expect-error: nor can its arguments be a string
    defineTool(anyone, { ...facts('text'), ...schemas, input: v.string(), run: () => ok({ said: 'x' }) });
  });

  test('may have alternatives at their root, which say that they are objects', () => {
    const input = v.variant('by', [
      v.strictObject({ by: v.literal('id'), id: v.string() }),
      v.strictObject({ by: v.literal('name'), name: v.string() }),
    ]);
    const tool = defineTool(anyone, { ...facts('find'), ...schemas, input, run: ({ by }) => ok({ said: by }) });
    expect(tool.inputSchema()).toMatchObject({ type: 'object', anyOf: [{ type: 'object' }, { type: 'object' }] });
  });

  test('have checks that JSON Schema has no words for, which are left out of what clients are told', () => {
    const code = v.pipe(v.string(), v.regex(/^[a-z]{3}$/i));
    const input = v.pipe(
      v.strictObject({ name: v.pipe(v.string(), v.trim(), v.minLength(1), v.brand('Name')), code }),
      v.check(({ name, code }) => name !== code),
    );
    const tool = defineTool(anyone, { ...facts('find'), ...schemas, input, run: ({ name }) => ok({ said: name }) });
    const { properties } = JSON.parse(JSON.stringify(tool.inputSchema()));
    expect(properties).toEqual({ name: { type: 'string', minLength: 1 }, code: { type: 'string' } });
  });

  test('of an output clients are told what it is turned into', async () => {
    const at = v.pipe(
      v.date(),
      v.transform((date) => date.toISOString()),
      v.string(),
    );
    const output = v.strictObject({ at, n: v.pipe(v.string(), v.toNumber(), v.number(), v.minValue(7)) });
    await using app = await createTestApp({
      tools: () => [
        defineTool(anyone, { ...facts('clock'), ...schemas, output, run: () => ok({ at: new Date(0), n: '7' }) }),
      ],
    });
    const [{ outputSchema }] = (await post(app, request('tools/list'))).body.result.tools;
    expect(outputSchema.properties).toEqual({ at: { type: 'string' }, n: { type: 'number', minimum: 7 } });
    expect((await app.call('clock')).body).toEqual({ at: '1970-01-01T00:00:00.000Z', n: 7 });
  });

  test('of an output checks before a change of the value are left out, because the result may not pass them', async () => {
    const output = v.strictObject({
      trimmed: v.pipe(v.string(), v.description('A name.'), v.nonEmpty(), v.trim()),
      lower: v.pipe(v.string(), v.values(['EU', 'US']), v.toLowerCase()),
      upper: v.pipe(v.string(), v.regex(/^[a-z]+$/), v.toUpperCase(), v.maxLength(3)),
      most: v.pipe(v.number(), v.minValue(3), v.toMaxValue(2)),
      some: v.pipe(
        v.array(v.number()),
        v.nonEmpty(),
        v.filterItems((item) => item > 7),
      ),
      branded: v.pipe(v.string(), v.nonEmpty(), v.brand('name'), v.readonly()),
    });
    const returned = { trimmed: ' ', lower: 'EU', upper: 'abc', most: 3, some: [7], branded: 'b' };
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('changes'), ...schemas, output, run: () => ok(returned) })],
    });
    const [{ outputSchema }] = (await post(app, request('tools/list'))).body.result.tools;
    expect(outputSchema.properties).toEqual({
      trimmed: { type: 'string', description: 'A name.' },
      lower: { type: 'string' },
      upper: { type: 'string', maxLength: 3 },
      most: { type: 'number' },
      some: { type: 'array', items: { type: 'number' } },
      branded: { type: 'string', minLength: 1 },
    });
    const { structuredContent } = (await post(app, call('changes'))).body.result;
    expect(structuredContent).toEqual({ trimmed: '', lower: 'eu', upper: 'ABC', most: 2, some: [], branded: 'b' });
  });

  test('a record may have names of any schema; what parses a text to a boolean needs its own in an output', async () => {
    const counts = v.strictObject({ counts: v.record(v.picklist(['eu', 'us']), v.number()) });
    await using app = await createTestApp({
      tools: () => [
        defineTool(anyone, { ...facts('a'), input: counts, output: counts, run: (input) => ok(input) }),
        defineTool(anyone, {
          ...facts('b'),
          input: v.strictObject({ on: v.pipe(v.string(), v.parseBoolean()) }),
          output: v.strictObject({ on: v.pipe(v.string(), v.parseBoolean(), v.boolean()) }),
          run: ({ on }) => ok({ on: String(on) }),
        }),
      ],
    });
    const [a, b] = (await post(app, request('tools/list'))).body.result.tools;
    const record = { type: 'object', additionalProperties: { type: 'number' } };
    expect([a.inputSchema.properties, a.outputSchema.properties]).toEqual([{ counts: record }, { counts: record }]);
    const [read, said] = [b.inputSchema.properties.on.type, b.outputSchema.properties.on.type];
    expect([read, said, (await app.call('b', { on: 'yes' })).body]).toEqual(['string', 'boolean', { on: true }]);
    expect((await app.call('a', { counts: { eu: 1 } })).body).toEqual({ counts: { eu: 1 } });
    expect((await app.call('a', { counts: { asia: 1 } })).status).toBe(400);
  });

  test('of an output no field is required that may be undefined, because JSON leaves it out', async () => {
    const filled = { default: v.undefinedable(v.string(), 'd'), fallback: v.fallback(v.string(), 'f') };
    const row = v.strictObject({ id: v.string(), note: v.undefinedable(v.string()), raw: v.unknown(), ...filled });
    const output = v.strictObject({ rows: v.array(row) });
    const rows = [{ id: '1', note: undefined, raw: undefined, default: undefined, fallback: 'f' }];
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('rows'), ...schemas, output, run: () => ok({ rows }) })],
    });
    const { tools } = (await post(app, request('tools/list'))).body.result;
    expect(tools[0].outputSchema.properties.rows.items).toMatchObject({
      required: ['id', 'default', 'fallback'],
    });
    const { structuredContent } = (await post(app, call('rows'))).body.result;
    expect(structuredContent).toEqual({ rows: [{ id: '1', default: 'd', fallback: 'f' }] });
  });

  test('a schema that JSON Schema has no words for is reported with the name of the tool', async () => {
    const output = v.strictObject({ at: v.date() });
    await using app = await createTestApp({
      tools: () => [defineTool(anyone, { ...facts('clock'), ...schemas, output, run: () => ok({ at: new Date(0) }) })],
    });
    expect((await fetch(`${app.url}/openapi.json`)).status).toBe(500);
    expect((await app.log()).at(-1)?.error).toContain(
      'clock: output: at: expected what JSON Schema can express, got v.date()',
    );
  });

  const tree: v.GenericSchema = v.looseObject({ inside: v.optional(v.lazy(() => tree)) });
  const nestedTools = () => [
    defineTool(anyone, { ...facts('walks'), input: v.strictObject({ tree }), run: () => ok({ content: [] }) }),
    defineTool(anyone, {
      ...facts('asks'),
      input: v.strictObject({ tree: v.unknown() }),
      run(_input, { ask }) {
        const asked = ask({ who: form(v.object({ name: v.string() }))('Who?') });
        return asked.ok ? ok({ content: [{ type: 'text', text: JSON.stringify(asked.value.who) }] }) : asked;
      },
    }),
  ];
  /** As JSON, because tests may have less of a stack than servers. */
  const nested = (levels: number) => `${'{"inside":'.repeat(levels - 1)}{}${'}'.repeat(levels - 1)}`;
  const TOO_DEEP = 'tree: Expected values nested at most 1000 deep';

  test.each(['walks', 'asks'])(
    'take input that is nested 1,000 deep, and say that more is too deep (%s)',
    async (name) => {
      await using app = await createTestApp({ tools: nestedTools });
      const meta = { [CAPABILITIES]: { elicitation: {} } };
      const body = (levels: number) =>
        JSON.stringify(modern('tools/call', { name, arguments: { tree: 'TREE' } }, meta).body).replace(
          '"TREE"',
          nested(levels),
        );
      const { headers } = modern('tools/call', { name });
      const called = async (levels: number) => (await post(app, body(levels), headers)).body.result;
      expect((await called(1000)).resultType).toBe(name === 'asks' ? 'input_required' : 'complete');
      for (const levels of [1001, 6000, 90_000]) {
        const { isError, content } = await called(levels);
        expect({ levels, isError, text: content[0].text }).toMatchObject({
          isError: true,
          text: expect.stringContaining(TOO_DEEP),
        });
      }
      const pasted = body(1001).replace('"tree"', '"sk_live_pasted"');
      const { content } = (await post(app, pasted, headers)).body.result;
      expect(content[0].text).toContain('Expected values nested at most 1000 deep');
      expect(content[0].text).not.toContain('sk_live_pasted'); // a field that is unknown is not named
    },
  );

  test('refuse input with a number too large to be one, which another input could not be told from', async () => {
    await using app = await createTestApp({ tools: nestedTools });
    for (const tree of ['1e999', '-1e999', '{"inside":{"n":[1e999]}}']) {
      const response = await postJsonText(`${app.url}/tools/asks`, `{"tree":${tree}}`);
      expect([response.status, (await response.json()).issues]).toEqual([
        400,
        [{ path: 'tree', message: `Expected numbers of at most ${Number.MAX_VALUE}` }],
      ]);
    }
  });
});
