// What a refusal looks like. Which request gets which refusal is tested where the request belongs.

import { afterAll, expect, test } from 'bun:test';
import * as v from 'valibot';
import { type Call, defineTool, err, type Guard, ok } from '../../src/start/package/index.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';
import { facts } from '../support/tools.ts';

/** One request for each code, and what must come with the response. */
const PROBLEMS: readonly {
  code: string;
  status: number;
  title: string;
  ask: (app: TestApp) => Promise<Response>;
  detail?: string;
  headers?: Record<string, string | RegExp>;
  /** Members beside those that every problem has. */
  members?: object;
}[] = [
  {
    code: 'invalid_json',
    status: 400,
    title: 'Bad Request',
    ask: (app) => post(app, 'get_data', '{', {}),
  },
  {
    code: 'invalid_input',
    status: 400,
    title: 'Bad Request',
    ask: async (app) => post(app, 'revoke_api_key', '{}', await bearer(app, 'alice')),
    members: { issues: [{ path: 'keyId', message: expect.stringMatching(/./) }] },
  },
  {
    code: 'missing_token',
    status: 401,
    title: 'Unauthorized',
    ask: (app) => post(app, 'list_api_keys', '{}', {}),
    headers: { 'www-authenticate': 'Bearer realm="mcp-key-server"' },
  },
  {
    code: 'invalid_token',
    status: 401,
    title: 'Unauthorized',
    ask: (app) => post(app, 'list_api_keys', '{}', { authorization: 'Bearer x' }),
    headers: { 'www-authenticate': /^Bearer error="invalid_token", error_description="[^"]+"$/ },
  },
  {
    code: 'missing_api_key',
    status: 401,
    title: 'Unauthorized',
    ask: (app) => post(app, 'get_data', '{}', {}),
    headers: { 'www-authenticate': 'Bearer realm="mcp-key-server"' },
  },
  {
    code: 'invalid_api_key',
    status: 401,
    title: 'Unauthorized',
    ask: (app) => post(app, 'get_data', '{}', { 'x-api-key': 'x' }),
    detail: 'Invalid or expired API key',
    headers: { 'www-authenticate': /^Bearer error="invalid_token", error_description="[^"]+"$/ },
  },
  {
    code: 'insufficient_scope',
    status: 403,
    title: 'Forbidden',
    ask: async (app) =>
      post(app, 'get_data', '{}', { 'x-api-key': (await app.createKey('alice', { scopes: ['admin', 'READ'] })).key }),
    detail: 'Insufficient permissions',
    members: { requiredScopes: ['read'] },
    headers: {
      'www-authenticate':
        'Bearer error="insufficient_scope", error_description="Insufficient permissions", scope="read"',
    },
  },
  {
    code: 'origin_denied',
    status: 403,
    title: 'Forbidden',
    ask: (app) => post(app, 'get_data', '{}', { origin: 'https://evil.example' }),
  },
  {
    code: 'host_denied',
    status: 403,
    title: 'Forbidden',
    ask: (app) => post(app, 'get_data', '{}', { host: 'evil.example' }),
  },
  { code: 'not_found', status: 404, title: 'Not Found', ask: (app) => fetch(`${app.url}/nope`) },
  { code: 'tool_not_found', status: 404, title: 'Not Found', ask: (app) => post(app, 'nope', '{}', {}) },
  {
    code: 'session_not_found',
    status: 404,
    title: 'Not Found',
    ask: (app) => fetch(`${app.url}/messages?sessionId=x`, { method: 'POST', body: '{}' }),
    detail: 'No such session here; behind a balancer /sse needs sticky routing',
  },
  {
    code: 'method_not_allowed',
    status: 405,
    title: 'Method Not Allowed',
    ask: (app) => fetch(`${app.url}/tools/get_data`),
    headers: { allow: 'POST' },
  },
  {
    code: 'payload_too_large',
    status: 413,
    title: 'Content Too Large',
    ask: (app) => post(app, 'get_data', ' '.repeat(1_048_577), {}),
  },
  {
    code: 'unsupported_media_type',
    status: 415,
    title: 'Unsupported Media Type',
    ask: (app) => post(app, 'get_data', '{}', { 'content-type': 'text/plain' }),
  },
  {
    code: 'store_unavailable',
    status: 503,
    title: 'Service Unavailable',
    async ask() {
      await using away = await createTestApp();
      const headers = await bearer(away, 'alice');
      await away.loseStore();
      return await post(away, 'list_api_keys', '{}', headers);
    },
    headers: { 'retry-after': /^[1-9]\d*$/ },
  },
];

