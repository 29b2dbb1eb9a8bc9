// A program without a browser asks for a key, a person decides, the program gets it (RFC 8628).

import { describe, expect, test } from 'bun:test';
import { planOfCounting, storedCodes } from '../../store/stored.ts';
import { EXCHANGE, JWT_BEARER } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { testClock } from '../../support/clock.ts';
import { databaseOf, openDatabase } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { codeFor, register } from '../../support/hand-over.ts';
import {
  type Answer,
  askForKey as ask,
  askAsPerson,
  postForm as form,
  DEVICE_GRANT as GRANT,
  pollForKey as poll,
} from '../../support/key-request.ts';
import { refusal } from '../../support/refusal.ts';
import { type StoreMode, startStore } from '../../support/store-mode.ts';
import {
  bearer,
  createTestApp,
  eventsIn,
  failureOf,
  listedKeys,
  readResponse,
  sharedApp,
  type TestApp,
} from '../../support/test-app.ts';

/** Open requests of one network. */
const OPEN_MAX = 10;

const ENV = { OAUTH_DEVICE: '1' };
const DECIDED = { approve: true, name: 'build agent', scopes: ['read'], expiresInDays: 30 };

const person = async (app: TestApp, path: 'request' | 'decision', body: object, sub = 'alice'): Promise<Answer> =>
  askAsPerson(app, path, body, await bearer(app, sub));

test('a code is read without what is no letter of it, as a person may type or paste it', async () => {
  await using app = await createTestApp({ env: ENV });
  const { user_code: userCode } = (await ask(app)).body;
  const typed = ['', ' ', '–', '\u2011', '_'].map((between) => `“${userCode.replace('-', between)}.”`);
  for (const code of [...typed, ...typed.map((text) => text.toLowerCase())]) {
    expect((await person(app, 'request', { userCode: code })).status).toBe(200);
  }
  expect((await person(app, 'request', { userCode: `A${userCode}` })).status).toBe(404);
});

test('a program asks, a person sees what it says and decides, and the program gets a key, once', async () => {
  await using app = await createTestApp({ env: ENV });
  const asked = await ask(app, { client_name: 'ci "runner"', scope: 'read write', client_id: 'ignored' });
  expect([asked.status, asked.headers.get('cache-control')]).toEqual([200, 'no-store']);
  const { device_code: deviceCode, user_code: userCode } = asked.body;
  expect(asked.body).toEqual({
    device_code: expect.stringMatching(/^[\w-]{43}$/),
    user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
    verification_uri: `${app.url}/keys`,
    verification_uri_complete: `${app.url}/keys#ask=${userCode}`,
    expires_in: 600,
    interval: 5,
  });
  expect((await poll(app, deviceCode)).body).toEqual(refusal('authorization_pending'));

  const shown = await person(app, 'request', { userCode: userCode.replace('-', '').toLowerCase() });
  expect([shown.status, shown.headers.get('cache-control')]).toEqual([200, 'no-store']);
  expect(shown.body).toEqual({
    clientName: 'ci "runner"',
    address: '127.0.0.1',
    askedAt: app.clock.nowMs(),
    expiresAt: app.clock.nowMs() + 600_000,
    resource: app.url,
    scopes: ['read', 'write'],
  });
  const limits = { rateLimit: { requests: 10, window: '1h' }, quota: { requests: 100, period: 'day' } };
  const decided = await person(app, 'decision', { userCode, ...DECIDED, ...limits });
  expect([decided.status, decided.body]).toEqual([200, { approved: true }]);
  expect(await listedKeys(app, 'alice')).toEqual([]);

  app.clock.advance(5000);
  const { status, headers, body } = await poll(app, deviceCode);
  const { access_token: key, key_id: keyId } = body;
  expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
  expect(body).toEqual({
    access_token: key,
    token_type: 'Bearer',
    scope: 'read',
    expires_in: 30 * 86_400,
    key_id: keyId,
  });
  expect(await listedKeys(app, 'alice')).toMatchObject([
    { id: keyId, name: 'build agent', resource: app.url, ...limits },
  ]);
  expect((await app.useKey(key)).status).toBe(200);
  expect((await poll(app, deviceCode)).body).toEqual(refusal('invalid_grant'));

  expect(await eventsIn(app)).toMatchObject([
    { keyId, owner: 'alice', kind: 'created', how: 'device', actor: 'alice' },
  ]);
  const events = (await app.log()).map(({ event }) => event);
  for (const event of ['API key requested', 'API key request decided', 'API key created'])
    expect(events).toContain(event);
  for (const secret of [key, deviceCode, userCode, userCode.replace('-', '')])
    expect(await app.logText()).not.toContain(secret);
});

