// Prompts and completions of one's own, over every transport and revision, and a server that has none.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { definePrompt, err, form, ok, type Prompt, sequence, type ToolDeps } from '../../src/start/package/index.ts';
import { createTestApp as createOwnTestApp } from '../../src/start/package/testing.ts';
import { createAuthorizationServer } from '../support/authorization-server.ts';
import { testClock } from '../support/clock.ts';
import { modern, post, postModern, request, WAYS } from '../support/mcp.ts';
import { bearer, createTestApp, failureOf, insertKey, sharedApp, type TestApp } from '../support/test-app.ts';
import { anyone } from '../support/tools.ts';
import { CONNECTS } from './clients.ts';

const CITIES = ['Paris', 'Parma', 'Porto'];

const facts = (name: string) => ({ name, title: `Title of ${name}`, description: `Description of ${name}` });
const says = (text: string) => ok({ messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }] });
const nothing = v.strictObject({});

const visit = ({ guards }: ToolDeps) =>
  definePrompt(sequence(guards.apiKey, guards.scopes('read')), {
    ...facts('visit'),
    arguments: v.strictObject({
      city: v.pipe(v.string(), v.title('City'), v.description('Where to go.')),
      season: v.optional(v.picklist(['summer', 'winter'])),
    }),
    run: ({ city, season = 'any season' }, { auth }) => says(`${auth.subject} goes to ${city} in ${season}`),
    complete: {
      city: (value) => ok(CITIES.filter((city) => city.startsWith(value))),
      season: (_value, { given, auth }) => ok([`${auth.subject}'s in ${given.city}`]),
    },
  });

const open = (name: string, run: () => ReturnType<typeof says> = () => says(name)) =>
  definePrompt(anyone, { ...facts(name), arguments: nothing, run });

const serve = (make: (deps: ToolDeps) => readonly Prompt[], env = {}) => createTestApp({ prompts: make, env });

const complete = (name: string, value: string, context?: object) => ({
  ref: { type: 'ref/prompt', name: 'visit' },
  argument: { name, value },
  ...(context && { context }),
});

