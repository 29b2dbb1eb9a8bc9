// Limits and quotas of a key, and its uses: what callers see of them, over HTTP. Several processes are in shared-limits.slow.

import { describe, expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { startProxy } from '../support/proxy.ts';
import { leaseOf, serviceOf } from '../support/service.ts';
import { startSlowStore } from '../support/slow-store.ts';
import { storeOn } from '../support/store-mode.ts';
import { startPrimary } from '../support/template.ts';
import { bearer, COUNTED, createTestApp, type TestApp, type TestResponse } from '../support/test-app.ts';
import { advanceUntil, waitFor } from '../support/wait-for.ts';

const MIDNIGHT_MS = Date.UTC(2026, 0, 2);
const onMidnight = () => testClock(MIDNIGHT_MS);
const LIMIT = { requests: 2, window: '1m' };
const QUOTA = { requests: 3, period: 'day' };

const limitsOf = ({ status, headers }: TestResponse) => [
  status,
  headers.get('ratelimit-policy'),
  headers.get('ratelimit'),
  headers.get('retry-after'),
];
const whoami = (app: TestApp, key: string) => app.call('whoami', {}, { 'x-api-key': key });
const listed = async (app: TestApp, sub = 'alice') =>
  (await app.call('list_api_keys', {}, await bearer(app, sub))).body.keys;

test('a limit and a quota of the same number and time are told by their names, each to its key', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: { RATE_LIMIT_REQUESTS: '0' } });
  const limited = await app.createKey('alice', { rateLimit: { requests: 3, window: '1d' } });
  const withQuota = await app.createKey('alice', { quota: QUOTA });
  for (const remaining of [2, 1]) {
    const [left, policy] = [`;r=${remaining};t=86400`, ';q=3;w=86400'];
    expect(limitsOf(await app.useKey(limited.key))).toEqual([200, `"key"${policy}`, `"key"${left}`, null]);
    expect(limitsOf(await app.useKey(withQuota.key))).toEqual([200, `"quota"${policy}`, `"quota"${left}`, null]);
  }
});

test("a key's own limit takes the place of the server's, and is returned as it was given", async () => {
  await using app = await createTestApp({ clock: onMidnight() });
  const made = await app.call(
    'create_api_key',
    { name: 'k', scopes: ['read'], rateLimit: { requests: 2, window: '60s' }, quota: QUOTA },
    await bearer(app, 'alice'),
  );
  expect(made.body).toMatchObject({ rateLimit: { requests: 2, window: '60s' }, quota: QUOTA });
  const policy = '"key";q=2;w=60, "quota";q=3;w=86400';
  const { key } = made.body;
  expect(limitsOf(await app.useKey(key))).toEqual([200, policy, '"key";r=1;t=60, "quota";r=2;t=86400', null]);
  expect(limitsOf(await app.useKey(key))).toEqual([200, policy, '"key";r=0;t=60, "quota";r=1;t=86400', null]);
  const over = await app.useKey(key);
  expect(limitsOf(over)).toEqual([429, policy, '"key";r=0;t=60, "quota";r=1;t=86400', '60']);
  expect(over.body.code).toBe('rate_limited');
  expect(await listed(app)).toMatchObject([{ rateLimit: LIMIT, quota: QUOTA, uses: { today: 2, last30Days: [2] } }]);
});

test('a quota that is used up is 429 until its day is over, and a refusal spends neither', async () => {
  await using app = await createTestApp({ clock: onMidnight() });
  const { key } = await app.createKey('alice', {
    rateLimit: { requests: 1, window: '1m' },
    quota: { ...QUOTA, requests: 2 },
  });
  expect((await app.useKey(key)).status).toBe(200);
  for (let call = 0; call < 3; call += 1) expect((await app.useKey(key)).body.code).toBe('rate_limited');
  app.clock.advance(60_000);
  expect((await app.useKey(key)).status).toBe(200);
  const both = await app.useKey(key);
  expect([both.status, both.body.code, both.headers.get('retry-after')]).toEqual([429, 'quota_exceeded', '86340']);
  app.clock.advance(60_000);
  const over = await app.useKey(key);
  expect(limitsOf(over)).toEqual([
    429,
    '"key";q=1;w=60, "quota";q=2;w=86400',
    '"key";r=1;t=60, "quota";r=0;t=86280',
    '86280',
  ]);
  const refusals = (await app.log()).filter(({ event }) => event === 'Quota exceeded');
  expect(refusals.map(({ of }) => of)).toEqual(['key', 'key']);
  app.clock.advance(86_280_000 - 1);
  expect((await app.useKey(key)).status).toBe(429);
  app.clock.advance(1);
  expect((await app.useKey(key)).status).toBe(200);
  expect(await listed(app)).toMatchObject([{ uses: { today: 1, last30Days: [1, 2] } }]);
});

