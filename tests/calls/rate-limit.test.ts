// The number of calls per window and key, and the headers that tell it on every response of a limited tool.

import { describe, expect, test } from 'bun:test';
import * as v from 'valibot';
import { defineTool, ok, sequence, type ToolDeps } from '../../src/start/package/index.ts';
import { childOf } from '../support/children.ts';
import { testClock } from '../support/clock.ts';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import {
  bearer,
  createTestApp,
  failureOf,
  insertKey,
  sharedApp,
  type TestApp,
  type TestResponse,
} from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

/** Windows are aligned to the clock: here one of each length begins. */
const onTheHour = () => testClock(Date.UTC(2026, 0, 2));
const TWO_A_MINUTE = { RATE_LIMIT_REQUESTS: '2', RATE_LIMIT_WINDOW: '1m' };
const said = ({ status, headers }: TestResponse) => ({
  status,
  policy: headers.get('ratelimit-policy'),
  limit: headers.get('ratelimit'),
  retry: headers.get('retry-after'),
});

test('a window aligned to the clock: full, refused, and full again at the very millisecond of its end', async () => {
  await using app = await createTestApp({ env: TWO_A_MINUTE, clock: onTheHour() });
  const { key } = await app.createKey('alice');
  const policy = '"key";q=2;w=60';
  expect(said(await app.useKey(key))).toEqual({ status: 200, policy, limit: '"key";r=1;t=60', retry: null });
  app.clock.advance(500);
  expect(said(await app.useKey(key))).toEqual({ status: 200, policy, limit: '"key";r=0;t=60', retry: null });
  app.clock.advance(500);
  const refused = await app.useKey(key);
  expect(said(refused)).toEqual({ status: 429, policy, limit: '"key";r=0;t=59', retry: '59' });
  expect(refused.body).toMatchObject({ code: 'rate_limited', title: 'Too Many Requests' });
  app.clock.advance(58_999);
  expect(said(await app.useKey(key))).toEqual({ status: 429, policy, limit: '"key";r=0;t=1', retry: '1' });
  app.clock.advance(1);
  expect(said(await app.useKey(key))).toEqual({ status: 200, policy, limit: '"key";r=1;t=60', retry: null });
});

test('no window is said to be longer than it is, whatever fraction of a millisecond it began at', async () => {
  const startedAtMs = 86_399.123; // here (start + 60,000) - start is a hair above 60,000
  await using app = await createTestApp({
    env: TWO_A_MINUTE,
    clock: { ...onTheHour(), monotonicMs: () => startedAtMs },
  });
  const { key } = await app.createKey('alice');
  expect((await app.useKey(key)).headers.get('ratelimit')).toBe('"key";r=1;t=60');
});

test('0 requests switches the limit off, and no header mentions it', async () => {
  await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
  const { key } = await app.createKey('alice');
  for (let call = 0; call < 5; call += 1) {
    expect(said(await app.useKey(key))).toEqual({ status: 200, policy: null, limit: null, retry: null });
  }
  expect(said(await app.call('get_data')).policy).toBeNull();
});

const app = await sharedApp({ env: TWO_A_MINUTE, clock: onTheHour() });

