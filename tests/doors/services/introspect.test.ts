// POST /introspect, asked by services that accept this server's keys: RFC 7662, as their libraries speak it.

import { describe, expect, test } from 'bun:test';
import {
  allowInsecureRequests,
  ClientSecretBasic,
  ClientSecretPost,
  introspectionRequest,
  processIntrospectionResponse,
} from 'oauth4webapi';
import { sendOverSocket } from '../../support/http-socket.ts';
import { labelled } from '../../support/labels.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import {
  bearer,
  createTestApp,
  NO_CONNECTION,
  readResponse,
  sharedApp,
  type TestApp,
  type TestResponse,
} from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const UNKNOWN = `sk_test_${'0'.repeat(64)}`;
const INACTIVE = { active: false };

const app = await sharedApp({ env: { PUBLIC_URL: 'https://keys.example' } });
const service = await app.createKey('operator', { scopes: ['introspect'] });
const scopeless = await app.createKey('operator', { scopes: ['introspection', 'INTROSPECT'] });
const { key, id } = await app.createKey('alice', { name: 'ci', scopes: ['read', 'write'], expiresInDays: 1.00001 });
const asUser = await bearer(app, 'operator');

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const basic = (user: string, secret: string) => ({ authorization: `Basic ${btoa(`${user}:${secret}`)}` });
const own: Record<string, string> = basic(service.id, service.key);

const send = async (body: string, headers: Record<string, string> = own, of = app): Promise<TestResponse> =>
  readResponse(await fetch(`${of.url}/introspect`, { method: 'POST', headers: { ...FORM, ...headers }, body }));
const ask = (token: string, headers?: Record<string, string>, of?: TestApp) =>
  send(new URLSearchParams({ token }).toString(), headers, of);

function expectError({ status, headers, body }: TestResponse, expected: number, error: string) {
  expect({ status, body }).toEqual({ status: expected, body: { error } });
  expect(headers.get('cache-control')).toBe('no-store');
  expect(headers.get('content-type')).toBe('application/json');
}

describe('a good key', () => {
  test('a good key is active, with its owner, scopes, expiry and id', async () => {
    const { status, headers, body } = await ask(key);
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    const iat = Math.floor(app.clock.nowMs() / 1000);
    expect(body).toEqual({
      active: true,
      scope: 'read write',
      client_id: id,
      sub: 'alice',
      token_type: 'api_key',
      exp: iat + 86_400, // 864 ms more, which are cut off
      iat,
      iss: 'https://keys.example',
      jti: id,
      key_name: 'ci',
      limit: 1000,
      remaining: 1000,
      reset: 3600,
    });
  });

  test('a key without expiry and scopes has no exp and an empty scope', async () => {
    const made = await app.createKey('bob', { scopes: [] });
    const { body } = await ask(made.key);
    expect(body).toMatchObject({ active: true, scope: '', sub: 'bob' });
    expect(body).not.toHaveProperty('exp');
  });

  test('has its use noted and its limit untouched, as has the caller', async () => {
    await using fresh = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '2' } });
    const caller = await fresh.createKey('operator', { scopes: ['introspect'] });
    const made = await fresh.createKey('alice');
    for (let calls = 0; calls < 5; calls += 1) {
      expect((await ask(made.key, { 'x-api-key': caller.key }, fresh)).body.active).toBe(true);
    }
    const used = await fresh.call('list_api_keys', {}, await bearer(fresh, 'alice'));
    expect(used.body.keys[0].lastUsedAt).toBe(fresh.clock.nowMs());
    const usedByCaller = await fresh.call('list_api_keys', {}, await bearer(fresh, 'operator'));
    expect(usedByCaller.body.keys[0].lastUsedAt).toBe(fresh.clock.nowMs());
    for (const one of [made.key, caller.key]) {
      const { headers } = await readResponse(await fetch(`${fresh.url}/verify`, { headers: { 'x-api-key': one } }));
      expect(headers.get('ratelimit')).toStartWith('"key";r=1;t='); // windows are aligned to the clock
    }
  });

  describe('what is left of its limit or quota', () => {
    const limitOf = ({ body }: TestResponse) => {
      const { limit, remaining, reset } = body;
      return { limit, remaining, reset };
    };

    test('is said of a fresh key, of one in use, of one that is over it, and of one whose window is new', async () => {
      await using fresh = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '2', RATE_LIMIT_WINDOW: '1m' } });
      const caller = await fresh.createKey('operator', { scopes: ['introspect'] });
      const made = await fresh.createKey('alice');
      const left = async () => limitOf(await ask(made.key, { 'x-api-key': caller.key }, fresh));
      const reset = 60 - (Math.floor(fresh.clock.nowMs() / 1000) % 60);
      expect(await left()).toEqual({ limit: 2, remaining: 2, reset });
      const { headers } = await fresh.useKey(made.key);
      expect(headers.get('ratelimit')).toBe(`"key";r=1;t=${reset}`);
      expect(await left()).toEqual({ limit: 2, remaining: 1, reset });
      for (const status of [200, 429, 429]) expect((await fresh.useKey(made.key)).status).toBe(status);
      expect(await left()).toEqual({ limit: 2, remaining: 0, reset });
      expect((await ask(made.key, { 'x-api-key': caller.key }, fresh)).body.active).toBe(true);
      fresh.clock.advance(reset * 1000);
      expect(await left()).toMatchObject({ limit: 2, remaining: 2 });
    });

    test('is of the one with the least left, if it has both', async () => {
      const made = await app.createKey('alice', {
        rateLimit: { requests: 3, window: '1m' },
        quota: { requests: 4, period: 'day' },
      });
      expect(limitOf(await ask(made.key))).toMatchObject({ limit: 3, remaining: 3 });
      await app.useKey(made.key);
      await app.useKey(made.key);
      app.clock.advance(60_000);
      const { reset, ...quota } = limitOf(await ask(made.key));
      expect(quota).toEqual({ limit: 4, remaining: 2 });
      expect(reset).toBeGreaterThan(60);
    });

    test('is of the one that ends later, if as much is left of both', async () => {
      const made = await app.createKey('alice', {
        rateLimit: { requests: 3, window: '1m' },
        quota: { requests: 3, period: 'day' },
      });
      expect(limitOf(await ask(made.key)).reset).toBeGreaterThan(60);
    });

    test('is not said of a key that has neither', async () => {
      await using fresh = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
      const caller = await fresh.createKey('operator', { scopes: ['introspect'] });
      const made = await fresh.createKey('alice');
      await fresh.useKey(made.key);
      const { body } = await ask(made.key, { 'x-api-key': caller.key }, fresh);
      for (const member of ['limit', 'remaining', 'reset']) expect(body).not.toHaveProperty(member);
    });
  });

  test.each(labelled(['quotes " and \' \\', '100% %41', '😀'.repeat(200), '\u00e4\u2028']))(
    '%s is its name, exactly',
    async (_label, name) => {
      const made = await app.createKey(`owner ${name}`, { name });
      expect((await ask(made.key)).body).toMatchObject({ sub: `owner ${name}`, key_name: name });
    },
  );
});