test('a quota of a month has the seconds of this month, and ends with it, on a leap day too', async () => {
  await using app = await createTestApp({ clock: testClock(Date.UTC(2028, 1, 29, 23, 59, 58)) });
  const { key } = await app.createKey('alice', { quota: { requests: 1, period: 'month' } });
  const month = (response: TestResponse) =>
    limitsOf(response)
      .slice(1, 3)
      .map((text) => String(text).split(', ')[1]);
  expect(month(await app.useKey(key))).toEqual([`"quota";q=1;w=${29 * 86_400}`, '"quota";r=0;t=2']);
  expect((await app.useKey(key)).body.code).toBe('quota_exceeded');
  app.clock.advance(2000);
  expect(month(await app.useKey(key))).toEqual([`"quota";q=1;w=${31 * 86_400}`, `"quota";r=0;t=${31 * 86_400}`]);
  app.clock.advance(86_400_000);
  expect((await app.useKey(key)).body.code).toBe('quota_exceeded');
});

test('KEY_QUOTA counts for keys without one of their own; whoami says what is left, and of a key without limits null', async () => {
  await using app = await createTestApp({
    env: { KEY_QUOTA: '10/month', RATE_LIMIT_REQUESTS: '0' },
    clock: testClock(Date.UTC(2026, 0, 31)),
  });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  const { body, headers } = await whoami(app, key);
  expect(body).toMatchObject({
    rateLimit: null,
    quota: { requests: 10, period: 'month', remaining: 8, resetSeconds: 86_400 },
    usesToday: 2,
  });
  expect(headers.get('ratelimit')).toBe('"quota";r=8;t=86400');
  await using free = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '0' } });
  const unlimited = await whoami(free, (await free.createKey('alice')).key);
  expect(unlimited.body).toMatchObject({ expiresAt: null, rateLimit: null, quota: null, usesToday: 1 });
  expect(unlimited.headers.get('ratelimit')).toBeNull();
});

test("a user gives at most the server's limit and quota, in number, rate and period; null is no limit", async () => {
  await using app = await createTestApp({
    env: { RATE_LIMIT_REQUESTS: '100', RATE_LIMIT_WINDOW: '1m', KEY_QUOTA: '1000/day' },
  });
  const issues = async (limits: Record<string, unknown>) => {
    const { status, body } = await app.call(
      'create_api_key',
      { name: 'k', scopes: [], ...limits },
      await bearer(app, 'alice'),
    );
    return status === 200 ? [] : body.issues.map(({ path, message }: Record<string, string>) => `${path}: ${message}`);
  };
  expect(
    await issues({ rateLimit: { requests: 100, window: '1m' }, quota: { requests: 1000, period: 'day' } }),
  ).toEqual([]);
  expect(await issues({ rateLimit: { requests: 50, window: '30s' } })).toEqual([]);
  const limit = 'rateLimit: Expected at most 100 requests, and no faster than 100 in 1m';
  expect(await issues({ rateLimit: { requests: 101, window: '1d' } })).toEqual([limit]);
  expect(await issues({ rateLimit: { requests: 51, window: '30s' } })).toEqual([limit]);
  expect(await issues({ rateLimit: { requests: 10, window: '10s' } })).toEqual([]);
  expect(await issues({ rateLimit: { requests: 1, window: '9s' } })).toEqual([
    'rateLimit.window: Expected a window of at least 10s',
  ]);
  expect(await issues({ quota: { requests: 1001, period: 'day' } })).toEqual(['quota: Expected at most 1000 a day']);
  expect(await issues({ quota: { requests: 1, period: 'month' } })).toEqual(['quota: Expected at most 1000 a day']);
  for (const wrong of [
    { rateLimit: { requests: 1.5, window: '1m' } },
    { rateLimit: { requests: 1, window: '0s' } },
    { rateLimit: { requests: 1, window: '367d' } },
    { rateLimit: { requests: 1, window: '1m', more: 1 } },
    { quota: { requests: 1, period: 'week' } },
    { quota: { requests: 1_000_000_001, period: 'day' } },
  ]) {
    expect([wrong, (await issues(wrong)).length > 0]).toEqual([wrong, true]);
  }
});

