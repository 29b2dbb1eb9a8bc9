// What create_api_key takes, at, below and above each bound, and what it returns; a user may hold 1,000 keys,
// in any state.

import { describe, expect, test } from 'bun:test';
import { postJsonText } from '../support/client.ts';
import { callAll } from '../support/mcp.ts';
import { defaultStoreMode, startStore } from '../support/store-mode.ts';
import { bearer, createTestApp, listedKeys, sharedApp, type TestApp } from '../support/test-app.ts';

const app = await sharedApp();
const headers = await bearer(app, 'alice');

const create = (input: unknown) => app.call('create_api_key', input, headers);
const createFrom = (text: string) => postJsonText(`${app.url}/tools/create_api_key`, text, headers);
const GOOD = { name: 'n', scopes: ['read'] };
async function listed() {
  app.clock.advance(50); // each list needs its token
  return (await app.call('list_api_keys', {}, headers)).body.keys;
}
const count = async () => (await listed()).length as number;

/** The paths of the issues of an input that must be refused, after seeing that it changed nothing. */
async function issuePaths(input: unknown): Promise<string[]> {
  const before = await count();
  const { status, body } = await create(input);
  expect({ status, code: body.code }).toEqual({ status: 400, code: 'invalid_input' });
  expect(await count()).toBe(before);
  return body.issues.map((issue: { path: string }) => issue.path);
}

test('it responds with id, key, name, scopes, expiresAt, resource and the warning, and nothing else', async () => {
  const { status, headers: sent, body } = await create({ name: ' my key ', scopes: ['write', 'read'] });
  expect(status).toBe(200);
  expect(body).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{32}$/),
    key: expect.stringMatching(/^sk_test_[0-9a-f]{64}$/),
    name: ' my key ',
    scopes: ['write', 'read'],
    expiresAt: null,
    resource: null,
    warning: 'Save this key now - it will not be shown again',
  });
  expect(sent.get('content-type')).toBe('application/json');
  expect(sent.get('cache-control')).toBe('no-store');
});

test('no two keys are alike', async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, () => create(GOOD)));
  expect(new Set(keys.map(({ body }) => body.key)).size).toBe(20);
  expect(new Set(keys.map(({ body }) => body.id)).size).toBe(20);
});

describe('name', () => {
  test.each([
    ['1 character', 'a'],
    ['200 characters', 'a'.repeat(200)],
    ['150 emoji are 150', '😀'.repeat(150)],
    ['200 emoji are 200', '😀'.repeat(200)],
    ['spaces around it stay', '  a  '],
    ['quotes, markup and other scripts', `"'<script>\\ü漢`],
    ['combining characters are not normalized', 'e\u0301'],
    ['a prototype name', '__proto__'],
    ['something seen among what is not', '\u200b\u3164x\u2800'],
    ['an emoji of several', '👩\u200d💻'],
    ['looks like a statement', "'; DROP TABLE api_keys; --"],
  ])('%s: taken as it is', async (_what, name) => {
    const { status, body } = await create({ ...GOOD, name });
    expect({ status, name: body.name }).toEqual({ status: 200, name });
    expect((await listed())[0].name).toBe(name);
  });

  test.each([
    ['empty', ''],
    ['blank', '   '],
    ['blank in Unicode', '\u00a0\u2003'],
    ['of what nobody sees', '\u200b\u3164\u2800\u115f\u1160\uffa0\u{e0041}\ufe0f\u2060\ufeff\u00ad'],
    ...['\u200b', '\u3164', '\u2800', '\u115f', '\u180e', '\ufffc'].map((char): [string, string] => [
      `${char.codePointAt(0)?.toString(16)}`,
      char,
    ]),
    ['201 characters', 'a'.repeat(201)],
    ['201 emoji', '😀'.repeat(201)],
    ['100,000 characters', 'a'.repeat(100_000)],
    ['NUL', 'bob\0x'],
    ['newline', 'a\nb'],
    ['DEL', 'a\x7f'],
    ['C1 control', 'a\u0085'],
    ['lone high surrogate', 'a\ud800'],
    ['lone low surrogate', '\udc00a'],
    ['number', 1],
    ['null', null],
    ['array', ['a']],
    ['object', { toString: 'a' }],
    ['missing', undefined],
  ])('%s is refused', async (_what, name) => {
    expect(new Set(await issuePaths({ ...GOOD, name }))).toEqual(new Set(['name']));
  });
});