// Revoked and deleted ones are in ../../security/authorization.test.ts.
test('unknown, malformed, foreign, expired; a user token; NUL: inactive, and nothing more is said', async () => {
  await using other = await createTestApp();
  const foreign = await other.createKey('alice');
  const expired = await app.createKey('alice', { expiresInDays: 0.001 });
  app.clock.advance(86_401);
  const tokens = [UNKNOWN, 'x', foreign.key, expired.key, await app.token('alice'), '\0', `${key}\0`, ` ${key}`];
  for (const token of tokens) expect(await ask(token)).toMatchObject({ status: 200, body: INACTIVE });
  expect(await send('token=%ff%fe')).toMatchObject({ status: 400, body: { error: 'invalid_request' } });
  expect((await send(`token=${'x'.repeat(1_000_000)}`)).body).toEqual(INACTIVE);
  const logged = await app.logText();
  for (const token of [UNKNOWN, foreign.key]) expect(logged).not.toContain(token);
});

describe('who asks', () => {
  test.each<[string, Record<string, string>, string]>([
    ['Basic', own, ''],
    ['Basic, percent-encoded', basic(service.id, service.key.replaceAll('_', '%5F')), ''],
    ['Bearer', { authorization: `Bearer ${service.key}` }, ''],
    ['X-API-Key', { 'x-api-key': service.key }, ''],
    ['the form', {}, `&client_id=${service.id}&client_secret=${service.key}`],
    ['Basic, whatever the form says', own, '&client_id=x&client_secret=y'],
    ['X-API-Key, whatever Basic says', { ...basic('x', 'y'), 'x-api-key': service.key }, ''],
    ['Basic, with the id in the form too', own, `&client_id=${service.id}`],
  ])('%s', async (_, headers, more) => {
    const response = await send(`token=${key}${more}`, headers);
    expect(response.body).toMatchObject({ active: true });
  });

  test.each<[string, Record<string, string>, string]>([
    ['nobody', {}, ''],
    ['another id', basic(id, service.key), ''],
    ['no id', basic('', service.key), ''],
    ['a wrong key', basic(service.id, UNKNOWN), ''],
    ['an empty secret', basic(service.id, ''), ''],
    ['Basic that is no base64', { authorization: 'Basic ~~~' }, ''],
    ['Basic with broken percent-encoding', basic(service.id, '%zz'), ''],
    ['Basic without a colon', { authorization: `Basic ${btoa(service.key)}` }, ''],
    ['a wrong key in X-API-Key, before a good one', { ...own, 'x-api-key': UNKNOWN }, ''],
    ['the form, with another id', {}, `&client_id=${id}&client_secret=${service.key}`],
    ['the form, without an id', {}, `&client_secret=${service.key}`],
    ['an id alone', {}, `&client_id=${service.id}`],
    ['a user', asUser, ''],
  ])('%s: 401', async (_, headers, more) => {
    const response = await send(`token=${key}${more}`, headers);
    expectError(response, 401, 'invalid_client');
    expect(response.headers.get('www-authenticate')).toStartWith('Basic realm=');
  });

  test('a key without the scope: 403', async () => {
    const response = await ask(key, basic(scopeless.id, scopeless.key));
    expectError(response, 403, 'insufficient_scope');
    expect(response.headers.get('www-authenticate')).toContain('scope="introspect"');
  });

  test('another id is logged with the reason', async () => {
    await ask(key, basic(id, service.key));
    expect(await app.log()).toContainEqual(
      expect.objectContaining({ event: 'Invalid or expired API key', reason: 'other_client_id', keyId: service.id }),
    );
  });
});