const clock = testClock();
let refusing: () => ReturnType<typeof says> = () => says('');
const more = [
  open('plain'),
  open('broken', () => refusing()),
  definePrompt(anyone, { ...facts('full'), arguments: nothing, run: () => err({ code: 'overloaded' }) }),
  definePrompt(anyone, {
    ...facts('slow'),
    arguments: nothing,
    timeoutMs: 5,
    run(_given, { signal }) {
      queueMicrotask(() => clock.advance(5));
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  }),
];
const app = await sharedApp({ prompts: (deps) => [visit(deps), ...more], clock });
const reader = { 'x-api-key': await insertKey(app, 'alice', ['read']) };

const PORTO = { name: 'visit', arguments: { city: 'Porto' } };

describe.each(Object.entries(WAYS))('prompts over %s', (way, ask) => {
  test('are listed, each with its arguments', async () => {
    const { prompts } = (await ask(app, 'prompts/list', {})).result;
    expect(prompts.slice(0, 2)).toEqual([
      {
        ...facts('visit'),
        arguments: [
          { name: 'city', title: 'City', description: 'Where to go.', required: true },
          { name: 'season', required: false },
        ],
      },
      { ...facts('plain'), arguments: [] },
    ]);
  });

  test('run, and complete, behind their guards', async () => {
    const { result } = await ask(app, 'prompts/get', PORTO, reader);
    expect(result.messages).toEqual([
      { role: 'user', content: { type: 'text', text: 'alice goes to Porto in any season' } },
    ]);
    const found = await ask(app, 'completion/complete', complete('city', 'Par'), reader);
    expect(found.result.completion).toEqual({ values: ['Paris', 'Parma'], total: 2, hasMore: false });
    const context = { arguments: { city: 'Porto' } };
    const next = await ask(app, 'completion/complete', complete('season', '', context), reader);
    expect(next.result.completion.values).toEqual(["alice's in Porto"]);

    const missing = { code: -31000, message: 'No API key provided', data: { code: 'missing_api_key' } };
    expect((await ask(app, 'prompts/get', PORTO)).error).toEqual(missing);
    expect((await ask(app, 'completion/complete', complete('city', 'Par'))).error).toEqual(missing);
    const denied = await ask(app, 'prompts/get', PORTO, { 'x-api-key': await insertKey(app, 'bob') });
    expect(denied.error).toEqual({
      code: -31000,
      message: 'Insufficient permissions',
      data: { code: 'insufficient_scope', requiredScopes: ['read'] },
    });
  });

  test('with no name, or another type of it, fit no header of 2026-07-28', async () => {
    for (const params of [{}, { name: 7 }, { name: ['visit'] }]) {
      expect((await ask(app, 'prompts/get', params)).error.code).toBe(way === 'modern' ? -32020 : -32602);
    }
  });

  test('have none of the methods at a server that has none', async () => {
    await using own = await createTestApp();
    for (const method of ['prompts/list', 'prompts/get', 'completion/complete']) {
      expect((await ask(own, method, { name: 'visit', ...complete('city', '') })).error.code).toBe(-32601);
    }
  });

  test('have bugs that are -32603 with the request id, and the log has the prompt', async () => {
    refusing = () => {
      throw new Error('a bug');
    };
    const { error } = await ask(app, 'prompts/get', { name: 'broken' });
    expect(error).toMatchObject({ code: -32603, data: { requestId: expect.any(String) } });
    const line = (await app.log()).findLast(({ event }) => event === 'internal error');
    expect(line).toMatchObject({ prompt: 'broken', requestId: error.data.requestId });
  });

  test('refuse, and run out of time, with -31000', async () => {
    for (const [name, code] of [
      ['full', 'overloaded'],
      ['slow', 'tool_timeout'],
    ] as const) {
      expect((await ask(app, 'prompts/get', { name })).error).toMatchObject({ code: -31000, data: { code } });
    }
  });
});

test.each([
  ['an unknown prompt', { name: 'nope' }],
  ['a missing argument', { name: 'visit' }],
  ['an unknown argument', { name: 'visit', arguments: { city: 'Porto', sk_test_secret: 'x' } }],
  ['an argument that is no string', { name: 'visit', arguments: { city: 7 } }],
  ['a value outside the list', { name: 'visit', arguments: { city: 'Porto', season: 'sk_test_secret' } }],
  ['arguments of a wrong type', { name: 'visit', arguments: [] }],
])('prompts/get with %s is -32602 and quotes nothing', async (_what, params) => {
  const { error } = await WAYS.legacy(app, 'prompts/get', params, reader);
  expect(error.code).toBe(-32602);
  expect(JSON.stringify(error)).not.toContain('sk_test_secret');
});

test.each([
  ['an unknown prompt', { ...complete('city', ''), ref: { type: 'ref/prompt', name: 'nope' } }],
  ['an unknown resource template', { ...complete('city', ''), ref: { type: 'ref/resource', uri: 'x://{y}' } }],
  ['an unknown kind of reference', { ...complete('city', ''), ref: { type: 'ref/tool', name: 'visit' } }],
  ['no reference', { argument: { name: 'city', value: '' } }],
  ['an unknown argument', complete('nope', '')],
  ['no argument', { ref: { type: 'ref/prompt', name: 'visit' } }],
  ['a value of a wrong type', { ...complete('city', ''), argument: { name: 'city', value: 7 } }],
  ['a context of a wrong type', { ...complete('city', ''), context: 7 }],
  ['a context that is a list', { ...complete('city', ''), context: [] }],
  ['arguments so far that are a list', { ...complete('city', ''), context: { arguments: ['Porto'] } }],
])('completion/complete for %s is -32602', async (_what, params) => {
  expect((await WAYS.legacy(app, 'completion/complete', params, reader)).error.code).toBe(-32602);
});

test.each<[string, () => ReturnType<typeof says>]>([
  ['a text in place of messages', () => ok('a text' as never)],
  ['an error that is no problem', () => err('a text') as never],
])('a bug is also %s', async (_what, run) => {
  refusing = run;
  const { error } = await WAYS.legacy(app, 'prompts/get', { name: 'broken' });
  expect(error).toMatchObject({ code: -32603, data: { requestId: expect.any(String) } });
});

test('an argument that nothing completes has no suggestions, whatever its name', async () => {
  await using app = await serve(() => [
    definePrompt(anyone, {
      ...facts('visit'),
      arguments: v.strictObject({ city: v.string(), toString: v.string() } as Record<string, v.GenericSchema<string>>),
      run: () => says(''),
      complete: { city: () => ok(CITIES) },
    }),
  ]);
  const { result } = (await post(app, request('completion/complete', complete('toString', '')))).body;
  expect(result.completion).toEqual({ values: [], total: 0, hasMore: false });
});

test('messages that MCP does not know, and suggestions that are no texts, are bugs that the log names', async () => {
  const broken = (name: string, returned: unknown) =>
    definePrompt(anyone, {
      ...facts(name),
      arguments: v.strictObject({ city: v.optional(v.string()) }),
      run: () => ok(returned) as ReturnType<typeof says>,
      complete: { city: () => ok([7 as never]) },
    });
  const content = { type: 'text', text: 'x' };
  await using app = await serve(() => [
    broken('nothing', undefined),
    broken('system', { messages: [{ role: 'system', content }] }),
    broken('visit', { messages: [{ role: 'user', content: { type: 'image' } }] }),
  ]);
  const asked = [
    ...['nothing', 'system', 'visit'].map((name) => request('prompts/get', { name })),
    request('completion/complete', complete('city', '')),
  ];
  for (const message of asked) expect((await post(app, message)).body.error.code).toBe(-32603);
  const bugs = (await app.log()).filter(({ event }) => event === 'internal error');
  expect(bugs.map(({ error }) => String(error).split('\n')[0])).toEqual([
    'Error: nothing: it returns what are no messages of MCP: Expected Object',
    'Error: system: it returns what are no messages of MCP: messages.0.role: Expected ("user" | "assistant")',
    'Error: visit: it returns what are no messages of MCP: messages.0.content.data: This field is required; messages.0.content.mimeType: This field is required',
    'Error: visit: it completes with what are no texts: 0: Expected string',
  ]);
});

test('an argument that is nested too deep is refused, also by a prompt that asks and drops what it does not know', async () => {
  await using app = await serve(() => [
    definePrompt(anyone, {
      ...facts('visit'),
      arguments: v.object({}),
      run(_given, { ask }) {
        const asked = ask({ who: form(v.object({ name: v.string() }))('Who?') });
        return asked.ok ? says('') : asked;
      },
    }),
  ]);
  const { body, headers } = modern('prompts/get', { name: 'visit', arguments: { tree: 'TREE' } });
  const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const response = await post(app, JSON.stringify(body).replace('"TREE"', nested), headers);
  expect(response.body.error).toMatchObject({
    code: -32602,
    data: { issues: [{ path: '', message: 'Expected values nested at most 1000 deep' }] },
  });
});

test('completions beyond the hundredth are counted, not sent', async () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `value ${index}`);
  await using app = await serve(() => [
    definePrompt(anyone, {
      ...facts('visit'),
      arguments: v.strictObject({ city: v.string() }),
      run: () => says(''),
      complete: { city: (count) => ok(many(Number(count))) },
    }),
  ]);
  for (const [count, sent, hasMore] of [
    [99, 99, false],
    [100, 100, false],
    [101, 100, true],
  ] as const) {
    const { result } = (await post(app, request('completion/complete', complete('city', `${count}`)))).body;
    expect(result.completion).toMatchObject({ total: count, hasMore });
    expect(result.completion.values).toHaveLength(sent);
  }
});

