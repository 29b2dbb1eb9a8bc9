// Where a key is found, and what is refused. Which of several credentials decides, of each tool and over each transport, is
// in ../security/authorization.test.ts.

import { describe, expect, test } from 'bun:test';
import { postText, sendOverSocket } from '../support/http-socket.ts';
import { bearer, COUNTED, createTestApp, sharedApp } from '../support/test-app.ts';

const BAD = `sk_test_${'0'.repeat(64)}`;
const app = await sharedApp();
const good = (await app.createKey('alice')).key; // alice's

/** The owner of the data, or the code of the refusal. */
async function owner(at: { x?: string; auth?: string; meta?: unknown }): Promise<string> {
  const { body } = await app.call('get_data', at.meta === undefined ? {} : { _meta: { api_key: at.meta } }, {
    ...(at.x !== undefined && { 'x-api-key': at.x }),
    ...(at.auth !== undefined && { authorization: at.auth }),
  });
  return body.owner ?? body.code;
}

test("get_data returns the owner, the key and sample rows, never the key's text", async () => {
  const { id, key } = await app.createKey('carol', { name: 'mine', scopes: ['read', 'x'] });
  const { status, body } = await app.useKey(key);
  expect(status).toBe(200);
  expect(body).toEqual({ owner: 'carol', key: { id, name: 'mine', scopes: ['read', 'x'] }, data: expect.any(Array) });
  expect(body.data.length).toBeGreaterThan(0);
  expect(JSON.stringify(body)).not.toContain(key);
});

describe('where a key is found', () => {
  test.each([
    ['in Authorization with the scheme in lower case', { auth: `bearer ${good}` }, 'alice'],
    ['in Authorization behind several spaces', { auth: `Bearer   ${good}` }, 'alice'],
    ['a wrong X-API-Key before a right _meta', { x: 'x', meta: good }, 'invalid_api_key'],
    ['a wrong Authorization before a right _meta', { auth: `Bearer ${BAD}`, meta: good }, 'invalid_api_key'],
    ['an X-API-Key of spaces', { x: '  ', meta: good }, 'alice'],
    ['Authorization of another scheme', { auth: 'Basic YTpi', meta: good }, 'alice'],
    ['Bearer without a value', { auth: 'Bearer', meta: good }, 'alice'],
    ['Bearer and a space', { auth: 'Bearer ', meta: good }, 'alice'],
    ['an empty _meta.api_key', { meta: '' }, 'missing_api_key'],
    ['a number in _meta.api_key', { meta: 1 }, 'missing_api_key'],
    ['a list in _meta.api_key', { meta: [good] }, 'missing_api_key'],
    ['null in _meta.api_key', { meta: null }, 'missing_api_key'],
  ])('%s', async (_what, at, expected) => {
    expect(await owner(at)).toBe(expected);
  });

  test('not in the query, a field of the input, a _meta that is no object, or what that inherits', async () => {
    const token = await app.token('alice');
    for (const [path, code] of [
      [`get_data?api_key=${good}&x-api-key=${good}`, 'missing_api_key'],
      [`list_api_keys?access_token=${token}`, 'missing_token'],
    ]) {
      const response = await fetch(`${app.url}/tools/${path}`, { method: 'POST' });
      expect((await response.json()).code).toBe(code);
    }
    for (const input of [{ api_key: good }, ...[null, [], 'text', 1].map((_meta) => ({ _meta }))]) {
      expect((await app.call('get_data', input)).body.code).toBe('missing_api_key');
    }
    const inherited = `{"_meta":{"__proto__":{"api_key":"${good}"}}}`;
    const { body } = await sendOverSocket(app.url, postText('/tools/get_data', inherited));
    expect(JSON.parse(body).code).toBe('missing_api_key');
  });
});

describe('a key changed in the slightest is refused', () => {
  const flip = (key: string, at: number) => key.slice(0, at) + (key[at] === '0' ? '1' : '0') + key.slice(at + 1);
  test.each([
    ['first character of the random part', flip(good, 8)],
    ['last character', flip(good, good.length - 1)],
    ['upper-cased', good.toUpperCase()],
    ['random part upper-cased', `sk_test_${good.slice(8).toUpperCase()}`],
    ['truncated', good.slice(0, -1)],
    ['a character too many', `${good}0`],
    ['twice', `${good}${good}`],
    ['a space inside', `${good.slice(0, 20)} ${good.slice(20)}`],
    ['a space before (two after Bearer)', ` ${good}`],
    ['a space after', `${good} `],
    ['a newline after', `${good}\n`],
    ['NUL after', `${good}\0`],
    ['without prefix', good.slice(8)],
    ['another prefix', good.replace('sk_test', 'pk_test')],
    ['the prefix of the other environment', good.replace('sk_test', 'sk_live')],
    ['a text of 100,000 characters', 'a'.repeat(100_000)],
    ['a lone surrogate', `${good}\ud800`],
  ])('%s', async (_what, key) => {
    expect(await owner({ meta: key })).toBe('invalid_api_key');
  });

  test('two X-API-Key headers are one wrong key', async () => {
    const response = await sendOverSocket(
      app.url,
      postText('/tools/get_data', '{}', { 'X-API-Key': good, 'x-api-key': good }),
    );
    expect(JSON.parse(response.body).code).toBe('invalid_api_key');
  });

  test('the hash of a key is no key', async () => {
    const hash = Bun.SHA256.hash(good, 'hex');
    expect(await owner({ x: hash })).toBe('invalid_api_key');
    expect(await owner({ x: `sk_test_${hash}` })).toBe('invalid_api_key');
  });
});

