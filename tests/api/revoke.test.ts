// POST /revoke: whoever has a key ends it. What each secret ends, what is understood, and what a caller may learn.

import { describe, expect, test } from 'bun:test';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { startProxy } from '../support/proxy.ts';
import { storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import {
  bearer,
  COUNTED,
  createTestApp,
  eventsIn,
  fingerprint,
  readResponse,
  sharedApp,
  type TestApp,
  type TestResponse,
} from '../support/test-app.ts';

const FORM = 'application/x-www-form-urlencoded';
const UNKNOWN = `sk_test_${'0'.repeat(64)}`;
const unknown = (n: number) => `sk_test_${n.toString(16).padStart(64, '0')}`;

const post = (app: TestApp, body: string, type = 'application/json', headers: Record<string, string> = {}) =>
  fetch(`${app.url}/revoke`, { method: 'POST', headers: { 'content-type': type, ...headers }, body }).then(
    readResponse,
  );

const revoke = (app: TestApp, ...tokens: unknown[]): Promise<TestResponse> => post(app, JSON.stringify(tokens));

const statuses = async (app: TestApp, ...keys: string[]) =>
  Promise.all(keys.map(async (key) => (await app.useKey(key)).status));

const rotate = async (app: TestApp, keyId: string): Promise<string> => {
  const { body } = await app.call('rotate_api_key', { keyId, overlapHours: 1 }, await bearer(app, 'alice'));
  return body.key;
};

const app = await sharedApp();

describe('understood', () => {
  test.each<[string, (key: string) => [body: string, type?: string]]>([
    ['a form', (key) => [`token=${key}&token_type_hint=api_key&other=1`, FORM]],
    ['a form with a charset', (key) => [`token=${key}`, `${FORM}; charset=UTF-8`]],
    ['an array of strings', (key) => [JSON.stringify([UNKNOWN, 'no key', '', key])]],
    ['an array of objects', (key) => [JSON.stringify([{ token: key, type: 'api_key', url: 'x', source: 'content' }])]],
    ['a form with the line of a file', (key) => [`token=${key}%0D%0A`, FORM]],
    ['a string with space around it', (key) => [JSON.stringify([` ${key}\t`])]],
    ['both', (key) => [JSON.stringify([{ token: UNKNOWN }, key, key])]],
  ])('%s: the key ends, and one line of the log says so, though it is sent again', async (_, bodyOf) => {
    const { id, key } = await app.createKey('alice');
    expect(await statuses(app, key)).toEqual([200]);
    const { status, body, headers } = await post(app, ...bodyOf(key));
    expect({ status, body, cache: headers.get('cache-control') }).toEqual({ status: 200, body: {}, cache: 'no-store' });
    expect(await statuses(app, key)).toEqual([401]);
    expect((await post(app, ...bodyOf(key))).status).toBe(200);
    const revoked = (await app.log()).filter(({ event, keyId }) => event === 'API key revoked' && keyId === id);
    expect(revoked).toHaveLength(1);
  });

  test('a known and an unknown key get the same response', async () => {
    const { key } = await app.createKey('alice');
    const seen: object[] = [];
    for (const token of [key, key, UNKNOWN, 'no key']) {
      const { status, body, headers } = await revoke(app, token);
      seen.push({ status, body, headers: [...headers].filter(([name]) => name !== 'date') });
    }
    expect(new Set(seen.map((each) => JSON.stringify(each))).size).toBe(1);
  });

  test('100 keys are revoked in one request', async () => {
    const keys = await Promise.all(Array.from({ length: 50 }, async () => (await app.createKey('alice')).key));
    const tokens = [...keys, ...Array.from({ length: 50 }, (_, n) => unknown(n))];
    expect((await revoke(app, ...tokens)).status).toBe(200);
    expect(new Set(await statuses(app, ...keys))).toEqual(new Set([401]));
  });
});

describe('not understood: nothing is done', () => {
  test.each<[string, (key: string) => [body: string, type?: string], number, string]>([
    ['101 tokens', (key) => [JSON.stringify([...Array(100).fill(UNKNOWN), key])], 400, 'invalid_input'],
    ['no tokens', () => ['[]'], 400, 'invalid_input'],
    ['one bad element', (key) => [JSON.stringify([key, 1])], 400, 'invalid_input'],
    ['an object without token', (key) => [JSON.stringify([key, { key }])], 400, 'invalid_input'],
    ['a token that is no string', (key) => [JSON.stringify([{ token: [key] }])], 400, 'invalid_input'],
    ['null', (key) => [JSON.stringify([key, null])], 400, 'invalid_input'],
    ['an object', (key) => [JSON.stringify({ token: key })], 400, 'invalid_input'],
    ['a string', (key) => [JSON.stringify(key)], 400, 'invalid_input'],
    ['broken JSON', (key) => [`["${key}"`], 400, 'invalid_input'],
    ['two in a form', (key) => [`token=${key}&token=${key}`, FORM], 400, 'invalid_input'],
    ['an empty one in a form', () => ['token=', FORM], 400, 'invalid_input'],
    ['a form without it', (key) => [`key=${key}`, FORM], 400, 'invalid_input'],
    ['no body', () => [''], 400, 'invalid_input'],
    ['another media type', (key) => [key, 'text/plain'], 415, 'unsupported_media_type'],
    ['2 MiB', (key) => [JSON.stringify([key, 'x'.repeat(2 * 1024 * 1024)])], 413, 'payload_too_large'],
  ])('%s', async (_, bodyOf, status, code) => {
    const { key } = await app.createKey('alice');
    const response = await post(app, ...bodyOf(key));
    expect(response).toMatchObject({ status, body: { code } });
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(JSON.stringify(response.body)).not.toContain(key);
    expect(response.body.detail).not.toContain('tool');
    expect(await statuses(app, key)).toEqual([200]);
  });
});

describe('during a rotation', () => {
  const rotated = async () => {
    const { id, key: old } = await app.createKey('alice');
    return { id, old, next: await rotate(app, id) };
  };

  test('the secret in force ends the key, and the next one with it, also if both are sent', async () => {
    for (const isOldAlone of [true, false]) {
      const { old, next } = await rotated();
      await revoke(app, ...(isOldAlone ? [old] : [next, old]));
      expect(await statuses(app, old, next)).toEqual([401, 401]);
    }
  });

  test('the next secret ends alone', async () => {
    const { id, old, next } = await rotated();
    await revoke(app, next);
    expect(await statuses(app, next, old)).toEqual([401, 200]);
    expect(await statuses(app, await rotate(app, id))).toEqual([200]);
  });

  test('the previous secret ends alone', async () => {
    const { id, old, next } = await rotated();
    expect(await statuses(app, next, old)).toEqual([200, 200]);
    await revoke(app, old);
    expect(await statuses(app, next, old)).toEqual([200, 401]);
    expect((await app.call('rotate_api_key', { keyId: id }, await bearer(app, 'alice'))).status).toBe(200);
  });

  test('a previous secret that has ended ends nothing more', async () => {
    await using app = await createTestApp();
    const { id, key: old } = await app.createKey('alice');
    const next = await rotate(app, id);
    expect(await statuses(app, next)).toEqual([200]);
    app.clock.advance(3_600_001);
    await revoke(app, old);
    expect(await statuses(app, next)).toEqual([200]);
    expect((await eventsIn(app)).at(-1)).toMatchObject({ kind: 'first_used' });
    expect((await app.log()).map(({ event }) => event)).not.toContain('API key revoked');
  });
});

test('a key of a blocked owner ends, and is not good again after the block', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  using db = openDatabase(databaseOf(app));
  await db.execute("INSERT INTO blocked_owners (owner) VALUES ('alice')");
  expect((await revoke(app, key)).status).toBe(200);
  await db.execute("DELETE FROM blocked_owners WHERE owner = 'alice'");
  app.clock.advance(1001);
  expect(await statuses(app, key)).toEqual([401]);
  expect(await app.logText()).toContain('API key revoked');
});