describe('bad requests', () => {
  test.each([
    ['nothing', ''],
    ['no token', 'token_type_hint=access_token'],
    ['an empty one', 'token='],
    ['two', 'token=a&token=b'],
    ['two of the same', 'token=a&token=a'],
    ['two client ids', 'token=a&client_id=a&client_id=b'],
    ['two secrets', 'token=a&client_secret=a&client_secret=b'],
  ])('%s: 400', async (_, body) => {
    expectError(await send(body), 400, 'invalid_request');
  });

  test.each(['', 'token=a&token=b'])('a caller without a key gets 401, whatever else is wrong: "%s"', async (body) => {
    expectError(await send(body, basic(service.id, UNKNOWN)), 401, 'invalid_client');
    expectError(await send(body, basic(scopeless.id, scopeless.key)), 403, 'insufficient_scope');
  });

  test('hints and fields that nobody knows are ignored, however often they come', async () => {
    const { body } = await send(`token_type_hint=x&token=${key}&token_type_hint=y&resource=z&resource=z`);
    expect(body.active).toBe(true);
  });

  test.each([
    'application/json',
    'multipart/form-data; boundary=x',
    'text/plain',
    `${FORM['content-type']}; charset=latin1`,
  ])('%s: 415', async (type) => {
    expectError(await send(JSON.stringify({ token: key }), { ...own, 'content-type': type }), 415, 'invalid_request');
  });

  test('a charset of UTF-8 is taken, and a body in chunks', async () => {
    const charset = { ...own, 'content-type': `${FORM['content-type']}; charset=UTF-8` };
    expect((await send(`token=${key}`, charset)).body.active).toBe(true);
    const body = `token=${key}`;
    const head = `POST /introspect HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${FORM['content-type']}\r\nAuthorization: ${own.authorization}\r\n`;
    const chunked = await sendOverSocket(
      app.url,
      `${head}Transfer-Encoding: chunked\r\n\r\n5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`,
    );
    expect(JSON.parse(chunked.body).active).toBe(true);
  });

  test('1 MiB is read, a byte more is 413', async () => {
    const padded = (bytes: number) => `token=${key}&x=`.padEnd(bytes, 'x');
    expect((await send(padded(1024 * 1024))).body.active).toBe(true);
    expectError(await send(padded(1024 * 1024 + 1)), 413, 'invalid_request');
  });

  test('other methods are 405, a foreign origin and host 403', async () => {
    const got = await readResponse(await fetch(`${app.url}/introspect`));
    expect(got).toMatchObject({ status: 405, body: { error: 'invalid_request' } });
    expect(got.headers.get('allow')).toBe('POST');
    expectError(await ask(key, { ...own, origin: 'https://evil.example' }), 403, 'origin_denied');
  });
});

describe('unknown tokens', () => {
  test('use up the budget of the calling key, and no other', async () => {
    await using fresh = await createTestApp({ env: { LOG_LEVEL: 'warn' } });
    const [one, two] = await Promise.all([1, 2].map(() => fresh.createKey('operator', { scopes: ['introspect'] })));
    const caller = (of: typeof one) => ({ 'x-api-key': of?.key ?? '' });
    const never = (n: number) => `sk_test_${n.toString(16).padStart(64, '0')}`;
    async function spend(tokens: number): Promise<void> {
      for (let from = 0; from < tokens; from += 10) {
        const asked = Array.from({ length: 10 }, (_, n) => ask(never(from + n), caller(one), fresh));
        for (const { body } of await Promise.all(asked)) expect(body).toEqual(INACTIVE);
      }
    }
    let asked = 5000;
    /** Returns how many ms another unknown token takes. */
    async function timeOf(of: typeof one): Promise<number> {
      const beganMs = performance.now();
      expect((await ask(never(asked), caller(of), fresh)).body).toEqual(INACTIVE);
      asked += 1;
      return performance.now() - beganMs;
    }
    await spend(1000);
    const pauseMs = 25; // after each statement for a source beyond its budget
    let together = 0;
    for (let n = 0; n < 10; n += 1) together += await timeOf(one);
    expect(together).toBeGreaterThan(8 * pauseMs);
    await waitFor(async () => (await timeOf(two)) < pauseMs / 2); // on a busy machine not at once; with pauses never
    expect((await fresh.useKey(never(1_000_000))).status).toBe(401); // the address has its own
    const made = await fresh.createKey('alice');
    expect((await fresh.useKey(made.key)).status).toBe(200);
    expect((await ask(made.key, caller(one), fresh)).body.active).toBe(true); // known here
  });
});

