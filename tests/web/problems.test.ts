// What a refusal looks like. Which request gets which refusal is tested where the request belongs.

import { expect, test } from 'bun:test';
import { type Call, defineTool, err, type Guard, ok } from '../../src/start/package/index.ts';
import { postJsonText } from '../support/client.ts';
import { bearer, createTestApp, sharedApp } from '../support/test-app.ts';
import { noInput } from '../support/tools.ts';

const app = await sharedApp();
const alice = await bearer(app, 'alice');

const post = (tool: string, body: string, headers: Record<string, string> = {}, at = app) =>
  postJsonText(`${at.url}/tools/${tool}`, body, headers);

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  503: 'Service Unavailable',
};

/** What must come with a response. */
interface More {
  readonly detail?: string;
  readonly headers?: Readonly<Record<string, string | RegExp>>;
  /** Members beside those that every problem has. */
  readonly members?: object;
}

const CHALLENGE = { 'www-authenticate': 'Bearer realm="mcp-key-server"' };
const INVALID = { 'www-authenticate': /^Bearer error="invalid_token", error_description="[^"]+"$/ };
const LACKS_READ = 'Bearer error="insufficient_scope", error_description="Insufficient permissions", scope="read"';
const scopeless = await app.createKey('alice', { scopes: ['admin', 'READ'] });

/** One request for each code. */
const PROBLEMS: readonly [code: string, status: number, ask: () => Promise<Response>, more?: More][] = [
  ['invalid_json', 400, () => post('get_data', '{')],
  [
    'invalid_input',
    400,
    () => post('revoke_api_key', '{}', alice),
    { members: { issues: [{ path: 'keyId', message: expect.stringMatching(/./) }] } },
  ],
  ['missing_token', 401, () => post('list_api_keys', '{}'), { headers: CHALLENGE }],
  ['invalid_token', 401, () => post('list_api_keys', '{}', { authorization: 'Bearer x' }), { headers: INVALID }],
  ['missing_api_key', 401, () => post('get_data', '{}'), { headers: CHALLENGE }],
  [
    'invalid_api_key',
    401,
    () => post('get_data', '{}', { 'x-api-key': 'x' }),
    { detail: 'Invalid or expired API key', headers: INVALID },
  ],
  [
    'insufficient_scope',
    403,
    () => post('get_data', '{}', { 'x-api-key': scopeless.key }),
    {
      detail: 'Insufficient permissions',
      members: { requiredScopes: ['read'] },
      headers: { 'www-authenticate': LACKS_READ },
    },
  ],
  ['origin_denied', 403, () => post('get_data', '{}', { origin: 'https://evil.example' })],
  ['host_denied', 403, () => post('get_data', '{}', { host: 'evil.example' })],
  ['not_found', 404, () => fetch(`${app.url}/nope`)],
  ['tool_not_found', 404, () => post('nope', '{}')],
  [
    'session_not_found',
    404,
    () => fetch(`${app.url}/messages?sessionId=x`, { method: 'POST', body: '{}' }),
    { detail: 'No such session here; behind a balancer /sse needs sticky routing' },
  ],
  ['method_not_allowed', 405, () => fetch(`${app.url}/tools/get_data`), { headers: { allow: 'POST' } }],
  ['payload_too_large', 413, () => post('get_data', ' '.repeat(1_048_577))],
  ['unsupported_media_type', 415, () => post('get_data', '{}', { 'content-type': 'text/plain' })],
  [
    'store_unavailable',
    503,
    async () => {
      await using away = await createTestApp();
      await away.loseStore();
      return await post('list_api_keys', '{}', await bearer(away, 'alice'), away);
    },
    { headers: { 'retry-after': /^[1-9]\d*$/ } },
  ],
];

const rows = PROBLEMS.map(([code, status, ask, more = {}]) => [code, status, ask, more] as const);

test.each(rows)('%s is %d as problem+json, with a requestId', async (code, status, ask, more) => {
  const { detail = expect.stringMatching(/./), headers = {}, members } = more;
  const response = await ask();
  const body = (await response.json()) as Record<string, unknown>;
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toBe('application/problem+json');
  expect(response.headers.get('cache-control')).toBe('no-store');
  expect(body).toEqual({
    type: 'about:blank',
    title: TITLES[status],
    status,
    detail,
    code,
    requestId: expect.stringMatching(/./),
    ...members,
  });
  for (const [name, value] of Object.entries(headers)) expect(response.headers.get(name)).toMatch(value);
  for (const name of ['www-authenticate', 'retry-after']) {
    if (!(name in headers)) expect(response.headers.get(name)).toBeNull();
  }
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
    const { status, headers, body } = await own.useKey(key);
    const sent = [...headers].filter(([name]) => name !== 'date' && name !== 'content-length');
    responses.push(JSON.stringify([status, sent, { ...body, requestId: typeof body.requestId }]));
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
  const tool = defineTool(guard, { ...noInput('guarded'), run: () => ok({ content: [] }) });
  await using own = await createTestApp({ tools: () => [tool] });
  const { status, headers } = await own.call('guarded', {});
  expect(status).toBe(403);
  expect(headers.get('www-authenticate')).toEndWith(', scope="read"');
});