test('a key of the other environment works where its record is', async () => {
  await using first = await createTestApp();
  const { key } = await first.createKey('alice');
  await using second = await createTestApp({
    folder: first.folder,
    env: { NODE_ENV: 'production', TRUST_PROXY: '1' },
  });
  const headers = { 'x-api-key': key, 'x-forwarded-proto': 'https' };
  expect((await second.call('get_data', {}, headers)).body.owner).toBe('alice');
});

describe('both kinds at once', () => {
  test('a JWT in Authorization and a key in X-API-Key each serve their tool', async () => {
    const headers = { ...(await bearer(app, 'bob')), 'x-api-key': good };
    expect((await app.call('get_data', {}, headers)).body.owner).toBe('alice');
    const { body } = await app.call('create_api_key', { name: 'from both', scopes: [] }, headers);
    const bobs = await app.call('list_api_keys', {}, await bearer(app, 'bob'));
    expect(bobs.body.keys[0].id).toBe(body.id);
  });

  test('the wrong kind is told by its shape: nothing is looked up, and the log has the reason', async () => {
    await using fresh = await createTestApp({ env: COUNTED });
    const { key } = await fresh.createKey('alice');
    const token = await fresh.token('alice');
    const reads = await fresh.storeReads();
    const keySent = 'This tool needs a user token; an API key was sent';
    const tokenSent = 'This tool needs an API key; a user token was sent';
    const said = async (tool: string, headers: Record<string, string>) => {
      const { body, headers: sent } = await fresh.call(tool, {}, headers);
      return [body.code, body.detail, sent.get('www-authenticate')];
    };
    const challenge = (sentence: string) => `Bearer error="invalid_token", error_description="${sentence}"`;
    const anonymous = 'Bearer realm="mcp-key-server"';
    expect([
      await said('list_api_keys', { authorization: `Bearer ${key}` }),
      await said('list_api_keys', { 'x-api-key': key }),
      await said('list_api_keys', { 'x-api-key': token }),
      await said('get_data', { authorization: `Bearer ${token}` }),
      await said('get_data', { 'x-api-key': token }),
      await said('get_data', { 'x-api-key': 'some.other.text' }),
    ]).toEqual([
      ['invalid_token', keySent, challenge('Invalid or expired user token')],
      ['missing_token', keySent, anonymous],
      ['missing_token', 'No user token provided', anonymous],
      ['invalid_api_key', tokenSent, challenge('Invalid or expired API key')],
      ['invalid_api_key', tokenSent, challenge('Invalid or expired API key')],
      ['invalid_api_key', 'Invalid or expired API key', challenge('Invalid or expired API key')],
    ]);
    expect(await fresh.storeReads()).toBe(reads);
    const lines = (await fresh.log()).filter(({ level }) => level === 'warn');
    expect(lines.map(({ event, reason, sent }) => ({ event, reason, sent }))).toEqual([
      { event: 'Invalid user token', reason: 'malformed', sent: 'api_key' },
      { event: 'No user token provided', reason: undefined, sent: 'api_key' },
      { event: 'No user token provided', reason: undefined, sent: undefined },
      { event: 'Invalid or expired API key', reason: 'malformed', sent: 'user_token' },
      { event: 'Invalid or expired API key', reason: 'malformed', sent: 'user_token' },
      { event: 'Invalid or expired API key', reason: 'malformed', sent: undefined },
    ]);
  });

  test('a key in Authorization without Bearer is not read, and the sentence says so, but of no other scheme', async () => {
    const said = async (authorization: string) => (await app.call('get_data', {}, { authorization })).body;
    const detail = 'No API key provided';
    expect((await said(good)).detail).toBe(`${detail}: expected "Bearer " before it in Authorization`);
    for (const other of ['Bearer', 'Basic YWxpY2U6c2VjcmV0', 'Negotiate', `Token ${good}`]) {
      expect(await said(other)).toMatchObject({ code: 'missing_api_key', detail });
    }
  });
});
