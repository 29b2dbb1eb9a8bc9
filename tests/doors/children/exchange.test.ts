// A key makes children for its agents (RFC 8693): what they may do, what ends them, where they show.

import { describe, expect, test } from 'bun:test';
import { announced, storedChildren } from '../../store/stored.ts';
import { ACCESS_TOKEN, childOf, exchange } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { testClock } from '../../support/clock.ts';
import { databaseOf, executeAt } from '../../support/database-client.ts';
import { handOver, register } from '../../support/hand-over.ts';
import { refusal } from '../../support/refusal.ts';
import {
  bearer,
  COUNTED,
  createTestApp,
  eventsIn,
  listedKeys,
  sharedApp,
  type TestApp,
} from '../../support/test-app.ts';

const PARENT = { name: 'orchestrator', scopes: ['read', 'write', 'delegate'], expiresInDays: 30 };
const HOUR_MS = 3_600_000;
const DAY_S = 86_400;

const whoami = (app: TestApp, key: string) => app.call('whoami', {}, { 'x-api-key': key });
const statusOf = async (app: TestApp, key: string) => (await whoami(app, key)).status;
const verify = (app: TestApp, key: string) => fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });

describe('an exchange', async () => {
  const app = await sharedApp({ store: 'embedded' }); // whose rows are looked at
  const parent = await app.createKey('alice', PARENT);

  test('gives a child that does less, says whose it is, and counts as its parent', async () => {
    const { status, body, headers } = await exchange(app, parent.key, { expires_in: '600', client_name: 'step 1' });
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    const { access_token: key, key_id: id } = body;
    expect(body).toEqual({
      access_token: expect.stringMatching(/^sk_test_[0-9a-f]{64}$/),
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: 600,
      scope: 'read',
      key_id: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    const expiresAt = app.clock.nowMs() + 600_000;
    expect((await whoami(app, key)).body).toMatchObject({
      keyId: id,
      name: 'step 1',
      owner: 'alice',
      parentId: parent.id,
      scopes: ['read'],
      expiresAt,
      usesToday: 1,
    });
    const verified = await verify(app, key);
    expect([verified.status, verified.headers.get('x-key-parent'), verified.headers.get('x-key-id')]).toEqual([
      200,
      parent.id,
      id,
    ]);
    expect(verified.headers.get('x-key-expires')).toBe(new Date(expiresAt).toISOString());
    expect(verified.headers.get('ratelimit')).toStartWith('"key";r=998;');
    expect((await verify(app, parent.key)).headers.get('x-key-parent')).toBe('');
    expect((await whoami(app, parent.key)).body).toMatchObject({ usesToday: 4, rateLimit: { remaining: 996 } });
    const events = await eventsIn(app, '--key', parent.id);
    expect(events.at(-1)).toMatchObject({
      keyId: parent.id,
      owner: 'alice',
      kind: 'delegated',
      how: 'exchange',
      actor: id,
    });
    const lines = await app.log();
    expect(lines.find((line) => line.event === 'API key created' && line.keyId === id)).toMatchObject({
      parentId: parent.id,
      userId: 'alice',
    });
    expect(JSON.stringify([lines, events])).not.toContain(parent.key);
    expect(JSON.stringify([lines, events])).not.toContain(key);
  });

  test.each<[string, Record<string, string | undefined>, number]>([
    ['the shortest life', { expires_in: '60' }, 60],
    ['the longest', { expires_in: '86400' }, 86_400],
    ['no life named', { expires_in: '' }, 3600],
    ['the parent’s name', { client_name: '', resource: '' }, 3600],
    ['a scope twice', { scope: 'read  read write' }, 3600],
    ['the type named', { requested_token_type: ACCESS_TOKEN }, 3600],
  ])('%s', async (_, fields, expiresIn) => {
    const { status, body } = await exchange(app, parent.key, fields);
    expect([status, body.expires_in]).toEqual([200, expiresIn]);
  });

  test.each<[string, Record<string, string | undefined>, string]>([
    ['no token', { subject_token: undefined }, 'invalid_request'],
    ['no type', { subject_token_type: undefined }, 'invalid_request'],
    ['another type', { subject_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' }, 'invalid_request'],
    ['another wanted', { requested_token_type: 'urn:ietf:params:oauth:token-type:jwt' }, 'invalid_request'],
    ['an actor', { actor_token: 'x' }, 'invalid_request'],
    ['an audience', { audience: 'x' }, 'invalid_request'],
    ['too short a life', { expires_in: '59' }, 'invalid_request'],
    ['too long a life', { expires_in: '86401' }, 'invalid_request'],
    ['a life that is no number', { expires_in: '6e2' }, 'invalid_request'],
    ['a name of nothing', { client_name: ' ' }, 'invalid_request'],
    ['a name with a control', { client_name: 'a\nb' }, 'invalid_request'],
    ['a name too long', { client_name: 'x'.repeat(201) }, 'invalid_request'],
    ['no scope', { scope: undefined }, 'invalid_scope'],
    ['an empty scope', { scope: '' }, 'invalid_scope'],
    ['spaces', { scope: '  ' }, 'invalid_scope'],
    ['a scope that it lacks', { scope: 'read admin' }, 'invalid_scope'],
    ['delegate', { scope: 'read delegate' }, 'invalid_scope'],
    ['another server', { resource: 'https://elsewhere.example' }, 'invalid_target'],
    ['a key as a JWT', { subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' }, 'invalid_grant'],
    [
      'a key as a JWT, and too short a life',
      { subject_token_type: 'urn:ietf:params:oauth:token-type:jwt', expires_in: '59' },
      'invalid_request',
    ],
    ['another grant', { grant_type: 'client_credentials' }, 'unsupported_grant_type'],
  ])('with %s is refused, and makes nothing', async (_, fields, error) => {
    const before = await storedChildren(databaseOf(app));
    const { status, body, headers } = await exchange(app, parent.key, fields);
    expect([status, body, headers.get('cache-control')]).toEqual([400, refusal(error), 'no-store']);
    expect(await storedChildren(databaseOf(app))).toEqual(before);
  });

  test('by whoever may not is one answer, before scope and resource are looked at', async () => {
    const made = async (change?: (key: { id: string; key: string }) => Promise<unknown>, scopes = PARENT.scopes) => {
      const key = await app.createKey('alice', { ...PARENT, scopes });
      await change?.(key);
      return key.key;
    };
    const headers = await bearer(app, 'alice');
    const candidates = [
      'nonsense',
      `sk_test_${'0'.repeat(64)}`,
      await made(undefined, ['read']),
      await made(({ id }) => app.call('revoke_api_key', { keyId: id }, headers)),
      await made(({ id }) => app.call('delete_api_key', { keyId: id }, headers)),
      await made(({ id }) => app.keys('update', id, '--days', '-1').catch(() => app.keys('revoke', id, '--yes'))),
      (await childOf(app, parent.key)).key,
      parent.key.replace(/.$/, 'z'),
    ];
    for (const key of candidates) {
      for (const fields of [{}, { scope: '' }, { resource: 'https://elsewhere.example' }]) {
        const { status, body } = await exchange(app, key, fields);
        expect([status, body]).toEqual([400, refusal('invalid_grant')]);
      }
    }
  });
});

type End = (app: TestApp, made: { id: string; key: string; owner: string }) => Promise<unknown>;
const byTool =
  (tool: string, more: object = {}): End =>
  async (app, { id, owner }) =>
    app.call(tool, { keyId: id, ...more }, await bearer(app, owner));

/** How any key ends, and how the trail calls it. */
const ENDS: readonly [string, End, string][] = [
  ['revoke_api_key', byTool('revoke_api_key'), 'tool'],
  ['delete_api_key', byTool('delete_api_key'), 'tool'],
  [
    'POST /revoke',
    (app, { key }) => fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) }),
    'possession',
  ],
  ['keys revoke', (app, { id }) => app.keys('revoke', id, '--yes'), 'command'],
];

/** A parent of an owner of its own, in an app for many; and whose rows may be changed by hand. */
describe('a child ends', async () => {
  const app = await sharedApp({ store: 'embedded' });
  let owners = 0;
  async function makeParent() {
    owners += 1;
    const owner = `owner ${owners}`;
    return { owner, ...(await app.createKey(owner, PARENT)) };
  }

  test.each<[string, End]>([
    ...ENDS.map(([how, end]): [string, End] => [how, end]),
    ['narrowed', (app, { id }) => app.keys('update', id, '--scope', 'read')],
    ['blocked', (app, { owner }) => app.keys('block', owner, '--yes')],
    ['rotated at once', byTool('rotate_api_key', { overlapHours: 0 })],
    ['revoked in a shell', (app, { id }) => run(app, `UPDATE api_keys SET active = 0 WHERE id = '${id}'`)],
    ['expired', async (app) => app.clock.advance(31 * 24 * HOUR_MS)],
  ])('with its parent: %s', async (_, end) => {
    const parent = await makeParent();
    const child = await childOf(app, parent.key, { expires_in: '86400' });
    expect(await statusOf(app, child.key)).toBe(200);
    await end(app, parent);
    app.clock.advance(1001); // the bound
    expect(await statusOf(app, child.key)).toBe(401);
    expect((await verify(app, child.key)).headers.get('x-key-parent')).toBe('');
  });

  test.each<[string, readonly string[]]>([
    ['its owner', ['--user', 'somebody else']],
    ['its scopes', ['--scope', 'write']],
    ['when it was made', ['--created-after', '2999-01-01']],
  ])('by keys revoke only if the rest fits, too: %s', async (_, options) => {
    const parent = await makeParent();
    const child = await childOf(app, parent.key);
    await app.keys('revoke', child.id, ...options, '--yes');
    app.clock.advance(1001);
    expect(await statusOf(app, child.key)).toBe(200);
    await app.keys(
      'revoke',
      child.id,
      '--user',
      parent.owner,
      '--scope',
      'read',
      '--created-after',
      '2020-01-01',
      '--yes',
    );
    app.clock.advance(1001);
    expect(await statusOf(app, child.key)).toBe(401);
  });

  test.each<[string, End, string]>([
    ...ENDS,
    ['a shell', (app, { id }) => run(app, `UPDATE children SET ended_at_ms = 1 WHERE id = '${id}'`), 'sql'],
    ['a shell, deleted', (app, { id }) => run(app, `DELETE FROM children WHERE id = '${id}'`), 'sql'],
  ])('alone, by %s, with an event under its parent', async (_, end, how) => {
    const { owner, ...parent } = await makeParent();
    const [child, other] = [await childOf(app, parent.key), await childOf(app, parent.key)];
    expect([await statusOf(app, child.key), await statusOf(app, other.key)]).toEqual([200, 200]);
    await end(app, { ...child, owner });
    app.clock.advance(1001);
    expect([await statusOf(app, child.key), await statusOf(app, other.key)]).toEqual([401, 200]);
    expect((await eventsIn(app)).at(-1)).toMatchObject({ kind: 'child_ended', keyId: parent.id, owner, how });
    expect(await listedKeys(app, owner)).toMatchObject([{ id: parent.id, children: 1, active: true }]);
  });
});

describe('a child goes with its parent', () => {
  test('a rotated parent keeps them until the old secret ends, which is the end that they name', async () => {
    await using app = await createTestApp();
    const parent = await app.createKey('alice', PARENT);
    const child = await childOf(app, parent.key, { expires_in: '86400' });
    const rotate = { keyId: parent.id, overlapHours: 1 };
    const { key: next } = (await app.call('rotate_api_key', rotate, await bearer(app, 'alice'))).body;
    expect(await statusOf(app, child.key)).toBe(200);
    const younger = await childOf(app, next, { expires_in: '86400' }); // its first use
    const endsAt = app.clock.nowMs() + HOUR_MS;
    expect((await whoami(app, child.key)).body.expiresAt).toBe(endsAt);
    expect((await exchange(app, parent.key, { expires_in: '86400' })).body.expires_in).toBe(3600);
    app.clock.advance(HOUR_MS - 30_000);
    expect((await exchange(app, parent.key)).body.expires_in).toBe(30);
    app.clock.advance(30_001);
    expect([await statusOf(app, child.key), await statusOf(app, younger.key)]).toEqual([401, 200]);
    expect((await exchange(app, parent.key)).body).toEqual(refusal('invalid_grant'));
  });

  test('an unblocked owner, scopes that are given again', async () => {
    await using app = await createTestApp();
    const parent = await app.createKey('alice', PARENT);
    const child = await childOf(app, parent.key, { scope: 'read write' });
    await app.keys('block', 'alice', '--yes');
    app.clock.advance(1001);
    expect(await statusOf(app, child.key)).toBe(401);
    await app.keys('unblock', 'alice');
    await app.keys('update', parent.id, '--scope', 'read', '--scope', 'delegate');
    app.clock.advance(2001);
    expect((await whoami(app, child.key)).body.scopes).toEqual(['read']);
    await app.keys('update', parent.id, '--scope', 'read', '--scope', 'write', '--scope', 'delegate');
    app.clock.advance(1001);
    expect((await whoami(app, child.key)).body.scopes).toEqual(['read', 'write']);
  });

  test('the scope delegate typed into its row, which no child has', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const parent = await app.createKey('alice', PARENT);
    const child = await childOf(app, parent.key);
    await run(app, `UPDATE children SET scopes = '["read","delegate"]' WHERE id = '${child.id}'`);
    app.clock.advance(1001);
    expect((await whoami(app, child.key)).body.scopes).toEqual(['read']);
    expect((await exchange(app, child.key)).body.error).toBe('invalid_grant');
  });
});

describe('a child alone', () => {
  test('is nobody’s but its owner’s to end, is not rotated, not pasted, and not among the keys', async () => {
    await using app = await createTestApp({ env: { OAUTH_REDIRECTS: 'loopback' } });
    const parent = await app.createKey('alice', PARENT);
    const child = await childOf(app, parent.key);
    const [alice, bob] = [await bearer(app, 'alice'), await bearer(app, 'bob')];
    await app.call('revoke_api_key', { keyId: child.id }, bob);
    expect(await statusOf(app, child.key)).toBe(200);
    const rotated = await app.call('rotate_api_key', { keyId: child.id }, alice);
    expect([rotated.status, rotated.body.code]).toEqual([409, 'key_is_child']);
    expect((await app.call('rotate_api_key', { keyId: child.id }, bob)).body.code).toBe('key_not_found');
    const pasted = await handOver((await register(app)).page(), { key: child.key });
    expect([pasted.status, await pasted.text()]).toEqual([
      403,
      expect.stringContaining('This key ends with another. Make one for this connection.'),
    ]);
    expect((await listedKeys(app, 'alice')).map(({ id }) => id)).toEqual([parent.id]);
  });

  test('of a parent that a shell gives to another owner is his to end, and no longer hers', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const parent = await app.createKey('alice', PARENT);
    const [child, other] = [await childOf(app, parent.key), await childOf(app, parent.key)];
    await run(app, "UPDATE api_keys SET user_id = 'bob'");
    await app.call('revoke_api_key', { keyId: child.id }, await bearer(app, 'bob'));
    await app.call('revoke_api_key', { keyId: other.id }, await bearer(app, 'alice'));
    app.clock.advance(1001);
    expect([await statusOf(app, child.key), await statusOf(app, other.key)]).toEqual([401, 200]);
    const rotated = await app.call('rotate_api_key', { keyId: other.id }, await bearer(app, 'bob'));
    expect(rotated.body.code).toBe('key_is_child');
  });

  test('stands in the list of its parent’s children, in pages, with what the parent leaves it', async () => {
    await using app = await createTestApp();
    const parent = await app.createKey('alice', { ...PARENT, scopes: ['read', 'write', 'delegate', ...LONG] });
    const first = await childOf(app, parent.key, { scope: ['read', 'write', ...LONG].join(' '), client_name: 'first' });
    for (let made = 0; made < 59; made += 1) await childOf(app, parent.key, { scope: ['read', ...LONG].join(' ') });
    await app.keys(
      'update',
      parent.id,
      '--scope',
      'read',
      '--scope',
      'delegate',
      ...LONG.flatMap((s) => ['--scope', s]),
    );
    const headers = await bearer(app, 'alice');
    const list = (input: object, by = headers) => app.call('list_api_keys', { childrenOf: parent.id, ...input }, by);
    const page = await list({});
    const rest = await list({ cursor: page.body.nextCursor });
    expect(rest.body.nextCursor).toBeUndefined();
    const all = [...page.body.keys, ...rest.body.keys];
    expect(all).toHaveLength(60);
    expect(page.body.keys.length).toBeLessThan(60);
    expect(all.at(-1)).toEqual({
      id: first.id,
      name: 'first',
      scopes: ['read', ...LONG],
      active: true,
      createdAt: app.clock.nowMs(),
      expiresAt: app.clock.nowMs() + HOUR_MS,
      resource: null,
    });
    expect((await list({}, await bearer(app, 'bob'))).body).toEqual({ keys: [] });
    expect((await app.call('list_api_keys', { childrenOf: 'x' }, headers)).body).toEqual({ keys: [] });
    app.clock.advance(HOUR_MS + 1);
    expect((await list({})).body).toEqual({ keys: [] });
    expect((await listedKeys(app, 'alice'))[0]).not.toHaveProperty('children');
  });
});

test('keys show says of a child what it is good for now, and that it has ended with its parent', async () => {
  await using app = await createTestApp({ clock: testClock(Date.now()) });
  const { id, key } = await app.createKey('alice', PARENT);
  const child = await childOf(app, key, { scope: 'read write' });
  const shown = async () => JSON.parse(await app.keys('show', child.id, '--json'));
  expect(await shown()).toMatchObject({ active: true, scopes: ['read', 'write'], parentId: id });
  await app.keys('update', id, '--scope', 'read', '--scope', 'delegate');
  expect(await shown()).toMatchObject({ active: true, scopes: ['read'] });
  expect(await app.keys('show', child.id)).toMatch(/^scopes +read$/m);
  await app.keys('revoke', id, '--yes');
  expect(await shown()).toMatchObject({ active: false });
});

test('the list of children names the end that counts: their own, of the secret that made them, of their parent', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice', PARENT);
  await childOf(app, key, { expires_in: String(DAY_S) });
  const headers = await bearer(app, 'alice');
  const hoursLeft = async () => {
    const [child] = (await app.call('list_api_keys', { childrenOf: id }, headers)).body.keys;
    return (child.expiresAt - app.clock.nowMs()) / HOUR_MS;
  };
  expect(await hoursLeft()).toBe(24);
  const next = (await app.call('rotate_api_key', { keyId: id, overlapHours: 2 }, headers)).body.key;
  await app.useKey(next);
  expect(await hoursLeft()).toBe(2);
  const sooner = { keyId: id, expiresInDays: 1 / 24 };
  expect((await postJson(`${app.url}/keys/update`, sooner, headers)).status).toBe(200);
  expect(await hoursLeft()).toBe(1);
});

