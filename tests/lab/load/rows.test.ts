// What is read and written without anybody waiting for it, in rows at the primary: few for each key.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { callOver, postJson, userHeaders } from '../../support/client.ts';
import { useKey } from '../../support/cluster.ts';
import { type Client, openDatabase } from '../../support/database-client.ts';
import { fillKeys, fillUses } from '../../support/fill.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { keysCommand, startKeys } from '../../support/keys-command.ts';
import { type RowsProxy, startRowsProxy } from '../../support/rows-proxy.ts';
import { startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { storeOn } from '../../support/store-mode.ts';
import { COUNTED, createTestApp, metricsOf, readResponse, TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

/** A primary with a key of alice and `keys` of others, and what `more` adds, behind a proxy. No upkeep is due. */
async function filled(keys: number, more: (client: Client) => Promise<unknown>) {
  const stack = new AsyncDisposableStack();
  const sqld = stack.use(await startSqld());
  const app = await createTestApp({ store: storeOn(sqld.env) });
  const { key } = await app.createKey('alice');
  await app.close();
  const client = stack.adopt(openDatabase(sqld.url), (one) => one.close());
  await client.execute('UPDATE upkeep SET at_ms = unixepoch() * 1000');
  await fillKeys(client, keys);
  await more(client);
  const proxy = stack.use(startRowsProxy(sqld.url));
  return { key, client, proxy, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/**
 * Statements that somebody waits for: without polls, and what looks whether upkeep is due, of which there are more
 * where it takes longer.
 */
const waitedFor = (proxy: RowsProxy) =>
  proxy.rows().statements - proxy.rows('pruned_seq').statements - proxy.rows('FROM upkeep').statements;

const start = (url: string, more: Record<string, string> = {}) =>
  startServer({ env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: url, ...COUNTED, LOG_LEVEL: 'warn', ...more } });

test('the upkeep of counts reads five rows of a key at most, when it was used daily for a month', async () => {
  const KEYS = 1000;
  await using place = await filled(KEYS, async (client) => {
    await fillUses(client, 31);
    await client.execute('INSERT INTO key_months (row, month, d1) SELECT max(row), 1, 1 FROM api_keys'); // one that is old
    await client.execute('UPDATE upkeep SET at_ms = 0');
  });
  const { client, proxy } = place;
  await using _server = await start(proxy.url);
  await waitFor(async () => {
    const { rows } = await client.execute('SELECT 1 FROM key_months WHERE month = 1');
    return rows.length === 0;
  });
  const { read } = proxy.rows('key_months c WHERE');
  expect(read).toBeGreaterThan(KEYS); // it did look
  expect(read / KEYS).toBeLessThan(5);
});

test('what deleted keys used is read once, however many owners had some', async () => {
  const OWNERS = 20_100;
  await using place = await filled(0, (client) =>
    client.execute(`INSERT INTO ended_uses (owner, day, units) WITH RECURSIVE n (i) AS (
SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${OWNERS}) SELECT format('owner %05d', i), unixepoch() / 86400, 1 FROM n`),
  );
  const { proxy } = place;
  const lines = async (...more: string[]) =>
    (await keysCommand({ DATABASE_URL: proxy.url }, ['usage', '--json', ...more])).stdout.split('\n').length - 1;
  const read = () => proxy.rows('FROM ended_uses\nWHERE').read;
  expect(await lines()).toBe(OWNERS);
  expect(read()).toBeLessThan(OWNERS * 1.1);
  proxy.forget();
  expect(await lines('--owner', 'owner 20000')).toBe(1);
  expect(read()).toBeLessThan(10);
});

test('where the trail begins and ends is found without a look at all of it, to remove an owner', async () => {
  await using place = await filled(0, (client) =>
    client.execute(`INSERT INTO key_events (owner, kind, how) WITH RECURSIVE n (i) AS (
SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT 'bob', 'owner_changed', 'sql' FROM n`),
  );
  const { proxy } = place;
  expect((await keysCommand({ DATABASE_URL: proxy.url }, ['owner', 'alice', '--delete', '--yes'])).code).toBe(0);
  const { statements, read } = proxy.rows('AS kept');
  expect(statements).toBeGreaterThan(0);
  expect(read / statements).toBeLessThan(10);
});

test('the first read of a key reads eight rows at most, though it was used daily; its exchange writes three and reads twenty', async () => {
  await using place = await filled(0, (client) => fillUses(client, 31));
  const { key, proxy } = place;
  await using server = await start(proxy.url);
  proxy.forget();
  expect(await useKey(server, key)).toBe(200);
  const first = proxy.rows('presented_hash');
  expect(first.statements).toBe(1);
  expect(first.read).toBeLessThanOrEqual(8);
  expect(first.read).toBeGreaterThan(0);
  await waitFor(async () => proxy.rows('AS uses FROM (').statements > 0); // the totals come last
  const WRITES = ['INSERT INTO key_counts', 'INSERT INTO key_months', 'INSERT INTO exchanges'];
  const written = WRITES.reduce((sum, text) => sum + proxy.rows(text).written, 0);
  expect(written).toBeGreaterThan(0);
  expect(written).toBeLessThanOrEqual(3);
  const read = [...WRITES, 'AS uses FROM ('].reduce((sum, text) => sum + proxy.rows(text).read, 0);
  expect(read).toBeLessThanOrEqual(20);
});

test('a page of a list reads the keys that may fit, and of each of 3,000 keys, used daily for a month, a row for each month', async () => {
  const KEYS = 3000;
  await using place = await filled(KEYS, async (client) => {
    await client.execute("UPDATE api_keys SET user_id = 'bob'");
    await client.execute("INSERT INTO owners (owner, quota_requests, quota_period) VALUES ('bob', 100000, 'month')");
    await fillUses(client, 31);
  });
  const { proxy } = place;
  await using server = await start(proxy.url);
  proxy.forget();
  const { status, body } = await callOver(server.url, 'list_api_keys', {}, await userHeaders('bob'));
  expect([status, body.owner.uses.today]).toEqual([200, 5 * (KEYS + 1)]);
  const page = proxy.rows('ORDER BY k.created_at_ms DESC');
  expect(page.statements).toBe(2); // 200 keys each
  expect(page.read).toBeLessThanOrEqual(400 * 7);
  const days = proxy.rows("'key' AS of");
  expect(days.statements).toBeLessThanOrEqual(3);
  expect(days.read).toBeLessThanOrEqual(KEYS * 4 + 400 * 6); // some 340 keys fit, and 31 days are in three months at most
});

test('a list of an owner without a plan counts none of his keys', async () => {
  await using place = await filled(900, (client) => client.execute("UPDATE api_keys SET user_id = 'bob'"));
  const { proxy } = place;
  await using server = await start(proxy.url);
  proxy.forget();
  expect((await callOver(server.url, 'list_api_keys', {}, await userHeaders('bob'))).status).toBe(200);
  const plan = proxy.rows('(SELECT ?1 AS owner)');
  expect(plan.statements).toBe(1);
  expect(plan.read).toBeLessThanOrEqual(5);
});

test('a page of owners takes four statements at most, and reads each key and its months once', async () => {
  await using place = await filled(6000, async (client) => {
    await client.execute("UPDATE api_keys SET user_id = format('owner %04d', row % 300)"); // 20 keys each
    await client.execute(`INSERT INTO owners (owner, quota_requests, quota_period)
SELECT DISTINCT user_id, 1000, 'month' FROM api_keys WHERE user_id LIKE 'owner%'`);
    await fillUses(client, 31);
  });
  const { proxy } = place;
  await using server = await start(proxy.url, { ADMIN_CLAIM: 'sub=root' });
  const page = async (input: object = {}) => {
    proxy.forget();
    const { status, body } = await callOver(server.url, 'admin_list_owners', input, await userHeaders('root'));
    expect([status, body.owners.length]).toEqual([200, 100]);
    return { statements: waitedFor(proxy), read: proxy.rows().read, ...body };
  };
  const { statements, read, nextCursor } = await page();
  expect(statements).toBeLessThanOrEqual(4); // with that which reads whether root is blocked
  expect(read).toBeLessThanOrEqual(100 * 20 * 6 + 2000);
  expect((await page({ cursor: nextCursor })).statements).toBeLessThanOrEqual(4);
  proxy.forget();
  const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: proxy.url };
  const { stdout } = await keysCommand(env, ['owners', '--json']);
  expect(stdout.trim().split('\n')).toHaveLength(300);
  const listing = [proxy.rows('RECURSIVE names'), proxy.rows("'key' AS of")];
  expect(listing.map(({ statements }) => statements)).toEqual([3, 3]);
});

test('an admin’s history reads 51 rows of events, and a choice looks at 10,000 keys, however many there are', async () => {
  const keyId = 'f'.repeat(32);
  await using place = await filled(12_000, async (client) => {
    for (const key of [null, keyId])
      await client.execute({
        sql: `INSERT INTO key_events (key_id, owner, kind, how)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT ?, 'bob', 'changed', 'sql' FROM n`,
        args: [key],
      });
  });
  const { proxy } = place;
  await using server = await start(proxy.url, { ADMIN_CLAIM: 'sub=root' });
  const headers = await userHeaders('root');
  for (const [whose, owners] of [
    [{ owner: 'bob' }, 0],
    [{ keyId }, 2], // the first and the last owner
  ] as const) {
    proxy.forget();
    const { body } = await readResponse(await postJson(`${server.url}/keys/events`, whose, headers));
    expect(body.events).toHaveLength(50);
    expect(proxy.rows('FROM key_events').read).toBe(51 + owners);
  }
  for (const only of ['expiring', 'never_expires', 'unused']) {
    proxy.forget();
    const { body } = await callOver(server.url, 'admin_list_keys', { only }, headers);
    expect(body.looked).toBeLessThanOrEqual(10_000);
    expect(proxy.rows('row_number').read).toBeLessThanOrEqual(10_000 * 8);
  }
});

test('lists of commands take a few statements for 500 keys or 100 owners, and read a few rows of each key', async () => {
  const [OWNERS, EACH] = [100, 10];
  await using place = await filled(OWNERS * EACH, async (client) => {
    await client.execute(`UPDATE api_keys SET user_id = format('owner %04d', row % ${OWNERS})`);
    await fillUses(client, 31);
  });
  const { proxy } = place;
  const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: proxy.url };
  const of = async (...args: string[]) => {
    proxy.forget();
    const { code, stdout } = await keysCommand(env, args);
    expect([code, stdout.length > 0]).toEqual([0, true]);
    return [waitedFor(proxy), proxy.rows().read / (OWNERS * EACH)] as const;
  };
  const [opening] = await of('list', '--user', 'nobody');
  for (const [args, statementsMax, readOfKeyMax] of [
    ['owners --json', 2, 6],
    ['list --json', 3 * 3, 10],
    ['list --sort uses', 2 * 3 * 3, 24],
    ['usage', 4, 9],
    ['usage --by key', 4 + 3, 18],
    ['owner anybody --json', 3, 0.5],
  ] as const) {
    const [statements, readOfKey] = await of(...args.split(' '));
    expect([args, statements - opening <= statementsMax, readOfKey <= readOfKeyMax]).toEqual([args, true, true]);
  }
});

test('the scrapes of a minute read 5,000 rows at most, of 20,000 keys that expire soon', async () => {
  await using place = await filled(20_000, (client) =>
    client.execute('UPDATE api_keys SET expires_at_ms = (unixepoch() + 3600) * 1000'),
  );
  const { proxy } = place;
  await using server = await start(proxy.url);
  await waitFor(async () => /^mcp_keys_expiring\{[^}]*\} 1000$/m.test(await metricsOf(server.url)));
  for (let time = 0; time < 3; time += 1) await metricsOf(server.url);
  const { statements, read } = proxy.rows('SELECT expires_at_ms FROM api_keys');
  expect(statements).toBe(1);
  expect(read).toBeLessThanOrEqual(5000);
});

test.each([
  ['of a key', ['--key', 'f'.repeat(32)]],
  ['of an owner', ['--user', 'nobody']],
])('events --follow %s that has none reads five rows at most each second, of a trail of 5,000', async (_, which) => {
  await using place = await filled(0, (client) =>
    client.execute(`INSERT INTO key_events (key_id, owner, kind, how)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
SELECT lower(hex(randomblob(16))), 'u', 'created', 'sql' FROM n`),
  );
  const { proxy } = place;
  const env = { JWT_SECRET: TEST_SECRET, DATABASE_URL: proxy.url };
  const following = startKeys(env, ['events', ...which, '--follow'], temporaryFolder());
  const polls = () => proxy.rows('SELECT max(seq) AS seq FROM key_events');
  await waitFor(async () => polls().statements >= 3); // it has read what there was
  proxy.forget();
  await waitFor(async () => polls().statements >= 3);
  following.kill();
  await following.exited;
  const { statements, read } = polls();
  expect(read).toBeGreaterThan(0);
  expect((read + proxy.rows('SELECT * FROM key_events').read) / statements).toBeLessThanOrEqual(5);
});
