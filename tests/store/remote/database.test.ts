// The remote mode against the real server: what it does when the primary is there, refuses, is away, or is replaced.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { createClient } from '@libsql/client/web';
import { callOver, userHeaders } from '../../support/client.ts';
import { everything, rows } from '../../support/everything.ts';
import { startProxy } from '../../support/proxy.ts';
import { runToExit, startServer, untilOpen } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { storeOn } from '../../support/store-mode.ts';
import { bearer, COUNTED, createTestApp, metricsOf, readResponse, TEST_SECRET } from '../../support/test-app.ts';
import { advanceUntil, waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const health = async (url: string) => {
  const response = await fetch(`${url}/mcp/health`);
  return { status: response.status, store: ((await response.json()) as { store: Record<string, unknown> }).store };
};

test('a list is whole and in order even if it is more than the primary puts into one response', async () => {
  await using sqld = await startSqld({ args: ['--max-response-size', '1MB'] });
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const scopes = Array.from({ length: 100 }, (_, index) => String(index).padEnd(100, 's'));
  const db = createClient({ url: sqld.url });
  // Every two rows share one time, and each page but the last ends between two such rows.
  await db.execute({
    sql: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT printf('%032x', i), 'alice', ?, printf('%064x', i), ?, 1, i / 2 FROM n`,
    args: ['\u{1f511}'.repeat(200), JSON.stringify(scopes)],
  });
  db.close();
  const ids: string[] = [];
  for (let input = {}, pages = 0; pages < 50; pages += 1) {
    const { status, body } = await app.call('list_api_keys', input, await bearer(app, 'alice'));
    expect(status).toBe(200);
    ids.push(...body.keys.map(({ id }: { id: string }) => id));
    if (body.nextCursor === undefined) break;
    input = { cursor: body.nextCursor };
  }
  const newestFirst = Array.from({ length: 300 }, (_, index) => (300 - index).toString(16).padStart(32, '0'));
  expect(ids).toEqual(newestFirst);
});

test('many lists are whole even if the primary has no room for all its responses at the same moment', async () => {
  await using sqld = await startSqld({ args: ['--max-total-response-size', '200KB'] });
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const scopes = Array.from({ length: 20 }, (_, index) => String(index).padEnd(100, 's'));
  const users = Array.from({ length: 8 }, (_, index) => `user ${index}`);
  const db = createClient({ url: sqld.url });
  await db.execute({
    sql: `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), users.value, 'n', lower(hex(randomblob(32))), ?2, 1, i FROM json_each(?1) AS users, n`,
    args: [JSON.stringify(users), JSON.stringify(scopes)],
  });
  db.close();
  const lists = await Promise.all(users.map(async (user) => app.call('list_api_keys', {}, await bearer(app, user))));
  for (const { status, body } of lists) expect([status, body.keys?.length]).toEqual([200, 40]);
});

test('a primary that stops for most of the bound costs the first use of a key time, and nothing else', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  const env = { REVOCATION_LAG_MAX_MS: '3300' };
  await using app = await createTestApp({
    store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }),
    env,
    storePatience: 1,
  });
  const { key } = await app.createKey('alice');
  sqld.freeze();
  const before = proxy.statements();
  const asked = app.useKey(key);
  await waitFor(() => proxy.statements() === before + 2); // the second try, after nearly half the bound
  sqld.thaw();
  expect((await asked).status).toBe(200);
});

test('connections that died silently, all that are kept open, cost a call one try', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  const env = { REVOCATION_LAG_MAX_MS: '3000' }; // time for a second try, on a busy machine too
  await using app = await createTestApp({
    store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }),
    env,
    storePatience: 1,
  });
  const alice = await bearer(app, 'alice');
  await Promise.all(Array.from({ length: 20 }, () => app.call('list_api_keys', {}, alice))); // each on one of its own
  proxy.silence();
  expect((await app.useKey(`sk_test_${'0'.repeat(64)}`)).status).toBe(401);
});

test('on Deno, too, connections that died silently cost a call one try', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  const env = { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: '3000', ...sqld.env, DATABASE_URL: proxy.url };
  await using server = await startServer({ runtime: 'deno', env });
  await untilOpen(server);
  const headers = await userHeaders('alice');
  await Promise.all(Array.from({ length: 20 }, () => callOver(server.url, 'list_api_keys', {}, headers)));
  proxy.silence();
  const { status } = await callOver(server.url, 'get_data', {}, { 'x-api-key': `sk_test_${'0'.repeat(64)}` });
  expect(status).toBe(401);
});

test.each(rows(['bun', 'deno'] as const, 1))(
  'the first start at an empty primary 50 ms away, on %s: the first call is answered, after few requests',
  async (runtime) => {
    await using sqld = await startSqld();
    await using proxy = await startProxy(sqld.url, { delayMs: 50 });
    const env = { JWT_SECRET: TEST_SECRET, ...sqld.env, DATABASE_URL: proxy.url };
    await using server = await startServer({ env, runtime });
    const { status } = await callOver(server.url, 'get_data', {}, { 'x-api-key': `sk_test_${'0'.repeat(64)}` });
    expect(status).toBe(401);
    expect(proxy.requests.length).toBeLessThan(10);
  },
);

describe('a start is refused with one line', () => {
  const start = (env: Record<string, string>) => runToExit({ env: { JWT_SECRET: TEST_SECRET, ...env } });

  test('a start without a token, or with a wrong, expired or read-only one, is refused with one line', async () => {
    await using sqld = await startSqld({ auth: true });
    const expired = await sqld.token({ a: 'rw', exp: Math.floor(Date.now() / 1000) - 120 });
    const readOnly = await sqld.token({ a: 'ro' });
    for (const [token, said] of [
      ['', 'a token that this database accepts'],
      ['nonsense', 'a token that this database accepts'],
      [expired, 'a token that this database accepts'],
      [readOnly, 'a token that may read and write'],
    ] as const) {
      const { code, stderr } = await start({ DATABASE_URL: sqld.url, DATABASE_AUTH_TOKEN: token });
      expect(code).toBe(1);
      expect(stderr).toStartWith(`mcp-key-server: DATABASE_AUTH_TOKEN: expected ${said}`);
      if (token !== '') expect(stderr).not.toContain(token);
    }
    // Migrated beforehand, so that the read-only token is refused as such, and not because it can't migrate.
    const first = await startServer({ env: { JWT_SECRET: TEST_SECRET, ...sqld.env } });
    await untilOpen(first);
    await first.stop();
    const { code, stderr } = await start({ DATABASE_URL: sqld.url, DATABASE_AUTH_TOKEN: readOnly });
    expect([code, stderr]).toEqual([1, expect.stringContaining('a token that may read and write')]);
  });

  test('a start on a database of another program is refused, and leaves it as it was', async () => {
    await using sqld = await startSqld();
    const client = createClient({ url: sqld.url });
    await client.execute('CREATE TABLE recipes (name TEXT)');
    const { code, stderr } = await start(sqld.env);
    expect([code, stderr]).toEqual([1, expect.stringContaining('belongs to another program')]);
    const { rows } = await client.execute("SELECT name FROM sqlite_master WHERE type = 'table'");
    expect(rows.map(({ name }) => name)).toEqual(['recipes']);
  });

  test('a start on a database of a newer version, or of another shape, is refused', async () => {
    await using sqld = await startSqld();
    const first = await startServer({ env: { JWT_SECRET: TEST_SECRET, ...sqld.env } });
    await untilOpen(first);
    await first.stop();
    const client = createClient({ url: sqld.url });
    await client.execute("INSERT INTO schema_migrations VALUES (999, '0999_future', 0)");
    expect(await start(sqld.env)).toMatchObject({ code: 1, stderr: expect.stringContaining('newer version') });
    await client.batch(['DELETE FROM schema_migrations WHERE version = 999', 'DROP TABLE feed'], 'write');
    expect(await start(sqld.env)).toMatchObject({ code: 1, stderr: expect.stringContaining('changed by hand') });
  });
});

/** In the statement of a poll. */
const POLL = 'LEFT JOIN changes n';

describe('a primary that is away', () => {
  test('at the start: what needs no store works, health and, once, the log say so, and the server comes to life by itself', async () => {
    await using sqld = await startSqld();
    await sqld.kill();
    await using app = await createTestApp({ store: storeOn(sqld.env) });
    expect((await fetch(`${app.url}/`)).status).toBe(200);
    const away = { status: 503, store: { mode: 'remote', ok: false, writable: true, lagMs: null } };
    for (let asked = 0; asked < 3; asked += 1) expect(await health(app.url)).toEqual(away);
    const refused = await app.useKey(`sk_test_${'0'.repeat(64)}`);
    expect(refused.body).toMatchObject({ status: 503, code: 'store_unavailable' });
    expect(refused.headers.get('retry-after')).toBe('1');
    await sqld.start();
    await advanceUntil(app.clock, async () => (await health(app.url)).status === 200);
    const lines = (await app.log()).filter(({ event }) => event.startsWith('database'));
    expect(lines.at(-1)).toMatchObject({ level: 'info', event: 'database opened' });
    const reasons = lines.slice(0, -1).map(({ level, event, reason }) => `${level} ${event}: ${reason}`);
    expect(reasons[0]).toStartWith('warn database not opened: ECONNREFUSED');
    expect(new Set(reasons).size).toBe(reasons.length); // opening it may also take long, on a busy machine
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
  });

  test('at the start: the log says so where a page answers in place of the primary', async () => {
    using page = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('<h1>Welcome</h1>') });
    await using app = await createTestApp({ store: storeOn({ DATABASE_URL: page.url.origin }) });
    expect((await health(app.url)).status).toBe(503);
    const reasons = (await app.log()).flatMap(({ reason }) => (typeof reason === 'string' ? [reason] : []));
    expect(new Set(reasons)).toEqual(new Set(['DATABASE_URL: expected a libSQL server, but it answered with no JSON']));
  });

  test('a server starts though its primary hangs', async () => {
    await using sqld = await startSqld();
    sqld.freeze();
    await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, ...sqld.env } });
    expect((await health(server.url)).status).toBe(503);
    sqld.thaw();
    await waitFor(async () => (await health(server.url)).status === 200);
  });

  test('later: a connection that is cut is named in the log without advice for programmers', async () => {
    await using sqld = await startSqld();
    await using proxy = await startProxy(sqld.url);
    await using app = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }) });
    proxy.refuse('SELECT');
    expect((await app.useKey(`sk_test_${'0'.repeat(64)}`)).status).toBe(503);
    const reasons = (await app.log()).flatMap(({ reason }) => (typeof reason === 'string' ? [reason] : []));
    expect(reasons).toContainEqual(expect.stringContaining('ECONNRESET'));
    expect(reasons.join('\n')).not.toContain('verbose');
  });

  test('later: verification says 503 within the bound, never 401, and works again when it is back', async () => {
    await using sqld = await startSqld();
    await using app = await createTestApp({ store: storeOn(sqld.env) });
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    await sqld.kill();
    expect((await app.useKey(key)).status).toBe(200); // still within the bound: the clock stands
    app.clock.advance(1001);
    expect((await app.useKey(key)).status).toBe(503);
    expect((await app.call('list_api_keys', {}, await bearer(app, 'alice'))).status).toBe(503);
    await sqld.start();
    await waitFor(async () => (await app.useKey(key)).status === 200);
  });

  test('a call while the primary is frozen is 503 without the 3 s of other questions', async () => {
    await using sqld = await startSqld();
    await using app = await createTestApp({
      env: { REVOCATION_LAG_MAX_MS: '250' },
      store: storeOn(sqld.env),
      storePatience: 1,
    });
    const { key } = await app.createKey('alice');
    await waitFor(async () => (await app.useKey(key)).status === 200);
    sqld.freeze();
    app.clock.advance(251);
    const startedAtMs = performance.now();
    expect((await app.useKey(key)).status).toBe(503);
    expect(performance.now() - startedAtMs).toBeLessThan(3000); // which is what it takes, or more, without the bound
    sqld.thaw();
    await waitFor(async () => (await app.useKey(key)).status === 200);
  });
});

test('with nothing to verify for a minute polling stops, and the next verification polls first', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url);
  await using maker = await createTestApp({ store: storeOn(sqld.env) });
  const env = { ...COUNTED, REVOCATION_LAG_MAX_MS: '4000' }; // time for a poll on a busy machine: 3 s, not 225 ms
  await using app = await createTestApp({
    store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }),
    env,
    clock: maker.clock,
  });
  const { id, key } = await maker.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const pollAfter = async (ms: number) => {
    const before = proxy.sent(POLL);
    app.clock.advance(ms);
    const isOver = async () => /^mcp_keys_feed_lag_seconds 0$/m.test(await metricsOf(app.url));
    await waitFor(async () => proxy.sent(POLL) > before && (await isOver()));
  };
  for (let polls = 0; polls < 3; polls += 1) {
    await pollAfter(1000); // a quarter of the bound
  }
  await pollAfter(61_000); // the last one, which had been due
  const polled = proxy.sent(POLL);
  expect(polled).toBeGreaterThan(3);
  await maker.call('revoke_api_key', { keyId: id }, await bearer(maker, 'alice'));
  for (let second = 0; second < 10; second += 1) {
    app.clock.advance(1000);
    expect((await fetch(`${app.url}/`)).status).toBe(200); // a poll would have begun
  }
  expect(proxy.sent(POLL)).toBe(polled);
  expect((await app.useKey(key)).status).toBe(401);
});

test('a primary that was wiped and replaced by an empty one is set up anew, and no old key is accepted', async () => {
  await using sqld = await startSqld();
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const { key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  await sqld.kill();
  sqld.wipe();
  await sqld.start();
  app.clock.advance(1001);
  const first = await app.useKey(key);
  expect([401, 503]).toContain(first.status);
  await waitFor(async () => (await app.useKey(key)).status === 401);
  const { key: next } = await app.createKey('alice');
  expect((await app.useKey(next)).status).toBe(200);
});

test('writes blocked by the operator: creation and health say so, verification goes on', async () => {
  await using sqld = await startSqld();
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const health = async () => (await readResponse(await fetch(`${app.url}/mcp/health`))).body;
  const { key } = await app.createKey('alice');
  await sqld.blockWrites(true);
  app.clock.advance(1001);
  expect((await app.useKey(key)).status).toBe(200);
  const alice = await bearer(app, 'alice');
  expect((await app.call('create_api_key', { name: 'more', scopes: [] }, alice)).status).toBe(503);
  expect(await health()).toMatchObject({ status: 'ok', store: { mode: 'remote', ok: true, writable: false } });
  await using late = await createTestApp({ store: storeOn(sqld.env), clock: app.clock });
  expect((await late.useKey(key)).status).toBe(200);
  await sqld.blockWrites(false);
  expect((await app.call('create_api_key', { name: 'more', scopes: [] }, alice)).status).toBe(200);
  expect((await health()).store.writable).toBe(true);
});

test('a token that expires while the server runs: 503, and a restart with a new one heals it', async () => {
  await using sqld = await startSqld({ auth: true });
  await using maker = await createTestApp({ store: storeOn(sqld.env) });
  const { key } = await maker.createKey('alice');
  // The server allows a minute after expiry; one that expired 54 s ago dies in six.
  const dying = await sqld.token({ a: 'rw', exp: Math.floor(Date.now() / 1000) - 54 });
  const env = { DATABASE_URL: sqld.url, DATABASE_AUTH_TOKEN: dying };
  await using app = await createTestApp({ store: storeOn(env) });
  expect((await app.useKey(key)).status).toBe(200);
  await waitFor(async () => {
    app.clock.advance(1001);
    return (await app.useKey(key)).status === 503;
  });
  expect((await app.logText()).includes(dying)).toBe(false);
  await using healed = await createTestApp({ store: storeOn(sqld.env), clock: app.clock });
  expect((await healed.useKey(key)).status).toBe(200);
});

const CREATIONS = everything ? 1000 : 400;

test(`${CREATIONS} creations, fifty at a time, are all made: none waits past its time for the one writer`, async () => {
  await using sqld = await startSqld();
  const env = { REVOCATION_LAG_MAX_MS: '4000' }; // a statement has 3 s then, on a busy machine too
  await using app = await createTestApp({ store: storeOn(sqld.env), env });
  const ids = new Set<string>();
  for (let round = 0; round < CREATIONS / 50; round += 1) {
    const made = await Promise.all(Array.from({ length: 50 }, (_, n) => app.createKey(`user-${n}`)));
    for (const { id } of made) ids.add(id);
  }
  expect(ids.size).toBe(CREATIONS);
});