const post = (app: TestApp, tool: string, body: string, headers: Record<string, string>) =>
  fetch(`${app.url}/tools/${tool}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });

const app = await createTestApp();
afterAll(() => app.close());

test.each(PROBLEMS)(
  '$code is $status as problem+json, with a requestId',
  async ({ code, status, title, ask, detail, headers = {}, members }) => {
    const response = await ask(app);
    const body = (await response.json()) as Record<string, unknown>;
    expect(response.status).toBe(status);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(body).toEqual({
      type: 'about:blank',
      title,
      status,
      detail: detail ?? expect.stringMatching(/./),
      code,
      requestId: expect.stringMatching(/./),
      ...members,
    });
    for (const [name, value] of Object.entries(headers)) expect(response.headers.get(name)).toMatch(value);
    if (!('www-authenticate' in headers)) expect(response.headers.get('www-authenticate')).toBeNull();
    if (!('retry-after' in headers)) expect(response.headers.get('retry-after')).toBeNull();
  },
);

test.each([
  ['{', 'The body is not JSON'],
  ['', undefined],
  ['[]', 'The body must be one JSON object'],
  ['null', 'The body must be one JSON object'],
  ['"a text"', 'The body must be one JSON object'],
])('%p as a body: no JSON, and no object, are told apart', async (body, detail) => {
  const said = (await (await post(app, 'list_api_keys', body, {})).json()) as Record<string, unknown>;
  if (detail === undefined) expect(said.code).toBe('missing_token');
  else expect(said).toMatchObject({ status: 400, code: 'invalid_json', detail });
});

test('a mistyped tool is told where the names are, without its own', async () => {
  const { body } = await app.call('creat_api_key', { name: 'n' });
  expect(body.code).toBe('tool_not_found');
  expect(body.detail).toContain('/openapi.json');
  expect(JSON.stringify(body)).not.toContain('creat_api_key');
});

test('every response has a requestId of its own', async () => {
  const ids = await Promise.all(Array.from({ length: 50 }, async () => (await app.call('get_data')).body.requestId));
  expect(new Set(ids).size).toBe(50);
});

test('unknown, revoked, expired and malformed keys read the same; the log tells them apart, and names those on record', async () => {
  await using own = await createTestApp();
  const revoked = await own.createKey('alice');
  const expired = await own.createKey('bob', { expiresInDays: 1 });
  await own.call('revoke_api_key', { keyId: revoked.id }, await bearer(own, 'alice'));
  own.clock.advance(86_400_001);
  const responses = [];
  for (const key of [`sk_test_${'0'.repeat(64)}`, revoked.key, expired.key, 'nonsense']) {
    const { headers, body } = await own.useKey(key);
    const { requestId: _, ...said } = body;
    responses.push(JSON.stringify([said, headers.get('www-authenticate'), headers.get('ratelimit')]));
  }
  expect(new Set(responses).size).toBe(1);
  const lines = (await own.log()).filter(({ event }) => event === 'Invalid or expired API key');
  expect(lines.map(({ level, reason, keyId, userId }) => ({ level, reason, keyId, userId }))).toEqual([
    { level: 'warn', reason: 'unknown', keyId: undefined, userId: undefined },
    { level: 'warn', reason: 'revoked', keyId: revoked.id, userId: 'alice' },
    { level: 'warn', reason: 'expired', keyId: expired.id, userId: 'bob' },
    { level: 'warn', reason: 'malformed', keyId: undefined, userId: undefined },
  ]);
});

test('a store that is away is 503 for every tool, never a bad credential, and never a lost response', async () => {
  await using own = await createTestApp();
  const { key, id } = await own.createKey('alice');
  const alice = await bearer(own, 'alice');
  await own.loseStore();
  own.clock.advance(2000);
  for (const [tool, input, headers] of [
    ['create_api_key', { name: 'n', scopes: [] }, alice],
    ['list_api_keys', {}, alice],
    ['revoke_api_key', { keyId: id }, alice],
    ['delete_api_key', { keyId: id }, alice],
    ['get_data', {}, { 'x-api-key': key }],
  ] as const) {
    const { status, body } = await own.call(tool, input, headers);
    expect({ tool, status, code: body.code }).toEqual({ tool, status: 503, code: 'store_unavailable' });
  }
});

test('a guard of one’s own may ask for what is no scope: the challenge names the scopes alone', async () => {
  const guard: Guard<Call> = () => err({ code: 'insufficient_scope', required: ['say "hi"', 'read'] });
  const tool = defineTool(guard, { ...facts('guarded'), input: v.strictObject({}), run: () => ok({ content: [] }) });
  await using own = await createTestApp({ tools: () => [tool] });
  const { status, headers } = await own.call('guarded', {});
  expect(status).toBe(403);
  expect(headers.get('www-authenticate')).toEndWith(', scope="read"');
});