describe('every response of a limited tool carries the headers', () => {
  const UNTOUCHED = { policy: '"key";q=2;w=60', limit: '"key";r=2;t=60' };
  test.each([
    ['401 without a key', 401, postText('/tools/get_data', '{}')],
    ['401 with a bad key', 401, postText('/tools/get_data', '{}', { 'X-API-Key': 'x' })],
    ['400 before any guard', 400, postText('/tools/get_data', '{')],
    ['413', 413, postText('/tools/get_data', '', { 'Content-Length': '2000000' })],
    ['415', 415, postText('/tools/get_data', 'x', { 'Content-Type': 'text/plain' })],
    ['405', 405, 'GET /tools/get_data HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['403 for an origin', 403, postText('/tools/get_data', '{}', { Origin: 'https://evil.example' })],
  ])('%s: the full quota', async (_what, status, text) => {
    const response = await sendOverSocket(app.url, text);
    expect(response.status).toBe(status);
    expect(response.headers.get('ratelimit-policy')).toBe(UNTOUCHED.policy);
    expect(response.headers.get('ratelimit')).toBe(UNTOUCHED.limit);
  });

  test('403 and 400 behind the limiter: what is left', async () => {
    const { key } = await app.createKey('alice', { scopes: [] });
    expect(said(await app.useKey(key))).toMatchObject({ status: 403, limit: '"key";r=1;t=60' });
    const reader = await app.createKey('alice');
    const wrong = await app.call('get_data', { x: 1 }, { 'x-api-key': reader.key });
    expect(said(wrong)).toMatchObject({ status: 400, limit: '"key";r=1;t=60' });
  });

  test('403 https_required, the key in a header or in the body', async () => {
    await using production = await createTestApp({ env: { ...TWO_A_MINUTE, NODE_ENV: 'production' } });
    const inBody = await production.call('get_data', { _meta: { api_key: 'x' } });
    for (const refused of [await production.useKey('x'), inBody]) {
      expect(said(refused)).toMatchObject({ status: 403, ...UNTOUCHED });
    }
  });

  test('a 503 while the store is away carries the rate limit headers', async () => {
    await using away = await createTestApp({ env: TWO_A_MINUTE });
    const { key } = await away.createKey('alice');
    await away.loseStore();
    away.clock.advance(2000);
    expect(said(await away.useKey(key))).toEqual({ status: 503, ...UNTOUCHED, retry: '1' });
  });

  test("responses of tools for users carry the person's", async () => {
    const policy = '"user";q=3000;w=60';
    const listed = said(await app.call('list_api_keys', {}, await bearer(app, 'carol')));
    expect(listed).toMatchObject({ policy, limit: '"user";r=2999;t=60' });
    expect(said(await app.call('list_api_keys'))).toMatchObject({ status: 401, policy, limit: '"user";r=3000;t=60' });
    expect(said(await app.call('nope')).policy).toBeNull();
  });
});

describe('a refused call is in the log', () => {
  const logged = async (app: TestApp) => (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
  const refused = async (app: TestApp, key: string) => {
    const { status, body } = await app.useKey(key);
    expect(status).toBe(429);
    return body.requestId;
  };

  test('each key by itself, at most once a second, with the number of lines left out', async () => {
    await using app = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '1' } });
    const [first, second] = [await app.createKey('alice'), await app.createKey('alice')];
    for (const { key } of [first, second]) expect((await app.useKey(key)).status).toBe(200); // each has its own
    const requestId = await refused(app, first.key);
    await refused(app, second.key);
    app.clock.advance(999);
    await refused(app, first.key);
    await refused(app, first.key);
    expect(await logged(app)).toHaveLength(2);
    app.clock.advance(1);
    await refused(app, first.key);
    await refused(app, first.key);
    app.clock.advance(60_000);
    await refused(app, first.key);
    const lines = await logged(app);
    expect(lines.map(({ keyId, suppressed }) => [keyId, suppressed])).toEqual([
      [first.id, 0],
      [second.id, 0],
      [first.id, 2],
      [first.id, 1],
    ]);
    expect(lines[0]).toMatchObject({ level: 'warn', requestId, userId: 'alice' });
    expect(lines[0]).not.toHaveProperty('tool');
  });

  test('a call over a tool’s own limit is logged with the tool', async () => {
    const rest = { input: v.strictObject({}), output: v.strictObject({}), run: () => ok({}) };
    const limited = ({ guards }: ToolDeps) => {
      const limit = { requests: 1, window: '1h', key: () => 'all' };
      return [
        defineTool(guards.rateLimit(limit), { ...facts('open'), ...rest }),
        defineTool(sequence(guards.apiKey, guards.rateLimit(limit)), { ...facts('for_keys'), ...rest }),
      ];
    };
    await using app = await createTestApp({ tools: limited });
    const key = await insertKey(app, 'alice');
    for (const [tool, headers] of [
      ['open', {}],
      ['for_keys', { 'x-api-key': key }],
    ] as const) {
      expect((await app.call(tool, {}, headers)).status).toBe(200);
      expect((await app.call(tool, {}, headers)).status).toBe(429);
      expect((await app.call(tool, {}, headers)).status).toBe(429);
    }
    const lines = await logged(app);
    expect(lines.map(({ tool, userId, suppressed }) => ({ tool, userId, suppressed }))).toEqual([
      { tool: 'open', userId: undefined, suppressed: 0 },
      { tool: 'for_keys', userId: 'alice', suppressed: 0 },
    ]);
  });
});