const LONG = Array.from({ length: 19 }, (_, at) => `${at}`.padStart(95, 'x'));

describe('how many', () => {
  test('100 living ones of a parent; then 429 until the first ends; ended ones make room', async () => {
    await using app = await createTestApp();
    const parent = await app.createKey('alice', PARENT);
    const first = await childOf(app, parent.key, { expires_in: '60' });
    for (let made = 1; made < 100; made += 1) {
      if (made % 50 === 0) app.clock.advance(1000);
      await childOf(app, parent.key);
    }
    app.clock.advance(29_000);
    const refused = await exchange(app, parent.key);
    expect([refused.status, refused.body, refused.headers.get('retry-after')]).toEqual([
      429,
      refusal('rate_limited'),
      '30',
    ]);
    expect((await app.log()).at(-1)).toMatchObject({ event: 'Rate limit exceeded', keyId: parent.id, of: 'key' });
    app.clock.advance(30_000); // the last millisecond of the first
    expect((await exchange(app, parent.key)).headers.get('retry-after')).toBe('1');
    const alice = await bearer(app, 'alice');
    await app.call('revoke_api_key', { keyId: first.id }, alice);
    expect((await exchange(app, parent.key)).status).toBe(200);
    expect((await exchange(app, parent.key)).status).toBe(429);
    const { key } = (await app.call('rotate_api_key', { keyId: parent.id, overlapHours: 0 }, alice)).body;
    expect((await exchange(app, key)).status).toBe(200); // all of them ended with the secret
  });

  test('an owner makes 100 at once, then one a second, of all keys; another owner is not held up', async () => {
    await using app = await createTestApp();
    const [one, other] = [await app.createKey('alice', PARENT), await app.createKey('alice', PARENT)];
    for (let made = 0; made < 50; made += 1) {
      await childOf(app, one.key);
      await childOf(app, other.key);
    }
    const refused = await exchange(app, other.key);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
    expect((await exchange(app, (await app.createKey('bob', PARENT)).key)).status).toBe(200);
    app.clock.advance(1000);
    expect((await exchange(app, other.key)).status).toBe(200);
  });
});