test('where the window of the server is below 10 s, users may set as short a one; without a limit of the server any', async () => {
  const made = async (env: Record<string, string>, window: string) => {
    await using app = await createTestApp({ env });
    const limits = { name: 'k', scopes: [], rateLimit: { requests: 1, window } };
    return (await app.call('create_api_key', limits, await bearer(app, 'alice'))).status;
  };
  const short = { RATE_LIMIT_REQUESTS: '100', RATE_LIMIT_WINDOW: '5s' };
  expect([await made(short, '5s'), await made(short, '4s')]).toEqual([200, 400]);
  expect(await made({ RATE_LIMIT_REQUESTS: '0' }, '1s')).toBe(200);
});

test.each(['day', 'month'] as const)('what was used of a %s counts against a quota that is new', async (period) => {
  await using app = await createTestApp({ env: { ADMIN_CLAIM: 'role=admin' } });
  const { id: keyId, key } = await app.createKey('alice');
  for (let call = 0; call < 3; call += 1) expect((await app.useKey(key)).status).toBe(200);
  const admin = await bearer(app, 'carol', { role: 'admin' });
  const updated = await app.call('admin_update_key', { keyId, quota: { requests: 4, period } }, admin);
  expect(updated.status).toBe(200);
  expect((await app.useKey(key)).status).toBe(200);
  expect((await app.useKey(key)).body.code).toBe('quota_exceeded');
});

test('what was used before a limit was set does not count against it, however long its window', async () => {
  await using app = await createTestApp({ env: { ADMIN_CLAIM: 'role=admin' } });
  const { id: keyId, key } = await app.createKey('alice');
  for (let call = 0; call < 3; call += 1) expect((await app.useKey(key)).status).toBe(200);
  const admin = await bearer(app, 'carol', { role: 'admin' });
  const rateLimit = { requests: 10, window: '2d' };
  expect((await app.call('admin_update_key', { keyId, rateLimit }, admin)).status).toBe(200);
  expect((await app.useKey(key)).headers.get('ratelimit')).toStartWith('"key";r=9;');
});

describe('a read of a key that a poll overtakes', () => {
  /** An app that polls after its own changes alone (`poll`), and a key that was used twice elsewhere. */
  async function startApp() {
    const slow = await startSlowStore();
    const env = { REVOCATION_LAG_MAX_MS: '60000', OWNER_RATE_LIMIT: '5/1h', TRUST_PROXY: '1' };
    const elsewhere = await createTestApp({ store: slow.store, env });
    const { key } = await elsewhere.createKey('alice');
    for (let call = 0; call < 2; call += 1) expect((await elsewhere.useKey(key)).status).toBe(200);
    await elsewhere.close();
    const app = await createTestApp({ store: slow.store, env });
    return {
      execute: slow.execute,
      delayRead: () => slow.delayReadOf(key),
      poll: async () =>
        app.call('delete_api_key', { keyId: (await app.createKey('bob')).id }, await bearer(app, 'bob')),
      /** From this address: look-ups of one wait for each other. */
      status: async (address = '192.0.2.1') =>
        (await app.call('get_data', {}, { 'x-api-key': key, 'x-forwarded-for': address })).status,
      async [Symbol.asyncDispose]() {
        await app.close();
        await slow[Symbol.asyncDispose]();
      },
    };
  }

  test.each([
    ['limit', "UPDATE api_keys SET limit_requests = 3, limit_window_s = 3600 WHERE user_id = 'alice'"],
    ['plan', "INSERT INTO owners (owner, limit_requests, limit_window_s) VALUES ('alice', 3, 3600)"],
  ])('brings the %s that was set before it', async (_, set) => {
    await using app = await startApp();
    expect(await app.status()).toBe(200);
    await app.execute(set);
    await app.poll();
    const gate = app.delayRead();
    const called = app.status();
    await gate.made;
    await app.poll();
    gate.release();
    expect(await called).toBe(429);
  });

  test('takes nothing off the counts of a quota that was set after it', async () => {
    await using app = await startApp();
    const gate = app.delayRead();
    const called = app.status();
    await gate.made;
    await app.execute("UPDATE api_keys SET quota_requests = 2, quota_period = 'month' WHERE user_id = 'alice'");
    await app.poll();
    expect(await app.status('198.51.100.1')).toBe(429);
    gate.release();
    expect([await called, await app.status()]).toEqual([429, 429]);
  });
});