test('what is refused is no key, and a decision can’t be taken back or made twice', async () => {
  await using app = await createTestApp({ env: ENV });
  const { device_code: deviceCode, user_code: userCode } = (await ask(app)).body;
  expect((await person(app, 'decision', { userCode, approve: false })).body).toEqual({ approved: false });
  expect((await poll(app, deviceCode)).body).toEqual(refusal('access_denied'));
  for (const body of [{ userCode }, { userCode, ...DECIDED }, { userCode: '😀'.repeat(51) }]) {
    const path = 'approve' in body ? 'decision' : 'request';
    expect((await person(app, path, body)).body).toMatchObject({ status: 404, code: 'request_not_found' });
  }
  expect(await listedKeys(app, 'alice')).toEqual([]);
});

test('of persons who decide at once, with the same words or others, one is told so, and named in the log', async () => {
  await using app = await createTestApp({ env: ENV });
  const { device_code: deviceCode, user_code: userCode } = (await ask(app)).body;
  const subs = ['alice', 'bob', 'carol', 'dan'];
  const decided = await Promise.all(
    subs.map((sub, at) => person(app, 'decision', { userCode, ...(at < 3 ? { approve: false } : DECIDED) }, sub)),
  );
  const winners = subs.filter((_, at) => decided[at]?.status === 200);
  expect(decided.map(({ status }) => status).sort()).toEqual([200, 404, 404, 404]);
  expect((await poll(app, deviceCode)).status).toBe(winners.includes('dan') ? 200 : 400);
  const lines = (await app.log()).filter(({ event }) => event === 'API key request decided');
  expect(lines.map(({ userId }) => userId)).toEqual(winners);
});

test('who asks sooner than told is told to slow down, by five seconds each time', async () => {
  await using app = await createTestApp({ env: ENV });
  const { device_code: deviceCode } = (await ask(app)).body;
  const after = async (ms: number) => {
    app.clock.advance(ms);
    return (await poll(app, deviceCode)).body.error;
  };
  expect(await after(0)).toBe('authorization_pending');
  expect(await after(4999)).toBe('slow_down');
  expect(await after(9999)).toBe('slow_down');
  expect(await after(14_999)).toBe('slow_down');
  expect(await after(20_000)).toBe('authorization_pending');
  expect(await after(19_999)).toBe('slow_down');
});

test('after ten minutes it has ended, decided or not', async () => {
  await using app = await createTestApp({ env: ENV });
  const [first, second] = [(await ask(app)).body, (await ask(app)).body];
  await person(app, 'decision', { userCode: second.user_code, ...DECIDED });
  app.clock.advance(600_000);
  expect((await person(app, 'request', { userCode: first.user_code })).status).toBe(404);
  expect((await person(app, 'decision', { userCode: first.user_code, ...DECIDED })).status).toBe(404);
  for (const { device_code: deviceCode } of [first, second]) {
    expect((await poll(app, deviceCode)).body).toEqual(refusal('expired_token'));
  }
  expect(await listedKeys(app, 'alice')).toEqual([]);
});