test('1,000 living ones of an owner; what is refused then is one line a second, whichever of the keys asks', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const [many, one] = [await app.createKey('alice', PARENT), await app.createKey('alice', PARENT)];
  await childOf(app, many.key);
  await run(
    app,
    `INSERT INTO children (id, owner, key_hash, parent_id, parent_hash, name, scopes, created_at_ms, expires_at_ms)
    SELECT lower(hex(randomblob(16))), owner, lower(hex(randomblob(32))), parent_id, parent_hash, name, scopes, created_at_ms,
    expires_at_ms FROM children, json_each('[${'0,'.repeat(997)}0]')`,
  );
  await childOf(app, one.key, { expires_in: '60' });
  for (let keys = 0; keys < 2; keys += 1) {
    expect((await exchange(app, (await app.createKey('alice', PARENT)).key)).status).toBe(429);
  }
  const lines = (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
  expect(lines).toMatchObject([{ userId: 'alice', of: 'owner' }]);
  expect((await exchange(app, many.key)).headers.get('retry-after')).toBe('3600'); // when both have room
});

test('a key with as many living children as it may have takes nothing more from its owner’s budget, and not all of a day', async () => {
  await using app = await createTestApp();
  const [leaked, good] = [await app.createKey('alice', PARENT), await app.createKey('alice', PARENT)];
  for (let made = 0; made < 100; made += 1) await childOf(app, leaked.key, { expires_in: '86400' });
  app.clock.advance(100_000);
  for (let asked = 0; asked < 100; asked += 1) expect((await exchange(app, leaked.key)).status).toBe(429);
  const refused = await exchange(app, leaked.key);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']); // its own budget
  for (let made = 0; made < 100; made += 1) await childOf(app, good.key);
});