test('a quota holds while the primary takes no writes, also of a key that is read again', async () => {
  await using primary = await startPrimary();
  await using app = await createTestApp({ store: storeOn(primary.env), clock: onMidnight() });
  const { key } = await app.createKey('alice', { quota: { requests: 2, period: 'day' } });
  await primary.blockWrites(true);
  for (let call = 0; call < 2; call += 1) expect((await app.useKey(key)).status).toBe(200);
  const isKept = async () => (await app.log()).some(({ event }) => event === 'uses kept for later');
  await advanceUntil(app.clock, isKept, 1000);
  app.clock.advance(6 * 60_000); // longer than a key stays in memory unread
  expect((await app.useKey(key)).body.code).toBe('quota_exceeded');
});

test('a rotation keeps limit, quota, counts and last use, and with expiresInDays gives both secrets a new expiry', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: { KEY_MAX_DAYS: '90' } });
  const made = await app.createKey('alice', { rateLimit: LIMIT, quota: QUOTA, expiresInDays: 1 });
  await app.useKey(made.key);
  const rotate = async (input: object) =>
    app.call('rotate_api_key', { keyId: made.id, ...input }, await bearer(app, 'alice'));
  expect((await rotate({ expiresInDays: 91 })).body).toMatchObject({ code: 'invalid_input' });
  const rotated = await rotate({ expiresInDays: 30 });
  expect(rotated.body.expiresAt).toBe(MIDNIGHT_MS + 30 * 86_400_000);
  app.clock.advance(5);
  expect((await app.useKey(rotated.body.key)).headers.get('ratelimit')).toStartWith('"key";r=0;');
  expect(await listed(app)).toMatchObject([{ lastUsedAt: app.clock.nowMs() }]);
  expect((await app.useKey(made.key)).body.code).toBe('rate_limited');
  app.clock.advance(2 * 3_600_000);
  expect((await app.useKey(made.key)).status).toBe(200);
  const [key] = await listed(app);
  expect(key).toMatchObject({ expiresAt: rotated.body.expiresAt, rateLimit: LIMIT, quota: QUOTA, uses: { today: 3 } });
  expect(key.lastUsedAt).toBe(app.clock.nowMs());
});

describe('uses', () => {
  test('an introspection and a refused call are validations, and no uses', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice', { rateLimit: { requests: 1, window: '1m' } });
    const service = await serviceOf(app);
    expect((await leaseOf(app, service, key, {})).body).toMatchObject({ active: true });
    expect((await listed(app))[0]).toMatchObject({ lastUsedAt: app.clock.nowMs() });
    expect((await listed(app))[0].uses).toBeUndefined();
    await app.useKey(key);
    app.clock.advance(1000);
    expect((await app.useKey(key)).status).toBe(429);
    expect((await listed(app))[0]).toMatchObject({
      lastUsedAt: app.clock.nowMs(),
      uses: { today: 1, last30Days: [1] },
    });
  });

  test('/verify counts as a tool does, and refuses for the same reasons', async () => {
    await using app = await createTestApp({ clock: onMidnight() });
    const { key } = await app.createKey('alice', { quota: { requests: 2, period: 'day' } });
    const verify = () => fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
    expect((await verify()).headers.get('ratelimit')).toBe('"key";r=999;t=3600, "quota";r=1;t=86400');
    expect((await app.useKey(key)).status).toBe(200);
    const over = await verify();
    expect([over.status, over.headers.get('retry-after')]).toEqual([429, '86400']);
    expect(await over.json()).toMatchObject({ code: 'quota_exceeded' });
  });

  test('days without uses are zeros, those after the last use are left out, and after 30 days nothing is', async () => {
    await using app = await createTestApp({ clock: onMidnight(), env: COUNTED });
    const { key } = await app.createKey('alice');
    /** Else they are written when the clock says another day. */
    const written = (exchanges: number) =>
      advanceUntil(app.clock, async () => (await app.storeCalls('totals_of')) >= exchanges, 100);
    const daily = async () => (await listed(app))[0].uses;
    await app.useKey(key);
    await written(1);
    app.clock.advance(2 * 86_400_000);
    await app.useKey(key);
    await app.useKey(key);
    expect(await daily()).toEqual({ today: 2, last30Days: [2, 0, 1] });
    await written(2);
    app.clock.advance(29 * 86_400_000);
    const oldest = { today: 0, last30Days: [...Array(29).fill(0), 2] };
    expect(await daily()).toEqual(oldest);
    await using another = await createTestApp({ folder: app.folder, clock: app.clock }); // it knows what is stored alone
    expect((await listed(another))[0].uses).toEqual(oldest);
    app.clock.advance(86_400_000);
    expect(await daily()).toBeUndefined();
  });

  test('an orderly stop loses none, and a quota goes on after a restart', async () => {
    const first = await createTestApp({ clock: onMidnight() });
    const { key } = await first.createKey('alice', { quota: QUOTA });
    await first.useKey(key);
    await first.useKey(key);
    await first.close();
    await using second = await createTestApp({ folder: first.folder, clock: first.clock });
    expect((await second.useKey(key)).headers.get('ratelimit')).toEndWith('"quota";r=0;t=86400');
    expect((await second.useKey(key)).body.code).toBe('quota_exceeded');
    expect((await listed(second))[0].uses).toEqual({ today: 3, last30Days: [3] });
  });
});

