// Limits, quotas and numbers of keys of an owner, for all keys together, and what a call costs: over HTTP, on one process
// and on two that share a database.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import * as v from 'valibot';
import { defineTool, ok, type ToolDeps } from '../../../src/start/package/index.ts';
import { type TestClock, testClock } from '../../support/clock.ts';
import { run } from '../../support/command.ts';
import { databaseOf, executeAt, openDatabase } from '../../support/database-client.ts';
import { ROOT, readDocument } from '../../support/documents.ts';
import { rows } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { labelled } from '../../support/labels.ts';
import { call, callAll, post } from '../../support/mcp.ts';
import { startProxy } from '../../support/proxy.ts';
import { leaseOf, serviceOf } from '../../support/service.ts';
import { startStore, storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import {
  ADMINS,
  adminOf,
  bearer,
  COUNTED,
  createTestApp,
  eventsIn,
  failureOf,
  sharedApp,
  TEST_SECRET,
  type TestApp,
  type TestResponse,
} from '../../support/test-app.ts';
import { noInput } from '../../support/tools.ts';
import { advanceUntil } from '../../support/wait-for.ts';

const onMidnight = () => testClock(Date.UTC(2026, 0, 2));
const NOTHING_SET = { blocked: false, rateLimit: null, quota: null, keysMax: 1000, metadata: null };

const setOwner = async (app: TestApp, input: object) => app.call('admin_update_owner', input, await adminOf(app));
const limitsOf = ({ headers }: TestResponse) => [headers.get('ratelimit-policy'), headers.get('ratelimit')];
const whoami = (app: TestApp, key: string) => app.call('whoami', {}, { 'x-api-key': key });
const keyOf = async (app: TestApp, owner = 'alice', more = {}) => (await app.createKey(owner, more)).key;
const listedOwner = async (app: TestApp) =>
  (await app.call('admin_list_owners', {}, await adminOf(app))).body.owners[0];
const DAY_MS = 86_400_000;
const verify = (app: TestApp, key: string, query = '') =>
  fetch(`${app.url}/verify${query}`, { headers: { 'x-api-key': key } });

test('a limit and quota of an owner count for all keys, and a refusal by either spends neither', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const keys = [await keyOf(app), await keyOf(app, 'alice', { rateLimit: { requests: 1, window: '1m' } })] as const;
  const other = await keyOf(app, 'bob');
  const plan = { rateLimit: { requests: 3, window: '1m' }, quota: { requests: 4, period: 'month' } };
  const set = await setOwner(app, { owner: 'alice', ...plan });
  expect(set).toMatchObject({ status: 200, body: { ...NOTHING_SET, ...plan, owner: 'alice', keys: 2 } });
  expect(limitsOf(await app.useKey(keys[1]))).toEqual([
    '"key";q=1;w=60, "owner";q=3;w=60, "owner-quota";q=4;w=2678400',
    '"key";r=0;t=60, "owner";r=2;t=60, "owner-quota";r=3;t=2592000',
  ]);
  const own = await app.useKey(keys[1]);
  expect(own).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
  expect(own.body.of).toBeUndefined();
  for (let left = 2; left > 0; left -= 1) expect((await app.useKey(keys[0])).status).toBe(200);
  const over = await app.useKey(keys[0]);
  expect(over).toMatchObject({ status: 429, body: { code: 'rate_limited', of: 'owner' } });
  expect([over.body.detail, over.headers.get('retry-after')]).toEqual([
    'The rate limit of all your keys together is exceeded; try again later',
    '60',
  ]);
  expect((await app.useKey(other)).status).toBe(200);
  app.clock.advance(60_000);
  expect((await app.useKey(keys[0])).status).toBe(200);
  const used = await app.useKey(keys[0]);
  expect(used).toMatchObject({ status: 429, body: { code: 'quota_exceeded', of: 'owner' } });
  expect(used.body.detail).toBe('The quota of all your keys together is used up; try again when its period is over');
  const { body } = await post(app, call('get_data', {}), { 'x-api-key': keys[0] });
  expect(body.result.content.map(({ text }: { text: string }) => text)).toEqual([
    used.body.detail,
    'of: owner. Try again in 2591940 s',
  ]);
  const log = (await app.log()).filter(({ event }) => event === 'Owner quota');
  expect(log.map(({ owner, share }) => [owner, share])).toEqual([['alice', 100]]);
  const refusals = (await app.log()).filter(({ event }) => / exceeded$/.test(event));
  expect(refusals.map(({ event, of, userId }) => [event, of, userId])).toEqual([
    ['Rate limit exceeded', 'key', 'alice'],
    ['Rate limit exceeded', 'owner', 'alice'],
    ['Quota exceeded', 'owner', 'alice'],
  ]);
});