test('a known child costs no read, an unknown one a read; a change of its parent is one row', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { ...COUNTED, REVOCATION_LAG_MAX_MS: '60000' } });
  const parent = await app.createKey('alice', PARENT);
  const children = [];
  for (let made = 0; made < 10; made += 1) children.push(await childOf(app, parent.key));
  const reads = await app.storeReads();
  for (const { key } of children) expect(await statusOf(app, key)).toBe(200);
  expect(await app.storeReads()).toBe(reads + 10);
  for (const { key } of children) expect(await statusOf(app, key)).toBe(200);
  expect(await app.storeReads()).toBe(reads + 10);
  const changes = async () => (await announced(databaseOf(app))).length;
  const before = await changes();
  await app.call('revoke_api_key', { keyId: parent.id }, await bearer(app, 'alice'));
  expect(await changes()).toBe(before + 1);
  for (const { key } of children) expect(await statusOf(app, key)).toBe(401);
  expect(await app.storeReads()).toBe(reads + 20); // each child once more
});

test('limit and quota are the parent’s, together', async () => {
  await using app = await createTestApp();
  const limited = { ...PARENT, rateLimit: { requests: 3, window: '1h' } };
  const parent = await app.createKey('alice', limited);
  const [one, other] = [await childOf(app, parent.key), await childOf(app, parent.key)];
  const statuses = [];
  for (const key of [one.key, other.key, parent.key, other.key, parent.key]) statuses.push(await statusOf(app, key));
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
  expect((await exchange(app, parent.key)).status).toBe(200); // no use
});