describe('scopes', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => `scope:${index}`);
  test.each([
    ['none', []],
    ['100', hundred],
    ['a scope of 100 characters', ['a'.repeat(100)]],
    ['2,000 characters together', Array.from({ length: 20 }, (_, at) => `${at}`.padEnd(100, 'a'))],
    ['every character a scope may have', ['!#$%&()*+,-./:;<=>?@[]^_`{|}~', "'"]],
    ['outside the catalogue', ['anything:at-all']],
    ['prototype names', ['__proto__', 'constructor']],
  ])('%s: taken as they are', async (_what, scopes) => {
    const { status, body } = await create({ ...GOOD, scopes });
    expect({ status, scopes: body.scopes }).toEqual({ status: 200, scopes });
    expect((await listed())[0].scopes).toEqual(scopes);
  });

  test.each([
    ['101', [...hundred, 'x'], 'scopes'],
    ['2,001 characters together', [...Array(20).fill('a'.repeat(100)), 'b'], 'scopes'],
    ['100 of 100 characters', Array(100).fill('a'.repeat(100)), 'scopes'],
    ['empty text', [''], 'scopes.0'],
    ['101 characters', ['read', 'a'.repeat(101)], 'scopes.1'],
    ['space', ['read write'], 'scopes.0'],
    ['quote', ['a"b'], 'scopes.0'],
    ['backslash', ['a\\b'], 'scopes.0'],
    ['control', ['a\n'], 'scopes.0'],
    ['not ASCII', ['lesé'], 'scopes.0'],
    ['NUL', ['read\0'], 'scopes.0'],
    ['number', [1], 'scopes.0'],
    ['null', [null], 'scopes.0'],
    ['a string', 'read', 'scopes'],
    ['an object', { 0: 'read' }, 'scopes'],
    ['null instead of a list', null, 'scopes'],
    ['missing', undefined, 'scopes'],
  ])('%s is refused', async (_what, scopes, path) => {
    expect(await issuePaths({ name: 'n', scopes })).toEqual([path]);
  });

  test('if more are wrong than a sensible input has values, only the first is looked at', async () => {
    const wrong = (count: number) => issuePaths({ ...GOOD, scopes: Array(count).fill('') });
    expect(await wrong(997)).toHaveLength(10); // plus the object, its name and the array
    expect(await wrong(998)).toEqual(['scopes.0']);
    expect(await wrong(300_000)).toEqual(['scopes.0']);
  });
});

describe('expiresInDays', () => {
  const refused = [0, -0, -1, -1e-300, 36_500.000_001, 36_501, 1e9, '30', null, true, [1], {}];
  test.each(refused.map((days) => ({ days })))('$days is refused', async ({ days }) => {
    expect(await issuePaths({ ...GOOD, expiresInDays: days })).toEqual(['expiresInDays']);
  });

  test('a number too large to be finite is refused', async () => {
    expect((await createFrom('{"name":"n","scopes":[],"expiresInDays":1e999}')).status).toBe(400);
  });
});

describe('other fields', () => {
  test.each(['expiresInDay', 'userId', 'active', 'keyHash', 'constructor', 'toString', 'prototype', ''])(
    '"%s" is refused, and the response does not name it',
    async (field) => {
      expect(await issuePaths({ ...GOOD, [field]: 1 })).toEqual(['']);
      const { body } = await create({ ...GOOD, [field]: 1 });
      expect(body.issues[0].message).toBe(
        'Unknown field; the fields are name, scopes, expiresInDays, rateLimit, quota, resource',
      );
    },
  );

  test('one within a field is refused, and the response says what that field takes', async () => {
    const { body } = await create({ ...GOOD, quota: { requests: 1, period: 'day', perDay: 1 } });
    expect(body.issues).toEqual([{ path: 'quota', message: 'Unknown field; the fields are requests, period' }]);
  });

  test('__proto__ as a field is refused, whatever it holds', async () => {
    for (const value of ['1', 'null', '{"name":"n","scopes":[]}']) {
      expect((await createFrom(`{"name":"n","scopes":[],"__proto__":${value}}`)).status).toBe(400);
    }
  });

  test('_meta is taken off, whatever it holds', async () => {
    for (const _meta of [{}, { api_key: 1 }, { progressToken: 1 }, null, 'x', []]) {
      expect((await create({ ...GOOD, _meta })).status).toBe(200);
    }
  });
});

/** Makes keys, and returns their ids. */
async function fill(app: TestApp, sub: string, count: number): Promise<string[]> {
  const inputs = Array(count).fill({ name: 'n', scopes: [] });
  const made = await callAll(app, 'create_api_key', inputs, await bearer(app, sub));
  return made.map(({ structuredContent: { id } }) => id);
}

test('the 1,000th key is made, the 1,001st is 409, revoked keys count, deleted ones do not, other users have their own', async () => {
  await using app = await createTestApp();
  const alice = await bearer(app, 'alice');
  const input = { name: 'one more', scopes: [] };
  const [first = ''] = await fill(app, 'alice', 999);
  expect((await app.call('create_api_key', input, alice)).status).toBe(200);

  const over = await app.call('create_api_key', input, alice);
  expect(over.status).toBe(409);
  expect(over.body).toMatchObject({ code: 'key_limit_reached', title: 'Conflict' });

  await app.call('revoke_api_key', { keyId: first }, alice);
  expect((await app.call('create_api_key', input, alice)).status).toBe(409);
  expect((await app.call('create_api_key', input, await bearer(app, 'bob'))).status).toBe(200);

  await app.call('delete_api_key', { keyId: first }, alice);
  expect((await app.call('create_api_key', input, alice)).status).toBe(200);
  expect((await app.call('create_api_key', input, alice)).status).toBe(409);
  expect(await listedKeys(app, 'alice')).toHaveLength(1000);
}, 180_000);

test('a race for the last places, at two servers, has as many winners as there are places', async () => {
  await using store = await startStore(defaultStoreMode());
  const env = { OWNER_KEYS: '10' };
  await using one = await createTestApp({ store, env });
  await using other = await createTestApp({ store, env });
  await fill(one, 'alice', 5);
  const alice = await bearer(one, 'alice');
  const create = async (app: TestApp) => (await app.call('create_api_key', { name: 'n', scopes: [] }, alice)).status;
  const statuses = await Promise.all(Array.from({ length: 20 }, (_, at) => create(at % 2 === 0 ? one : other)));
  expect(statuses.filter((status) => status === 200)).toHaveLength(5);
  expect(statuses.filter((status) => status === 409)).toHaveLength(15);
}, 180_000);