describe('what is announced', () => {
  const capabilities = async (app: TestApp) => {
    const legacy = await post(app, request('initialize', { protocolVersion: '2025-11-25' }));
    const discovered = await postModern(app, 'server/discover');
    expect(discovered.body.result.capabilities).toEqual(legacy.body.result.capabilities);
    return Object.keys(legacy.body.result.capabilities).sort();
  };

  test('without prompts the server announces neither prompts nor completions', async () => {
    await using app = await createTestApp();
    expect(await capabilities(app)).toEqual(['extensions', 'resources', 'tools']);
  });

  test('with prompts that complete nothing the server announces prompts alone', async () => {
    await using app = await serve(() => [open('plain')]);
    expect(await capabilities(app)).toEqual(['extensions', 'prompts', 'resources', 'tools']);
    expect((await post(app, request('completion/complete', complete('city', '')))).body.error.code).toBe(-32601);
  });

  test('with a prompt that completes the server announces prompts and completions', async () => {
    expect(await capabilities(app)).toEqual(['completions', 'extensions', 'prompts', 'resources', 'tools']);
  });

  test('in 2026-07-28 the list may be cached, and Mcp-Name must name the prompt', async () => {
    const { result } = (await postModern(app, 'prompts/list')).body;
    expect(result).toMatchObject({ resultType: 'complete', ttlMs: 3_600_000, cacheScope: 'public' });
    const got = (await postModern(app, 'prompts/get', { name: 'plain' })).body.result;
    expect([got.resultType, got.ttlMs]).toEqual(['complete', undefined]);
    const { body, headers } = modern('prompts/get', { name: 'plain' });
    const wrong = await post(app, body, { ...headers, 'mcp-name': 'other' });
    expect([wrong.status, wrong.body.error.code]).toEqual([400, -32020]);
  });
});

test('a call of a prompt counts against the rate limits of its key and owner, and its response says so', async () => {
  await using app = await serve((deps) => [visit(deps)], { RATE_LIMIT_REQUESTS: '2', OWNER_RATE_LIMIT: '3/1h' });
  const keyOf = async (owner: string) => ({ 'x-api-key': await insertKey(app, owner, ['read']) });
  const headers = await keyOf('alice');
  const get = (by = headers) => post(app, request('prompts/get', PORTO), by);
  expect((await get()).headers.get('ratelimit')).toStartWith('"key";r=1;');
  await post(app, request('completion/complete', complete('city', '')), headers);
  const refused = await get();
  expect(refused.body.error).toMatchObject({ code: -31000, data: { code: 'rate_limited' } });
  expect(refused.headers.get('ratelimit')).toStartWith('"key";r=0;');
  const other = await keyOf('alice');
  expect((await get(other)).body.result).toBeDefined();
  const data = { code: 'rate_limited', retryAfterS: expect.any(Number), of: 'owner' };
  expect((await get(other)).body.error).toMatchObject({ code: -31000, data });
});