test('a bound parent binds its children; an unbound one may bind them', async () => {
  const env = { OAUTH_RESOURCES: 'https://mcp.example/mcp https://other.example' };
  await using app = await createTestApp({ env });
  const bound = await app.createKey('alice', { ...PARENT, resource: 'https://mcp.example/mcp' });
  const child = await childOf(app, bound.key, { resource: 'https://mcp.example/mcp' });
  expect((await exchange(app, bound.key, { resource: 'https://other.example' })).body).toEqual(
    refusal('invalid_target'),
  );
  const unbound = await app.createKey('alice', PARENT);
  const other = await childOf(app, unbound.key, { resource: 'https://other.example' });
  const at = async (key: string, resource: string) =>
    (await fetch(`${app.url}/verify?resource=${resource}`, { headers: { 'x-api-key': key } })).status;
  for (const [key, mine] of [
    [child.key, 'https://mcp.example/mcp'],
    [other.key, 'https://other.example'],
  ] as const) {
    expect([await at(key, mine), await at(key, 'https://nowhere.example'), await statusOf(app, key)]).toEqual([
      200, 401, 401,
    ]);
  }
});

test('a parent that a shell binds later binds the children that it has', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { OAUTH_RESOURCES: 'https://other.example' } });
  const parent = await app.createKey('alice', PARENT);
  const { key } = await childOf(app, parent.key);
  expect(await statusOf(app, key)).toBe(200);
  await run(app, `UPDATE api_keys SET resource = 'https://other.example' WHERE id = '${parent.id}'`);
  app.clock.advance(1001);
  const verified = await fetch(`${app.url}/verify?resource=https://other.example`, { headers: { 'x-api-key': key } });
  expect([verified.status, await statusOf(app, key)]).toEqual([200, 401]);
});