test('a clock that is set back makes no request last longer, and one that was ahead keeps nobody from asking', async () => {
  await using app = await createTestApp({ env: ENV });
  const decided = (await ask(app)).body;
  await person(app, 'decision', { userCode: decided.user_code, ...DECIDED });
  const open = await Promise.all(Array.from({ length: OPEN_MAX }, () => ask(app)));
  const asked = open[0]?.body;
  expect((await ask(app)).status).toBe(429);
  const begunAtMs = app.clock.nowMs();
  app.clock.setNow(begunAtMs - 60_000); // within what clocks of processes differ by
  expect((await person(app, 'request', { userCode: asked.user_code })).status).toBe(200);
  app.clock.setNow(begunAtMs - 86_400_000);
  expect((await person(app, 'request', { userCode: asked.user_code })).status).toBe(404);
  expect((await person(app, 'decision', { userCode: asked.user_code, ...DECIDED })).status).toBe(404);
  for (const { device_code: deviceCode } of [decided, asked]) {
    expect((await poll(app, deviceCode)).body).toEqual(refusal('expired_token'));
  }
  expect(await listedKeys(app, 'alice')).toEqual([]);
  app.clock.advance(1000); // for so long "full" is remembered
  expect((await ask(app)).status).toBe(200);
});

describe('what a program may say', async () => {
  const app = await sharedApp({ env: { ...ENV, TRUST_PROXY: '1' } });

  test('150 emoji are a name, and scopes that are none are left out', async () => {
    const name = '🔑'.repeat(150);
    const headers = { 'x-forwarded-for': '192.0.2.9' };
    const { user_code: userCode } = (await ask(app, { client_name: name, scope: 'read "x" read <b>' }, headers)).body;
    const { body } = await person(app, 'request', { userCode });
    expect(body).toMatchObject({ clientName: name, scopes: ['read', '<b>'], address: '192.0.2.9' });
  });

  test('of the scopes it would like, as many are kept as a key may have', async () => {
    const asked = Array.from({ length: 200 }, (_, at) => `${at}`.padStart(100, 's'));
    const headers = { 'x-forwarded-for': '192.0.2.10' };
    const scopesOf = async (scope: string) => {
      const { user_code: userCode } = (await ask(app, { scope }, headers)).body;
      return (await person(app, 'request', { userCode })).body.scopes;
    };
    expect(await scopesOf(asked.join(' '))).toEqual(asked.slice(0, 20));
    expect(await scopesOf(asked.map((scope) => scope.slice(-3)).join(' '))).toHaveLength(100);
  });

  test('a name of 201 characters, and another type of body, are refused', async () => {
    const long = await ask(app, { client_name: 'x'.repeat(201) });
    expect(long).toMatchObject({ status: 400, body: refusal('invalid_request') });
    expect((await postJson(`${app.url}/device_authorization`, {})).status).toBe(415);
  });

  test('ten requests of an address are open at once; then it has to wait, and others don’t', async () => {
    const from = (address: string) => ask(app, {}, { 'x-forwarded-for': address });
    const open = await Promise.all(Array.from({ length: OPEN_MAX }, () => from('192.0.2.1')));
    expect(new Set(open.map(({ status }) => status))).toEqual(new Set([200]));
    const refused = await from('192.0.2.1');
    expect([refused.status, refused.body, refused.headers.get('retry-after')]).toEqual([
      429,
      refusal('rate_limited'),
      '60',
    ]);
    expect((await from('192.0.2.2')).status).toBe(200);
    await person(app, 'decision', { userCode: open[0]?.body.user_code, approve: false });
    expect((await from('192.0.2.1')).status).toBe(429); // "full" is remembered for a second
    app.clock.advance(1000);
    expect((await from('192.0.2.1')).status).toBe(200);
    expect((await from('192.0.2.1')).status).toBe(429);
    app.clock.advance(600_000);
    expect((await from('192.0.2.1')).status).toBe(200);
  });

  test.each([
    ['an IPv4 /24', (i: number) => `203.0.113.${i}`, '203.0.112.1'],
    ['an IPv6 /48', (i: number) => `2001:db8:a:${i}::1`, '2001:db8:b::1'],
  ])('a hundred of %s are open at once; its other addresses wait, and other networks don’t', async (_, at, other) => {
    const from = (address: string) => ask(app, {}, { 'x-forwarded-for': address });
    for (let address = 1; address <= 10; address += 1) {
      const open = await Promise.all(Array.from({ length: OPEN_MAX }, () => from(at(address))));
      expect(new Set(open.map(({ status }) => status))).toEqual(new Set([200]));
    }
    expect((await from(at(11))).status).toBe(429);
    expect((await from(other)).status).toBe(200);
    app.clock.advance(600_000);
    expect((await from(at(11))).status).toBe(200);
  });
});