test('a call of a prompt that is refused before its key is looked at says what one of a tool says', async () => {
  const env = { OAUTH_REDIRECTS: 'loopback', ACCESS_LOG: '1' };
  await using app = await serve((deps) => [visit(deps)], env);
  const { key, id } = await app.createKey('alice');
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  for (const message of [
    request('prompts/get', PORTO),
    request('prompts/get', { ...PORTO, _meta: { progressToken: 0 } }),
    request('completion/complete', complete('city', '')),
  ]) {
    for (const headers of [undefined, { 'x-api-key': key }, { authorization: `Bearer ${key}` }]) {
      const refused = await post(app, message, headers);
      expect([refused.status, refused.headers.get('ratelimit')]).toEqual([401, '"key";r=1000;t=3600']);
      expect((await app.log()).at(-1)).toMatchObject({ event: 'request', tool: 'visit', status: 401 });
    }
  }
  expect((await app.log()).filter(({ event }) => event === 'No API key provided')).toHaveLength(3);
});

test.each([{}, { name: 7 }, { type: 'ref/resource', name: 'visit' }, undefined])(
  'a key that has ended is HTTP 401 whatever is to be completed: %j',
  async (ref) => {
    await using app = await serve((deps) => [visit(deps)]);
    const { key, id } = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
    const refused = await post(app, request('completion/complete', { ref }), { 'x-api-key': key });
    expect([refused.status, refused.body.code]).toEqual([401, 'invalid_api_key']);
  },
);

test('a prompt for users is challenged, with an authorization server', async () => {
  const clock = testClock();
  await using server = await createAuthorizationServer({ nowMs: clock.nowMs });
  await using app = await createTestApp({
    clock,
    env: { JWT_SECRET: undefined, JWT_ISSUER: server.url },
    prompts: ({ guards }) => [
      definePrompt(guards.userJwt, { ...facts('mine'), arguments: nothing, run: () => says('mine') }),
    ],
  });
  const { status, headers } = await post(app, request('prompts/get', { name: 'mine' }));
  expect(status).toBe(401);
  expect(headers.get('www-authenticate')).toContain('resource_metadata=');
});

describe('a definition that can not work stops the start', () => {
  test.each([
    ['a number', v.number()],
    ['an object', v.strictObject({})],
    ['a nullable string', v.nullable(v.string())],
  ])('an argument that is %s', (_what, schema) => {
    const make = () =>
      definePrompt(anyone, { ...facts('p'), arguments: v.strictObject({ city: schema }), run: () => says('') });
    expect(make).toThrow('p: arguments: expected strings, got another type for "city"');
  });

  test.each<[string, object, string]>([
    ['of no argument', { town: () => ok([]) }, 'town: unknown field; the fields are city'],
    ['that is no function', { city: ['Porto'] }, 'city: expected a function, got object'],
  ])('a completer %s, in a file without types', (_what, complete, said) => {
    const city = v.strictObject({ city: v.string() });
    const make = () => definePrompt(anyone, { ...facts('p'), arguments: city, run: () => says(''), complete });
    expect(make).toThrow(`p: complete: ${said}`);
  });

  test('two prompts of one name stop the start', async () => {
    const failure = await failureOf(serve(() => [open('same'), open('same')]));
    expect(failure).toContain('expected another prompt name, same is in the server already');
  });
});

test.each(CONNECTS)('%s lists, gets and completes', async (_name, connect) => {
  const client = await connect(app.url, reader);
  expect((await client.listPrompts()).prompts.map(({ name }) => name)).toContain('visit');
  const { messages } = await client.getPrompt({ name: 'visit', arguments: { city: 'Porto', season: 'winter' } });
  expect(messages).toMatchObject([{ content: { text: 'alice goes to Porto in winter' } }]);
  const { completion } = await client.complete({
    ref: { type: 'ref/prompt', name: 'visit' },
    argument: { name: 'city', value: 'Po' },
  });
  expect(completion.values).toEqual(['Porto']);
  await client.close();
});

test('a program starts with prompts of its own', async () => {
  await using app = await createOwnTestApp({ prompts: [visit, () => [open('one'), open('two')]] });
  const { result } = (await post(app, request('prompts/list'))).body;
  expect(result.prompts.map(({ name }: Prompt) => name)).toEqual(['visit', 'one', 'two']);
});