test('the access log names the parent of a child that was used, and of one that was refused', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const parent = await app.createKey('alice', PARENT);
  const child = await childOf(app, parent.key);
  const seen = (await app.log()).length;
  await statusOf(app, child.key);
  await app.call('revoke_api_key', { keyId: child.id }, await bearer(app, 'alice'));
  await statusOf(app, child.key);
  const lines = (await app.log()).slice(seen).filter(({ event, keyId }) => event === 'request' && keyId === child.id);
  expect(lines.map(({ status, parentId }) => [status, parentId])).toEqual([
    [200, parent.id],
    [401, parent.id],
  ]);
});

test('/introspect names the parent, and ends with the earlier end', async () => {
  await using app = await createTestApp();
  const service = await app.createKey('service', { scopes: ['introspect'] });
  const parent = await app.createKey('alice', { ...PARENT, expiresInDays: 0.01 });
  const child = await childOf(app, parent.key, { expires_in: '86400' });
  const body = new URLSearchParams({ token: child.key });
  const headers = { 'x-api-key': service.key };
  const answer = await (await fetch(`${app.url}/introspect`, { method: 'POST', headers, body })).json();
  expect(answer).toMatchObject({
    active: true,
    client_id: child.id,
    parent: parent.id,
    scope: 'read',
    exp: Math.floor(app.clock.nowMs() / 1000) + 864,
  });
});

const run = (app: TestApp, sql: string) => executeAt(databaseOf(app), sql);