describe('a limit of a tool of its own', () => {
  const rest = { input: v.strictObject({}), output: v.strictObject({ ok: v.boolean() }), run: () => ok({ ok: true }) };

  const tools = ({ guards }: ToolDeps) => [
    defineTool(guards.rateLimit({ requests: 2, window: '30s', key: () => undefined }), {
      ...facts('open'),
      ...rest,
    }),
    defineTool(
      sequence(guards.userJwt, guards.rateLimit({ requests: 1, window: '1h', key: ({ auth }) => auth.subject })),
      {
        ...facts('per_user'),
        ...rest,
      },
    ),
  ];

  test('calls without a bucket share the bucket `unknown`', async () => {
    await using app = await createTestApp({ tools });
    const statuses = [];
    for (let call = 0; call < 3; call += 1) statuses.push((await app.call('open')).status);
    expect(statuses).toEqual([200, 200, 429]);
    app.clock.advance(30_000);
    expect(said(await app.call('open'))).toMatchObject({ status: 200, policy: '"key";q=2;w=30' });
  });

  test('a bucket that is no text, as of a function that is async, would be another for each call: it is a bug', async () => {
    const key = async () => 'all';
    const wrong = ({ guards }: ToolDeps) => [
      defineTool(guards.rateLimit({ requests: 1, window: '1h', key: key as never }), { ...facts('wrong'), ...rest }),
    ];
    await using app = await createTestApp({ tools: wrong });
    expect((await app.call('wrong')).body.code).toBe('internal');
    const [line] = (await app.log()).filter(({ event }) => event === 'internal error');
    expect(line?.error).toContain('rate limit: expected key to return text, got object');
  });

  test('the bucket may be the user of a JWT', async () => {
    await using app = await createTestApp({ tools });
    const [alice, bob] = [await bearer(app, 'alice'), await bearer(app, 'bob')];
    expect((await app.call('per_user', {}, alice)).status).toBe(200);
    expect((await app.call('per_user', {}, alice)).status).toBe(429);
    expect((await app.call('per_user', {}, bob)).status).toBe(200);
    const limit = '"key";r=1;t=3600, "user";r=3000;t=60';
    expect(said(await app.call('per_user'))).toMatchObject({ status: 401, limit });
  });

  const perKey = ({ guards }: ToolDeps) =>
    defineTool(
      sequence(guards.apiKey, guards.rateLimit({ requests: 1, window: '1h', key: ({ auth }) => auth.keyId })),
      { ...facts('per_key'), ...rest },
    );

  test('the bucket of a key is that of its children, too', async () => {
    await using app = await createTestApp({ tools: (deps) => [perKey(deps)] });
    const key = await insertKey(app, 'alice', ['read', 'delegate']);
    const children = [await childOf(app, key), await childOf(app, key)];
    const statuses = [];
    for (const used of [...children.map((child) => child.key), key, await insertKey(app, 'alice')]) {
      statuses.push((await app.call('per_key', {}, { 'x-api-key': used })).status);
    }
    expect(statuses).toEqual([200, 429, 429, 200]);
  });

  test('responses carry it beside the quota of a key and the limit of a person, which count too', async () => {
    await using app = await createTestApp({
      tools: (deps) => [...tools(deps), perKey(deps)],
      env: { KEY_QUOTA: '9/day' },
      clock: onTheHour(),
    });
    const headers = { 'x-api-key': await insertKey(app, 'alice') };
    const policy = '"key";q=1;w=3600, "quota";q=9;w=86400';
    for (const [status, limit] of [
      [200, '"key";r=0;t=3600, "quota";r=8;t=86400'],
      [429, '"key";r=0;t=3600, "quota";r=7;t=86400'],
    ] as const) {
      expect(said(await app.call('per_key', {}, headers))).toMatchObject({ status, policy, limit });
    }
    const user = await bearer(app, 'alice');
    for (const [status, limit] of [
      [200, '"key";r=0;t=3600, "user";r=2999;t=60'],
      [429, '"key";r=0;t=3600, "user";r=2998;t=60'],
    ] as const) {
      expect(said(await app.call('per_user', {}, user))).toMatchObject({ status, limit });
    }
  });

  test.each([
    [2, 'often', 'expected a window like 30s, 5m, 1h or 1d, got "often"'],
    [1.5, '1m', 'expected a whole number of requests, 1 or more, got 1.5'],
    [0, '1m', 'expected a whole number of requests, 1 or more, got 0'],
    [-1, '1m', 'expected a whole number of requests, 1 or more, got -1'],
    [Number.NaN, '1m', 'expected a whole number of requests, 1 or more, got NaN'],
  ])('%d requests each "%s" are a mistake found when the server starts', async (requests, window, message) => {
    const wrong = ({ guards }: ToolDeps) => [
      defineTool(guards.rateLimit({ requests, window, key: () => undefined }), { ...facts('wrong'), ...rest }),
    ];
    expect(await failureOf(createTestApp({ tools: wrong }))).toContain(message);
  });
});