/** Requests with 100 unknown keys each, all at once. */
const flood = (app: TestApp, from: number, requests: number) =>
  Promise.all(
    Array.from({ length: requests }, (_, request) =>
      revoke(app, ...Array.from({ length: 100 }, (_, n) => unknown(from + 100 * request + n))),
    ),
  );

test('unknown keys take the budget of their address; what finds no place beyond it is 429, and nothing is done', async () => {
  await using app = await createTestApp({ env: COUNTED });
  expect(new Set((await flood(app, 0, 10)).map(({ status }) => status))).toEqual(new Set([200]));
  const before = await app.storeReads();
  const over = await flood(app, 2000, 20);
  expect((await app.storeReads()) - before).toBeLessThanOrEqual(4); // few statements, with 500 keys each
  const refused = over.filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(10);
  expect(refused[0]?.body.code).toBe('rate_limited');
  expect(refused[0]?.headers.get('retry-after')).toBe('1');
  const line = (await app.log()).find(({ event }) => event === 'Too many unknown keys');
  expect(line).toMatchObject({ level: 'warn', address: '127.0.0.1', suppressed: 0 });
  expect(refused.map(({ body }) => body.requestId)).toContain(line?.requestId);
});

test('from an address that floods, a key ends all the same', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  await flood(app, 0, 10);
  const [revoked] = await Promise.all([revoke(app, unknown(1), key), flood(app, 2000, 3)]);
  expect(revoked.status).toBe(200);
  app.clock.advance(1000);
  expect(await statuses(app, key)).toEqual([401]);
});

test('what the store does not confirm is 503, and can be sent again', async () => {
  await using sqld = await startPrimary();
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const { key } = await app.createKey('alice');
  await sqld.blockWrites(true);
  expect(await revoke(app, key)).toMatchObject({ status: 503, body: { code: 'store_unavailable' } });
  await sqld.blockWrites(false);
  expect((await revoke(app, key)).status).toBe(200);
  expect(await statuses(app, key)).toEqual([401]);
});

test('during an outage nothing is claimed of a text that may be a key of another form by now', async () => {
  await using app = await createTestApp();
  const foreign = 'key-of-another-system-0123456789';
  expect((await revoke(app, foreign)).status).toBe(200);
  await app.loseStore();
  expect((await revoke(app, foreign)).status).toBe(200); // for the bound the last poll counts
  app.clock.advance(1000);
  expect(await revoke(app, foreign)).toMatchObject({ status: 503, body: { code: 'store_unavailable' } });
  expect((await revoke(app, 'short')).status).toBe(200);
});

test('a revocation that arrives once more, late, does nothing', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  await using app = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }) });
  const { id, key: old } = await app.createKey('alice');
  const next = await rotate(app, id);
  const letThrough = proxy.holdUp('UPDATE api_keys SET active = NOT');
  expect((await revoke(app, next)).status).toBe(200);
  const another = await rotate(app, id);
  await letThrough();
  expect(await statuses(app, next, old, another, old)).toEqual([401, 200, 200, 200]);
});

test('the log says which key was ended, by possession, but no secret', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice');
  await revoke(app, key, UNKNOWN);
  const lines = (await app.log()).filter(({ event }) => event === 'API key revoked');
  expect(lines).toEqual([
    expect.objectContaining({
      keyId: id,
      userId: 'alice',
      fingerprint: fingerprint(key),
      possessed: 'in_force',
    }),
  ]);
  expect(await app.logText()).not.toContain(key);
});