test('two apps on a database learn of the uses of each other, and refuse together', async () => {
  const clock = onMidnight();
  await using first = await createTestApp({ clock });
  await using second = await createTestApp({ folder: first.folder, clock });
  const { key } = await first.createKey('alice', { rateLimit: { requests: 6, window: '1h' } });
  const left = async (app: TestApp) =>
    Number(/r=(\d+)/.exec((await app.useKey(key)).headers.get('ratelimit') ?? '')?.[1]);
  expect([await left(first), await left(second), await left(first)]).toEqual([5, 5, 4]);
  await advanceUntil(clock, async () => (await whoami(second, key)).status === 429, 300);
  const uses = async (app: TestApp) => (await listed(app))[0].uses.today;
  await advanceUntil(clock, async () => (await uses(first)) === (await uses(second)), 300);
  expect(await uses(first)).toBeGreaterThanOrEqual(6);
});

test('calls of a key with limit and quota read and write nothing; a transaction writes all 3 s later, then comes a read', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const clock = onMidnight();
  const env = { ...COUNTED, REVOCATION_LAG_MAX_MS: '60000' }; // no poll meanwhile
  const app = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), clock, env });
  const limits = { rateLimit: { requests: 1000, window: '1h' }, quota: { requests: 1000, period: 'month' } };
  const keys = await Promise.all([1, 2, 3].map(async () => (await app.createKey('alice', limits)).key));
  for (const key of keys) expect((await app.useKey(key)).status).toBe(200);
  /** Statements about keys: those that write uses, that read counts, that read a record. */
  const sent = () => ['INTO key_counts', 'w.key AS at', 'presented_hash'].map((text) => proxy.begun(text));
  const exchanged = (times: number) => waitFor(async () => (await app.storeCalls('totals_of')) === times);
  clock.advance(3000);
  await exchanged(1);
  expect(sent()).toEqual([1, 1, keys.length]);
  for (const key of keys) {
    for (let call = 0; call < 10; call += 1) expect((await app.useKey(key)).status).toBe(200);
    expect((await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } })).status).toBe(200);
  }
  expect(sent()).toEqual([1, 1, keys.length]);
  clock.advance(3000);
  await exchanged(2);
  expect(sent()).toEqual([2, 2, keys.length]);
  for (const key of keys) expect((await app.useKey(key)).status).toBe(200);
  await app.close(); // an orderly stop only writes
  expect(sent()).toEqual([3, 2, keys.length]);
});

test('the calls of a person are limited by USER_RATE_LIMIT, and nobody else is', async () => {
  await using app = await createTestApp({ env: { USER_RATE_LIMIT: '2/1m' } });
  const list = async (sub: string) => app.call('list_api_keys', {}, await bearer(app, sub));
  expect(limitsOf(await list('alice'))).toEqual([200, '"user";q=2;w=60', '"user";r=1;t=60', null]);
  await list('alice');
  const over = await list('alice');
  expect(limitsOf(over)).toEqual([429, '"user";q=2;w=60', '"user";r=0;t=60', '60']);
  expect(over.body.code).toBe('rate_limited');
  expect((await list('bob')).status).toBe(200);
  await using off = await createTestApp({ env: { USER_RATE_LIMIT: '0' } });
  expect(limitsOf(await off.call('list_api_keys', {}, await bearer(off, 'alice')))).toEqual([200, null, null, null]);
});