test('a caller who is not looked up in a flood is told to slow down, and of no limit of the key in question', async () => {
  await using slow = await startSlowStore();
  await using fresh = await createTestApp({
    store: slow.store,
    env: { REVOCATION_LAG_MAX_MS: '60000', LOG_LEVEL: 'error' }, // the read may take as long as it is held up
  });
  const callers = await Promise.all(
    Array.from({ length: 5 }, () => fresh.createKey('operator', { scopes: ['introspect'] })),
  );
  // From one address, and more at once than a client has connections.
  const post = async (path: string, headers: Record<string, string>, body: string) =>
    readResponse(
      await fresh.handler.fetch(new Request(fresh.url + path, { method: 'POST', headers, body }), NO_CONNECTION),
    );
  expect((await ask(UNKNOWN, { 'x-api-key': callers[0]?.key ?? '' }, fresh)).body).toEqual(INACTIVE); // the door is open
  const guess = (n: number) => post('/verify', { 'x-api-key': `sk_test_${n.toString(16).padStart(64, '0')}` }, '');
  const read = slow.delayResponseTo('presented_hash');
  const flood = [guess(1)];
  await read.made; // all others wait for it, 500 of them beyond the budget
  flood.push(...Array.from({ length: 4000 }, (_, n) => guess(2 + n)));
  const asked = callers.map(({ key }) => post('/introspect', { ...FORM, 'x-api-key': key }, `token=${UNKNOWN}&lease=`));
  const first = await Promise.race(asked);
  read.release();
  await Promise.all([...flood, ...asked]);
  expectError(first, 429, 'slow_down');
});

describe('when it can’t be told', () => {
  test('a store that is away: 503, for the caller and for the token', async () => {
    await using other = await createTestApp({ store: 'embedded' });
    const caller = await other.createKey('operator', { scopes: ['introspect'] });
    await ask(UNKNOWN, { 'x-api-key': caller.key }, other);
    await other.loseStore();
    other.clock.advance(1000);
    const response = await ask(UNKNOWN, { 'x-api-key': caller.key }, other);
    expectError(response, 503, 'temporarily_unavailable');
    expect(response.headers.get('retry-after')).toBe('1');
  });

  test.each([
    ['the token', 'alice', 200, INACTIVE],
    ['the caller', 'operator', 401, { error: 'invalid_client' }],
  ] as const)('a late response, and %s was revoked elsewhere', async (_, owner, status, body) => {
    const LAG_MAX_MS = 60_000;
    await using slow = await startSlowStore();
    await using late = await createTestApp({ store: slow.store, env: { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) } });
    const caller = await late.createKey('operator', { scopes: ['introspect'] });
    const made = await late.createKey('alice');
    const read = slow.delayReadOf(made.key);
    const response = ask(made.key, { 'x-api-key': caller.key }, late);
    await read.made;
    await slow.revoke(owner);
    late.clock.sleep(LAG_MAX_MS);
    read.release();
    const ended = await response;
    expect({ status: ended.status, body: ended.body }).toEqual({ status, body });
  });
});

test.each([
  ['ClientSecretBasic', ClientSecretBasic],
  ['ClientSecretPost', ClientSecretPost],
])('oauth4webapi with %s', async (_, auth) => {
  const client = { client_id: service.id };
  const server = { issuer: 'https://keys.example', introspection_endpoint: `${app.url}/introspect` };
  const asked = async (secret: string, token: string) => {
    const insecure = { [allowInsecureRequests]: true };
    const response = await introspectionRequest(server, client, auth(secret), token, insecure);
    return processIntrospectionResponse(server, client, response);
  };
  expect(await asked(service.key, key)).toMatchObject({ active: true, sub: 'alice', client_id: id });
  expect(await asked(service.key, UNKNOWN)).toEqual(INACTIVE);
  expect(await asked(UNKNOWN, key).catch((error) => error)).toMatchObject({ status: 401 });
});