describe('/token', async () => {
  const app = await sharedApp({ env: { ...ENV, OAUTH_REDIRECTS: 'loopback' } });

  test('the code of one kind is none of the other, at any time of its life', async () => {
    const client = await register(app);
    const { device_code: deviceCode, user_code: userCode } = (await ask(app)).body;
    const invalid = { status: 400, body: refusal('invalid_grant') };
    expect(await client.redeem(deviceCode)).toEqual(invalid);
    app.clock.advance(9 * 60_000 + 1); // it ends when a client's code would
    expect(await client.redeem(deviceCode)).toEqual(invalid);
    await person(app, 'decision', { userCode, ...DECIDED });
    expect(await client.redeem(deviceCode)).toEqual(invalid);
    const code = await codeFor(client, (await app.createKey('alice')).key);
    expect(await poll(app, code)).toMatchObject(invalid);
    expect([(await client.redeem(code)).status, (await poll(app, deviceCode)).status]).toEqual([200, 200]);
  });
});

describe('the person', () => {
  test('is wrong ten times in ten minutes at most, others’ guesses cost him nothing, and hundreds find nothing', async () => {
    await using app = await createTestApp({ env: ENV });
    const { user_code: userCode } = (await ask(app)).body;
    const guess = (sub: string) => person(app, 'request', { userCode: 'BBBB-BBBB' }, sub);
    for (let times = 0; times < 10; times += 1) expect((await guess('mallory')).status).toBe(404);
    const refused = await guess('mallory');
    expect([refused.status, refused.body.code, Number(refused.headers.get('retry-after')) > 0]).toEqual([
      429,
      'rate_limited',
      true,
    ]);
    expect((await person(app, 'decision', { userCode, ...DECIDED }, 'mallory')).status).toBe(429);
    for (let times = 0; times < 200; times += 1) expect((await guess('mallory')).status).toBe(429);
    for (let times = 0; times < 30; times += 1) expect((await person(app, 'request', { userCode })).status).toBe(200);
  });

  test('may be wrong again ten minutes after each wrong code', async () => {
    await using app = await createTestApp({ env: ENV });
    const { user_code: userCode } = (await ask(app)).body;
    const guess = (code: string) => person(app, 'request', { userCode: code });
    for (let times = 0; times < 9; times += 1) expect((await guess('BBBB-BBBB')).status).toBe(404);
    app.clock.advance(300_000);
    expect((await guess('BBBB-BBBB')).status).toBe(404);
    const refused = await guess(userCode);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '300']);
    app.clock.advance(299_999);
    expect((await guess(userCode)).status).toBe(429);
    app.clock.advance(1);
    for (let times = 0; times < 9; times += 1) expect((await guess('BBBB-BBBB')).status).toBe(404);
    expect((await guess('BBBB-BBBB')).status).toBe(429);
  });

  test.each<['request' | 'decision', object, string]>([
    ['request', { userCode: 1 }, 'userCode'],
    ['request', {}, 'userCode'],
    ['decision', { userCode: 'BBBB-BBBB' }, 'approve'],
    ['decision', { userCode: 'BBBB-BBBB', approve: true }, 'name'],
    ['decision', { userCode: 'BBBB-BBBB', ...DECIDED, scopes: ['x'] }, 'scopes.0'],
    ['decision', { userCode: 'BBBB-BBBB', ...DECIDED, resource: 'https://evil.example' }, ''],
  ])('sends something else to /device/%s (%#)', async (path, body, at) => {
    await using app = await createTestApp({ env: { ...ENV, KEY_SCOPES: 'read' } });
    const { user_code: userCode } = (await ask(app)).body;
    const sent = 'userCode' in body && body.userCode !== 1 ? { ...body, userCode } : body;
    const answer = await person(app, path, sent);
    expect([answer.status, answer.body.code, answer.body.issues?.[0].path]).toEqual([400, 'invalid_input', at]);
  });

  test('needs a user token: an API key approves nothing, and no tool does', async () => {
    await using app = await createTestApp({ env: ENV });
    const { key } = await app.createKey('alice');
    for (const path of ['request', 'decision']) {
      const keySent = 'This tool needs a user token; an API key was sent';
      for (const [headers, code, detail] of [
        [{}, 'missing_token', 'No user token provided'],
        [{ authorization: `Bearer ${key}` }, 'invalid_token', keySent],
        [{ 'x-api-key': key }, 'missing_token', keySent],
      ] as const) {
        const answer = await readResponse(await postJson(`${app.url}/device/${path}`, {}, headers));
        expect(answer).toMatchObject({ status: 401, body: { code, detail } });
      }
    }
    const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as { paths: object };
    expect(Object.keys(paths).filter((path) => /device|request|decision/.test(path))).toEqual([]);
  });
});