const sharesIn = async (app: TestApp) =>
  (await app.log()).filter(({ event }) => event === 'Owner quota').map(({ share }) => share);

test('what two processes have used together is a line, too, though neither saw a call reach it', async () => {
  await using store = await startStore('embedded');
  const clock = onMidnight();
  await using one = await createTestApp({ clock, store, env: ADMINS });
  await using two = await createTestApp({ clock, store, env: ADMINS });
  await setOwner(one, { owner: 'alice', quota: '20/month' });
  const key = await keyOf(one);
  for (let made = 0; made < 8; made += 1) {
    for (const app of [one, two]) expect((await app.useKey(key)).status).toBe(200);
  }
  const shares = async () => [...(await sharesIn(one)), ...(await sharesIn(two))];
  await advanceUntil(clock, async () => (await shares()).length > 0, 250);
  expect(await shares()).toContain(80);
});

test('a quota that is lowered below what was used is a line at the first refusal', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const key = await keyOf(app);
  await setOwner(app, { owner: 'alice', quota: '10/month' });
  for (let made = 0; made < 5; made += 1) await app.useKey(key);
  await setOwner(app, { owner: 'alice', quota: '5/month' });
  for (let made = 0; made < 2; made += 1) expect((await app.useKey(key)).status).toBe(429);
  expect(await sharesIn(app)).toEqual([100]);
});

test('shares of a larger quota are lines of their own, in the same month', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const key = await keyOf(app);
  for (const quota of ['5/month', '10/month']) {
    await setOwner(app, { owner: 'alice', quota });
    for (let made = 0; made < 6; made += 1) await app.useKey(key);
  }
  expect(await sharesIn(app)).toEqual([80, 100, 80, 100]);
});

test('refusals by an owner’s limit are one line a second, whichever of the keys is refused', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const keys = [await keyOf(app), await keyOf(app), await keyOf(app)] as const;
  const over = async (event: string, plan: object) => {
    await setOwner(app, { owner: 'alice', rateLimit: null, quota: null, ...plan });
    for (const key of keys) expect((await app.useKey(key)).status).toBe(429);
    app.clock.advance(1000);
    expect((await app.useKey(keys[1])).status).toBe(429);
    const lines = (await app.log()).filter((line) => line.event === event);
    expect(lines.map(({ of, suppressed }) => [of, suppressed])).toEqual([
      ['owner', 0],
      ['owner', 2],
    ]);
  };
  await setOwner(app, {
    owner: 'alice',
    quota: { requests: 1, period: 'day' },
    rateLimit: { requests: 1, window: '1h' },
  });
  expect((await app.useKey(keys[0])).status).toBe(200);
  await over('Rate limit exceeded', { rateLimit: { requests: 1, window: '1h' } });
  await over('Quota exceeded', { quota: { requests: 1, period: 'day' } });
});

test('whoami, introspection and the list show what is left of the plan; of an owner without one nothing', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const key = await keyOf(app);
  const list = async () => (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body;
  expect((await whoami(app, key)).body).toMatchObject({ ownerRateLimit: null, ownerQuota: null });
  expect((await list()).owner).toBeUndefined();
  await setOwner(app, {
    owner: 'alice',
    quota: { requests: 10, period: 'day' },
    keysMax: 2,
    metadata: { plan: 'pro' },
  });
  expect((await whoami(app, key)).body).toMatchObject({
    ownerRateLimit: null,
    ownerQuota: { requests: 10, period: 'day', remaining: 9, resetSeconds: 86_400 },
  });
  expect((await list()).owner).toEqual({
    quota: { requests: 10, period: 'day', remaining: 9 },
    keysMax: 2,
    uses: { today: 2, last30Days: [2] },
  });
  const { body } = await leaseOf(app, await serviceOf(app), key, {});
  expect(body).toMatchObject({ active: true, limit: 10, remaining: 9 });
});

/** Two processes on one database; the replica's is the second's. */
async function bothOn(stack: AsyncDisposableStack, mode: 'file' | 'remote' | 'replica', clock: TestClock) {
  const primary = mode === 'file' ? null : stack.use(await startPrimary());
  const place = primary?.env ?? { DATABASE_URL: `file:${join(temporaryFolder(), 'keys.db')}` };
  const replica = mode === 'replica' ? { DATABASE_REPLICA_FILE: join(temporaryFolder(), 'replica.db') } : {};
  return [
    stack.use(await createTestApp({ store: storeOn(place), clock, env: ADMINS })),
    stack.use(await createTestApp({ store: storeOn({ ...place, ...replica }), clock, env: COUNTED })),
  ] as const;
}

test.each(rows(['file', 'remote', 'replica'] as const, 1))(
  'uses are the sum over the keys that are there, at once and for others after an exchange; the quota counts all (%s)',
  async (mode) => {
    const clock = onMidnight();
    await using stack = new AsyncDisposableStack();
    const [first, second] = await bothOn(stack, mode, clock);
    await setOwner(first, { owner: 'alice', quota: { requests: 10, period: 'month' } });
    const made = [await first.createKey('alice'), await first.createKey('alice')] as const;
    const use = async (times: number, nth: 0 | 1) => {
      for (let time = 0; time < times; time += 1) expect((await first.useKey(made[nth].key)).status).toBe(200);
    };
    const listed = async (app: TestApp) => {
      const { owner } = (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body;
      return [owner.uses.last30Days, owner.quota.remaining] as const;
    };
    const shown = async () => {
      const { uses, quotaShare } = await listedOwner(first);
      expect((await listed(first))[0]).toEqual(uses.last30Days);
      return [uses.last30Days, quotaShare, (await listed(first))[1]];
    };
    await use(3, 0);
    await use(1, 1);
    expect(await shown()).toEqual([[4], 0.4, 6]);
    expect(await listed(second)).toEqual([[], 10]);
    await advanceUntil(clock, async () => (await listed(second))[0][0] === 4, 1000);
    expect(await listed(second)).toEqual([[4], 6]);
    expect(await shown()).toEqual([[4], 0.4, 6]);
    clock.advance(DAY_MS);
    await use(2, 1);
    expect(await shown()).toEqual([[2, 4], 0.6, 4]);
    await first.call('delete_api_key', { keyId: made[0].id }, await bearer(first, 'alice'));
    expect(await shown()).toEqual([[2, 1], 0.6, 4]);
    expect((await setOwner(first, { owner: 'alice' })).body).toMatchObject({ uses: { today: 2 }, quotaShare: 0.6 });
  },
);

test('a quota in a list says what is left of it in its period, of each key what counts against it', async () => {
  const clock = testClock(Date.UTC(2026, 0, 31)); // the month began before the 30 days that are shown
  await using app = await createTestApp({ clock, env: { ...ADMINS, KEY_QUOTA: '5/day' } });
  const [servers, own] = [await app.createKey('alice'), await app.createKey('alice')];
  await app.keys('update', own.id, '--quota', '3/month');
  const quotas = async () => {
    const lists = [
      (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys,
      (await app.call('admin_list_keys', { owner: 'alice' }, await adminOf(app))).body.keys,
    ];
    const [shown, others] = lists.map((keys) => keys.toReversed().map(({ quota }: { quota: object }) => quota));
    expect(others).toEqual(shown);
    return shown;
  };
  await app.useKey(servers.key);
  await advanceUntil(app.clock, async () => (await app.useKey(own.key)).headers.has('ratelimit'), 250);
  expect(await quotas()).toEqual([
    { requests: 5, period: 'day', remaining: 4 },
    { requests: 3, period: 'month', remaining: 2 },
  ]);
  for (let time = 0; time < 5; time += 1) await app.useKey(own.key);
  expect((await app.useKey(own.key)).status).toBe(429);
  expect((await quotas())[1]).toEqual({ requests: 3, period: 'month', remaining: 0 });
  app.clock.advance(DAY_MS); // the next month
  expect(await quotas()).toEqual([
    { requests: 5, period: 'day', remaining: 5 },
    { requests: 3, period: 'month', remaining: 3 },
  ]);
});

const app = await sharedApp({ env: ADMINS });

describe('settings', () => {
  test('are set, kept where nothing is given, taken back with null; events and log say each change', async () => {
    const owner = 'Zoë/1';
    const plan = { rateLimit: { requests: 9, window: '10s' }, keysMax: 0, metadata: { plan: 'pro', seats: '5' } };
    expect((await setOwner(app, { owner, ...plan })).body).toMatchObject({ ...NOTHING_SET, ...plan, owner, keys: 0 });
    expect((await setOwner(app, { owner })).body).toMatchObject({ ...NOTHING_SET, ...plan });
    expect((await setOwner(app, { owner, ...plan })).body).toMatchObject(plan);
    await setOwner(app, { owner, metadata: {}, blocked: true });
    const back = { rateLimit: null, quota: null, keysMax: null, metadata: null, blocked: null };
    expect((await setOwner(app, { owner, ...back })).body).toMatchObject({ ...NOTHING_SET, owner });
    for (const blocked of [true, true, false]) await setOwner(app, { owner, blocked });
    const events = await eventsIn(app, '--user', owner);
    expect(events.map(({ kind, fields }) => [kind, fields] as unknown)).toEqual([
      ['owner_changed', ['rateLimit', 'keysMax', 'metadata']],
      ['owner_changed', ['metadata']],
      ['blocked', undefined],
      ['owner_changed', ['rateLimit', 'keysMax']],
      ['unblocked', undefined],
      ['blocked', undefined],
      ['unblocked', undefined],
    ]);
    const lines = (await app.log()).filter((line) => line.event === 'Owner updated' && line.owner === owner);
    expect(lines).toHaveLength(5);
    expect(await app.keys('owners', '--json')).not.toContain(owner);
  });

  test.each(
    labelled([
      { owner: '' },
      { owner: 'a', rateLimit: { requests: 1, window: '9s' } },
      { owner: 'a', rateLimit: { requests: 0, window: '10s' } },
      { owner: 'a', quota: { requests: 1, period: 'week' } },
      { owner: 'a', keysMax: -1 },
      { owner: 'a', keysMax: 10_001 },
      { owner: 'a', keysMax: 1.5 },
      { owner: 'a', metadata: { Plan: 'x' } }, // and all else in ../together/metadata.test.ts
      { owner: 'a', metadata: [] },
      { owner: 'a', plan: 'pro' },
    ]),
  )('out of their bounds are refused, and change nothing: %s', async (_label, input) => {
    expect(await setOwner(app, input)).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
    expect((await setOwner(app, { owner: 'a' })).body).toMatchObject(NOTHING_SET);
  });

  test('at their bounds are taken', async () => {
    const names = Array.from({ length: 19 }, (_, at) => [`n${at}`, '']);
    const most = { keysMax: 10_000, metadata: { ...Object.fromEntries(names), n: 'x'.repeat(200) } };
    expect((await setOwner(app, { owner: 'most', ...most })).body).toMatchObject(most);
  });

  test('bound how many keys there may be; of those that are there none is ended', async () => {
    const make = async () =>
      (await app.call('create_api_key', { name: 'k', scopes: [] }, await bearer(app, 'carol'))).status;
    expect(await make()).toBe(200);
    await setOwner(app, { owner: 'carol', keysMax: 2 });
    expect([await make(), await make()]).toEqual([200, 409]);
    const key = (await app.call('list_api_keys', {}, await bearer(app, 'carol'))).body.keys;
    await setOwner(app, { owner: 'carol', keysMax: 1 });
    expect([key.length, await make()]).toEqual([2, 409]);
  });
});

test('what was counted for an owner goes with him, from the first call on, in each process', async () => {
  await using store = await startStore('embedded');
  await using here = await createTestApp({ clock: onMidnight(), store, env: ADMINS });
  await using elsewhere = await createTestApp({ clock: onMidnight(), store, env: ADMINS });
  const plan = { owner: 'alice', quota: { requests: 3, period: 'day' } };
  await setOwner(here, plan);
  const key = await keyOf(here);
  /** Counts three calls here, of which elsewhere learns with the key's record. */
  async function useUp(used: string): Promise<void> {
    for (let left = 3; left > 0; left -= 1) expect((await here.useKey(used)).status).toBe(200);
    const listedElsewhere = async () =>
      (await elsewhere.call('list_api_keys', {}, await bearer(elsewhere, 'alice'))).body.owner.quota.remaining;
    await advanceUntil(here.clock, async () => (await listedElsewhere()) === 0, 1000);
    for (const app of [here, elsewhere]) expect((await app.useKey(used)).status).toBe(429);
  }
  await useUp(key);
  await here.keys('owner', 'alice', '--delete', '--yes');
  await setOwner(here, plan);
  const again = await keyOf(here);
  expect((await elsewhere.useKey(again)).status).toBe(200);
  expect((await here.useKey(again)).status).toBe(200);
});

test('metadata, which valibot has no JSON Schema for, says what it takes', async () => {
  const { paths } = await (await fetch(`${app.url}/openapi.json`)).json();
  expect(
    paths['/tools/admin_update_owner'].post.requestBody.content['application/json'].schema.properties.metadata,
  ).toEqual({
    description: expect.any(String),
    anyOf: [
      {
        type: 'object',
        maxProperties: 20,
        additionalProperties: { type: 'string', maxLength: 200 },
      },
      { type: 'null' },
    ],
  });
});

test('owners are listed by name, whoever has keys, settings or a block, a page at a time', async () => {
  await using app = await createTestApp({ env: ADMINS });
  await keyOf(app, 'b');
  await keyOf(app, 'b');
  await setOwner(app, { owner: 'a', quota: { requests: 1, period: 'day' } });
  await setOwner(app, { owner: 'c', blocked: true });
  const page = async (input = {}) => app.call('admin_list_owners', input, await adminOf(app));
  const { owners } = (await page()).body;
  expect(
    owners.map((one: { owner: string; keys: number; quotaShare: number }) => [one.owner, one.keys, one.quotaShare]),
  ).toEqual([
    ['a', 0, 0],
    ['b', 2, null],
    ['c', 0, null],
  ]);
  const more = Array.from({ length: 100 }, (_, at) => ({ owner: `\ufeffx${at}`, keysMax: 5 })); // a name, too
  await callAll(app, 'admin_update_owner', more, await adminOf(app));
  const first = (await page()).body;
  expect(first.owners).toHaveLength(100);
  const second = (await page({ cursor: first.nextCursor })).body;
  expect([second.owners.length, second.nextCursor]).toEqual([3, undefined]);
  for (const cursor of ['', '!', 'Zg==']) expect((await page({ cursor })).status).toBe(400);
  expect((await app.keys('owners')).split('\n').filter((line) => line !== '')).toHaveLength(104);
});

test('a page of owners ends before the owner with whom they would have more than 10,000 keys, but has one at least', async () => {
  await using app = await createTestApp({ store: 'embedded', env: ADMINS });
  const client = openDatabase(databaseOf(app));
  const counts = { a: 1, b: 6000, c: 3999, d: 1, e: 9999, f: 10_001, g: 1 };
  for (const [owner, keys] of Object.entries(counts)) {
    const sql = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
SELECT lower(hex(randomblob(16))), ?1, 'k', lower(hex(randomblob(32))), '[]', 1, i FROM n`;
    await client.execute({ sql, args: [owner, keys] });
  }
  client.close();
  const pages: object[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const { body } = await app.call('admin_list_owners', { ...(cursor && { cursor }) }, await adminOf(app));
    pages.push(
      Object.fromEntries(body.owners.map(({ owner, keys }: { owner: string; keys: number }) => [owner, keys])),
    );
    cursor = body.nextCursor;
  }
  expect(pages).toEqual([{ a: 1, b: 6000, c: 3999 }, { d: 1, e: 9999 }, { f: 10_001 }, { g: 1 }]);
  const listed = (await app.keys('owners', '--json')).trim().split('\n');
  expect(listed.map((line) => JSON.parse(line).keys)).toEqual(Object.values(counts));
});

test('nobody blocks the owner that he is himself, and nothing else of it is set; unblocking and the command may', async () => {
  await using app = await createTestApp({ env: { ...ADMINS, JWT_OWNER_CLAIM: 'team' } });
  const root = await bearer(app, 'root', { roles: 'keys-admin', team: 'blue' });
  const set = (input: object) => app.call('admin_update_owner', { owner: 'blue', ...input }, root);
  const refused = { status: 409, body: { code: 'own_owner' } };
  expect(await set({ blocked: true })).toMatchObject(refused);
  expect(await set({ blocked: true, keysMax: 5 })).toMatchObject(refused);
  const { body } = await post(app, call('admin_update_owner', { owner: 'blue', blocked: true }), root);
  expect(body.result).toMatchObject({ isError: true });
  expect(await eventsIn(app, '--user', 'blue')).toEqual([]);
  expect(await set({ blocked: false, keysMax: 5 })).toMatchObject({
    status: 200,
    body: { keysMax: 5, blocked: false },
  });
  expect((await app.call('admin_update_owner', { owner: 'root', blocked: true }, root)).body.blocked).toBe(true);
  await app.keys('block', 'blue', '--yes');
  await advanceUntil(app.clock, async () => (await set({})).body.code === 'user_blocked', 250);
});

test('of many settings of an owner at once none is refused', async () => {
  await using app = await createTestApp({ env: ADMINS });
  const plans = Array.from({ length: 50 }, (_, n) => ({ owner: 'alice', metadata: { n: `${n}` } }));
  const set = await Promise.all(plans.map((plan) => setOwner(app, plan)));
  expect(new Set(set.map(({ status }) => status))).toEqual(new Set([200]));
  expect((await eventsIn(app)).length).toBe(50);
});

test.each([
  ['before the removal goes with him', 'UPDATE api_keys SET deleting', 0, ['owner_deleted']],
  ['behind it stays, with its event', 'INSERT INTO owners', 1, ['owner_deleted', 'created']],
])('a key that an owner makes during keys owner --delete: %s', async (_, held, keys, kinds) => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  await using app = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }), env: ADMINS });
  await keyOf(app, 'eve');
  const gate = proxy.delayResponseTo(held);
  const removed = app.keys('owner', 'eve', '--delete', '--yes');
  await gate.made;
  await keyOf(app, 'eve');
  gate.release();
  await removed;
  expect((await setOwner(app, { owner: 'eve' })).body.keys).toBe(keys);
  expect((await eventsIn(app, '--user', 'eve')).map(({ kind }) => kind)).toEqual(kinds);
});

test('keys owner sets, shows and removes an owner; a block stays', async () => {
  await using app = await createTestApp();
  const key = await keyOf(app, 'eve');
  await app.useKey(key);
  const shown = async (...args: string[]) => JSON.parse(await app.keys('owner', 'eve', ...args, '--json'));
  expect(
    await shown('--limit', '5/1m', '--quota', '9/day', '--keys', '3', '--meta', 'plan=pro', '--meta', 'note=a=b'),
  ).toMatchObject({
    rateLimit: { requests: 5, window: '1m' },
    quota: { requests: 9, period: 'day' },
    keysMax: 3,
    metadata: { plan: 'pro', note: 'a=b' },
    keys: 1,
  });
  expect(await shown('--limit', 'default', '--quota', 'default', '--meta', 'none')).toMatchObject({
    ...NOTHING_SET,
    keysMax: 3,
  });
  for (const bad of [
    ['--meta', 'plan'],
    ['--meta', 'none', '--meta', 'a=b'],
    ['--meta', 'a=1', '--meta', 'a=2'],
    ['--limit', '5/9s'],
    ['--keys', '10001'],
    ['--delete', '--keys', '1'],
  ]) {
    expect(await app.keys('owner', 'eve', ...bad).catch(String)).toContain('usage');
  }
  await app.keys('block', 'eve', '--yes');
  await app.keys('owner', 'eve', '--delete', '--yes');
  await advanceUntil(app.clock, async () => (await app.useKey(key)).status === 401, 250);
  expect(await shown()).toMatchObject({ ...NOTHING_SET, blocked: true, keys: 0 });
  expect((await eventsIn(app, '--user', 'eve')).map(({ kind }) => kind)).toEqual(['owner_deleted']);
});

test('keys owner --delete of whom nothing is left changes nothing, and does not ask, as keys revoke', async () => {
  const store = await startStore('embedded');
  await using app = await createTestApp({ store });
  const verb = (...args: string[]) => keysCommand(store.env(), args);
  const key = await keyOf(app, 'eve');
  const { code, stderr } = await verb('owner', 'eve', '--delete');
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('"eve" with 1 key, settings') }); // in any state
  expect((await verb('owner', 'eve', '--delete', '--yes')).stderr).toEndWith('deleted "eve"\n');
  expect((await app.useKey(key)).status).toBe(401);
  const events = await eventsIn(app, '--user', 'eve');
  expect(events.map(({ kind }) => kind)).toEqual(['owner_deleted']);
  const nothing = { code: 0, stdout: '', stderr: 'there is nothing of "eve" to delete\n' };
  expect(await verb('owner', 'eve', '--delete')).toEqual(nothing);
  expect(await eventsIn(app, '--user', 'eve')).toEqual(events);
  const revoked = await verb('revoke', '--user', 'eve');
  expect(revoked).toEqual({ code: 0, stdout: '', stderr: 'there are no such active keys\n' });
  expect((await verb('owner', 'nobody', '--delete')).stderr).toBe('there is nothing of "nobody" to delete\n');
});

test('keys owner --delete removes what alone is left of an owner', async () => {
  const store = await startStore('embedded');
  await using app = await createTestApp({ store });
  async function put(row: string): Promise<void> {
    await executeAt(store.env().DATABASE_URL ?? '', `INSERT INTO ${row}`);
  }
  for (const leave of [
    () => app.keys('owner', 'eve', '--keys', '3'), // settings
    () => app.keys('block', 'eve', '--yes'), // an event
    () => put("ended_uses VALUES ('eve', unixepoch() / 86400, 5)"), // uses of a deleted key, whose events are no longer kept
  ]) {
    await leave();
    const { stderr } = await keysCommand(store.env(), ['owner', 'eve', '--delete', '--yes']);
    expect(stderr).toEndWith('deleted "eve"\n');
    expect((await eventsIn(app, '--user', 'eve')).map(({ kind }) => kind)).toEqual(['owner_deleted']);
  }
  expect(await app.keys('usage')).not.toContain('eve');
});

test.each(['embedded', 'replica'] as const)(
  'an owner who comes back after keys owner --delete begins anew (%s)',
  async (mode) => {
    await using store = await startStore(mode);
    await using app = await createTestApp({ store: storeOn(store.env()), env: { ...ADMINS, OWNER_QUOTA: '3/month' } });
    const key = await keyOf(app);
    for (const status of [200, 200, 200, 429]) expect((await app.useKey(key)).status).toBe(status);
    await advanceUntil(app.clock, async () => (await listedOwner(app)).quotaShare === 1, 1000);
    await app.keys('owner', 'alice', '--delete', '--yes');
    const again = await keyOf(app);
    await advanceUntil(app.clock, async () => (await app.useKey(again)).status === 200, 250);
    expect((await app.useKey(again)).headers.get('ratelimit')).toContain('"owner-quota";r=1');
  },
);

test('OWNER_* is of owners without a plan; a number is the only way to have more', async () => {
  const env = { ...ADMINS, OWNER_RATE_LIMIT: '2/1m', OWNER_QUOTA: '100/month', OWNER_KEYS: '1' };
  await using app = await createTestApp({ clock: onMidnight(), env });
  const key = await keyOf(app);
  expect([await app.useKey(key), await app.useKey(key), await app.useKey(key)].map(({ status }) => status)).toEqual([
    200, 200, 429,
  ]);
  expect((await app.call('create_api_key', { name: 'k', scopes: [] }, await bearer(app, 'alice'))).status).toBe(409);
  expect((await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.owner).toMatchObject({
    rateLimit: { requests: 2, window: '1m' },
    quota: { requests: 100, period: 'month' },
    keysMax: 1,
  });
  await setOwner(app, { owner: 'alice', rateLimit: { requests: 3, window: '1m' } });
  expect([await app.useKey(key), await app.useKey(key)].map(({ status }) => status)).toEqual([200, 429]);
});

const costing =
  (cost: number) =>
  ({ guards }: ToolDeps) =>
    defineTool(guards.apiKey, { ...noInput(`costs_${cost}`), cost, output: v.strictObject({}), run: () => ok({}) });

test('where the limit of a key and the quota of its owner refuse, the sentence is that of the quota', async () => {
  await using app = await createTestApp({ env: ADMINS });
  await app.keys('owner', 'alice', '--quota', '1/day');
  const key = (await app.keys('create', '--user', 'alice', '--name', 'k', '--limit', '1/1m')).trim();
  await app.useKey(key);
  const { status, body } = await app.useKey(key);
  expect([status, body.code, body.of]).toEqual([429, 'quota_exceeded', undefined]);
  expect(body.detail).toBe('The quota of all your keys together is used up; try again when its period is over');
  expect(body).not.toHaveProperty('waitsFor');
});

test('a call spends what it costs of each limit, all or nothing', async () => {
  await using app = await createTestApp({
    clock: onMidnight(),
    env: { ...ADMINS, ACCESS_LOG: '1' },
    tools: (deps) => [1, 5, 11].map((cost) => costing(cost)(deps)),
  });
  await app.keys('owner', 'alice', '--quota', '10/day');
  const key = (await app.keys('create', '--user', 'alice', '--name', 'k', '--limit', '12/1m')).trim();
  const use = (name: string) => app.call(name, {}, { 'x-api-key': key });
  const aboveOwners = await use('costs_11');
  expect([aboveOwners.headers.get('retry-after'), aboveOwners.body]).toEqual([
    null,
    expect.objectContaining({
      of: 'owner',
      detail: 'This call costs more than a limit of all your keys together allows at all, so it is never admitted',
    }),
  ]);
  expect(limitsOf(await use('costs_5'))[1]).toBe('"key";r=7;t=60, "owner-quota";r=5;t=86400');
  expect((await verify(app, key, '?cost=2')).headers.get('ratelimit')).toBe(
    '"key";r=5;t=60, "owner-quota";r=3;t=86400',
  );
  const over = await use('costs_5');
  expect(over).toMatchObject({ status: 429, body: { code: 'quota_exceeded', of: 'owner' } });
  expect(limitsOf(over)[1]).toBe('"key";r=5;t=60, "owner-quota";r=3;t=86400');
  const never = await use('costs_11');
  expect([never.status, never.headers.get('retry-after'), never.body.detail]).toEqual([
    429,
    null,
    'This call costs more than a limit allows at all, so it is never admitted',
  ]);
  expect((await verify(app, key, '?cost=3')).status).toBe(200);
  const unlimited = (await app.keys('create', '--user', 'bob', '--name', 'k')).trim();
  for (const query of ['?cost=0', '?cost=1001', '?cost=1.5', '?cost=five', '?cost=', '?cost=1&cost=1']) {
    const response = await verify(app, unlimited, query);
    expect([query, response.status, (await response.json()).code]).toEqual([query, 400, 'invalid_input']);
  }
  // After the first path all is the client's.
  expect((await verify(app, key, '?path=/a?b&cost=0')).status).toBe(429);
  const listed = (await post(app, { jsonrpc: '2.0', id: 1, method: 'tools/list' })).body.result.tools;
  const metaOf = (name: string) => listed.find((tool: { name: string }) => tool.name === name)._meta;
  expect([metaOf('costs_5'), metaOf('costs_1')]).toEqual([{ 'mcp-key-server/cost': 5 }, undefined]);
  const costs = (await app.log()).filter(({ event }) => event === 'request').flatMap(({ cost }) => cost ?? []);
  expect(costs).toEqual([11, 5, 2, 5, 11, 3]);
});

test.each([0, 1.5, 1001, '5'])('a tool that costs %p stops the start', async (cost) => {
  const made = createTestApp({ tools: (deps) => [costing(cost as number)(deps)] });
  expect(await failureOf(made)).toContain('cost: expected a whole number from 1 to 1000');
});

test.each(rows(['file', 'remote', 'replica'] as const, 1))(
  'on two processes that share a %s a new plan is seen within the bound, also by an unseen key, and calls read nothing',
  async (mode) => {
    const clock = onMidnight();
    await using stack = new AsyncDisposableStack();
    const [first, second] = await bothOn(stack, mode, clock);
    const keys = [await keyOf(first), await keyOf(first)] as const;
    const limits = async (key: string) => (await second.useKey(key)).headers.get('ratelimit') ?? '';
    const isLimited = async (key: string) => (await limits(key)).includes('"owner"');
    expect(await isLimited(keys[0])).toBe(false);
    await setOwner(first, { owner: 'alice', rateLimit: { requests: 100, window: '1h' } });
    await advanceUntil(clock, () => isLimited(keys[0]), 250);
    if (mode === 'replica') {
      const inUse = async () => (await (await fetch(`${second.url}/mcp/health`)).json()).store.replica === 'in_use';
      await advanceUntil(clock, inUse, 250);
    }
    expect(await isLimited(keys[1])).toBe(true);
    const before = await second.storeReads();
    for (let calls = 0; calls < 20; calls += 1) for (const key of keys) await second.useKey(key);
    expect(await second.storeReads()).toBe(before);
  },
);

test.each([0, 3])(
  'a plan counts on a key in memory, also if %d times 4,000 other owners get one, too',
  async (times) => {
    await using app = await createTestApp({ store: 'embedded' });
    const [key, other] = [await keyOf(app), await keyOf(app, 'bob')];
    expect((await app.useKey(key)).headers.get('ratelimit')).not.toContain('"owner"');
    const client = openDatabase(databaseOf(app));
    const others = (time: number) => Array.from({ length: 4000 }, (_, nth) => `other ${time} ${nth}`);
    for (const names of [['alice'], ...Array.from({ length: times }, (_, time) => others(time))]) {
      const sql = 'INSERT INTO owners (owner, limit_requests, limit_window_s) SELECT value, 7, 60 FROM json_each(?)';
      await client.execute({ sql, args: [JSON.stringify(names)] });
      app.clock.advance(1001);
      await app.useKey(other);
    }
    client.close();
    expect((await app.useKey(key)).headers.get('ratelimit')).toContain('"owner";r=6');
  },
);

test('a backup holds plans and what was counted, and a restore takes both from it', async () => {
  const clock = onMidnight();
  await using app = await createTestApp({ store: 'embedded', clock, env: ADMINS });
  const key = await keyOf(app);
  await setOwner(app, { owner: 'alice', quota: { requests: 3, period: 'day' }, metadata: { plan: 'pro' } });
  await app.useKey(key);
  await app.close();
  const file = join(temporaryFolder(), 'backup.db');
  const env = { DATABASE_URL: databaseOf(app) };
  const keys = async (...args: string[]) => (await keysCommand(env, args)).stdout;
  await keys('backup', file);
  await keys('owner', 'alice', '--quota', 'default', '--meta', 'none');
  await keys('restore', file, '--yes');
  expect(JSON.parse(await keys('owner', 'alice', '--json'))).toMatchObject({
    quota: { requests: 3, period: 'day' },
    metadata: { plan: 'pro' },
  });
  await using again = await createTestApp({ store: storeOn(env), clock });
  expect((await again.useKey(key)).headers.get('ratelimit')).toContain('"owner-quota";r=1');
});

test.skipIf(Bun.which('curl') === null)(
  'the document: a plan at sign-up, two keys, the plan as a service reads it, and an upgrade',
  async () => {
    await using app = await createTestApp({ env: ADMINS });
    const [script = ''] =
      readDocument('src/keys/README.md')
        .section('A plan for each customer')
        .match(/(?<=```sh\n)[^`]+/) ?? [];
    const env = { HOME: app.folder, JWT_SECRET: TEST_SECRET };
    const typed = script.replace('http://127.0.0.1:3000', app.url);
    const { stdout } = await run(['sh', '-c', typed], { cwd: ROOT, env });
    const [, web, batch, upgraded] = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(upgraded).toMatchObject({ owner: 'acme', quota: { requests: 9000, period: 'day' }, keys: 2 });
    for (const { key } of [web, batch]) {
      const { headers } = await verify(app, key);
      expect(headers.get('x-key-metadata')).toBe('%7B%22plan%22:%22pro%22%7D');
      expect(headers.get('ratelimit-policy')).toContain('"owner-quota";q=9000');
    }
  },
);

test('an owner whom another process has blocked is refused once an admin was told that he is', async () => {
  await using app = await createTestApp({ clock: onMidnight(), env: ADMINS });
  const key = await keyOf(app);
  expect((await app.useKey(key)).status).toBe(200);
  await app.keys('block', 'alice');
  const told = await setOwner(app, { owner: 'alice', blocked: true });
  expect([told.body.blocked, (await app.useKey(key)).status]).toEqual([true, 401]);
});