describe('ten thousand open requests', () => {
  const OF_ONE_SLASH_32 = "format('2001:db8:%x:0::/64', i / 10)";

  /** Two processes on a database with 10,000 open requests, the oldest first, the i-th `from` there. */
  async function filled(mode: StoreMode, from: string) {
    const stack = new AsyncDisposableStack();
    const store = stack.use(await startStore(mode));
    const url = store.env().DATABASE_URL ?? '';
    const clock = testClock();
    const serve = async () => stack.use(await createTestApp({ env: { ...ENV, TRUST_PROXY: '1' }, store, clock }));
    const apps = [await serve(), await serve()] as const;
    const shell = stack.adopt(openDatabase(url), (database) => database.close());
    await shell.execute({
      sql: `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
INSERT INTO codes (hash, ends_at_ms, content, user_code_hash, asked_from)
SELECT 'h' || i, ? + i, '{}', 'u' || i, ${from} FROM n`,
      args: [clock.nowMs() + 300_000],
    });
    let asked = 0;
    return {
      shell,
      clock,
      app: apps[0],
      from: (address: string) => ask(apps[asked++ % 2 === 0 ? 0 : 1], {}, { 'x-forwarded-for': address }),
      open: async () => (await storedCodes(url)).filter(({ asked_from: from }) => from !== null),
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  }

  const FULL: readonly [string, StoreMode, string, string][] = [
    ['ten of each of 1,000 /48 of one /32', 'embedded', OF_ONE_SLASH_32, '192.0.2.1'],
    ['the same, for another /48 of it', 'embedded', OF_ONE_SLASH_32, '2001:db8:ffff::1'],
    ['one of each of 10,000 /48 of one /32', 'embedded', "format('2001:db8:%x:0::/64', i)", '192.0.2.1'],
    ['a hundred of each of 100 /24', 'embedded', "format('10.0.%d.%d', i / 100, i % 10)", '10.0.200.1'],
    ['ten of each of 1,000 addresses of four /16', 'embedded', "format('10.%d.%d.1', i % 4, i / 40)", '2001:db8::1'],
    ['ten of each of 1,000 /48 of one /32, at a remote database,', 'remote', OF_ONE_SLASH_32, '192.0.2.1'],
  ];
  test.each(rows(FULL, FULL.length - 1))(
    '%s make room: the oldest end, those of other networks don’t',
    async (_, mode, network, other) => {
      await using place = await filled(mode, network);
      const { app, from, shell } = place;
      await shell.execute("DELETE FROM codes WHERE hash = 'h9999'");
      const quiet = (await from('198.51.100.1')).body;
      const statuses = await Promise.all(Array.from({ length: OPEN_MAX }, () => from(other)));
      expect(statuses.map(({ status }) => status)).toEqual(Array(OPEN_MAX).fill(200));
      expect((await from(other)).status).toBe(429);
      const open = (await place.open()).map(({ hash }) => hash);
      expect([open.length, open.includes('h0'), open.includes('h9998')]).toEqual([9750 + OPEN_MAX, false, true]);
      expect((await person(app, 'request', { userCode: quiet.user_code })).status).toBe(200);
    },
  );

  test('the network that holds most gets 429 for a second, without a statement, as its oldest end', async () => {
    await using place = await filled('embedded', "format('10.%d.0.%d', iif(i < 99, 200, i / 50), i % 40)");
    const { app } = place;
    const most = { 'x-forwarded-for': '10.200.0.200' };
    const refused = [await ask(app, {}, most), await ask(app, {}, most)];
    expect(refused.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual([
      [429, '60'],
      [429, '60'],
    ]);
    const left = (await place.open()).filter(({ asked_from: from }) => String(from).startsWith('10.200.'));
    expect(left.length).toBeLessThanOrEqual(50);
  });

  test('where no network has more than one, others are refused', async () => {
    await using place = await filled('embedded', "format('%d.%d.0.1', i / 250 + 1, i % 250)");
    const { shell, clock, from } = place;
    const twice = async () => [(await from('192.168.0.1')).status, (await from('192.168.0.1')).status];
    expect(await twice()).toEqual([429, 429]);
    await shell.execute('DELETE FROM codes');
    expect(await twice()).toEqual([429, 429]); // both remember for a second: nothing was read
    clock.advance(1000);
    expect(await twice()).toEqual([200, 200]);
  });

  test('are counted without reading their rows', async () => {
    await using app = await createTestApp({ env: ENV, store: 'embedded' });
    expect(await planOfCounting(databaseOf(app))).toContain('USING COVERING INDEX codes_open');
  });
});

test('a copy of the database, made while a request is open, has neither code nor key', async () => {
  await using app = await createTestApp({ env: ENV, store: 'embedded' });
  const { device_code: deviceCode, user_code: userCode } = (await ask(app)).body;
  await person(app, 'decision', { userCode, ...DECIDED });
  const copied = JSON.stringify(await storedCodes(databaseOf(app)));
  for (const secret of [deviceCode, userCode, userCode.replace('-', '')]) expect(copied).not.toContain(secret);
  const { access_token: key } = (await poll(app, deviceCode)).body;
  expect(copied).not.toContain(Bun.SHA256.hash(key, 'hex'));
});

test('the metadata names what there is, with OAUTH_REDIRECTS and without', async () => {
  await using app = await createTestApp({ env: ENV });
  const metadataOf = async ({ url }: TestApp) => (await fetch(`${url}/.well-known/oauth-authorization-server`)).json();
  expect(await metadataOf(app)).toEqual({
    issuer: app.url,
    token_endpoint: `${app.url}/token`,
    device_authorization_endpoint: `${app.url}/device_authorization`,
    response_types_supported: [],
    grant_types_supported: [GRANT, EXCHANGE, JWT_BEARER],
    token_endpoint_auth_methods_supported: ['none'],
    scopes_supported: ['read'],
  });
  for (const path of ['/authorize', '/register'])
    expect((await fetch(app.url + path, { method: 'POST' })).status).toBe(404);
  expect((await form(app, '/token', { grant_type: 'authorization_code', code: 'x' })).body.error).toBe(
    'unsupported_grant_type',
  );
  await using both = await createTestApp({ env: { ...ENV, OAUTH_REDIRECTS: 'loopback' } });
  expect(await metadataOf(both)).toMatchObject({
    authorization_endpoint: `${both.url}/authorize`,
    device_authorization_endpoint: `${both.url}/device_authorization`,
    grant_types_supported: ['authorization_code', GRANT, EXCHANGE, JWT_BEARER],
  });
  await using without = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' } });
  expect(await metadataOf(without)).not.toHaveProperty('device_authorization_endpoint');
  for (const path of ['/device_authorization', '/device/request', '/device/decision']) {
    expect((await fetch(without.url + path, { method: 'POST' })).status).toBe(404);
  }
  expect((await poll(without, 'x')).body.error).toBe('unsupported_grant_type');
});

test('without the page there is nobody to decide', async () => {
  expect(await failureOf(createTestApp({ env: { ...ENV, KEYS_PAGE: '0' } }))).toContain('OAUTH_DEVICE');
});
