// POST /changes: what services that check keys from memory are told, when, and at what cost.

import { describe, expect, spyOn, test } from 'bun:test';
import { createHmac } from 'node:crypto';
import { childOf } from '../../support/children.ts';
import { databaseOf, openDatabase } from '../../support/database-client.ts';
import { labelled } from '../../support/labels.ts';
import { changeKeys, changesOf, leaseOf, serviceOf } from '../../support/service.ts';
import { bearer, COUNTED, createTestApp, listedKeys, metricsOf, sharedApp } from '../../support/test-app.ts';

const BOUND = 975;
const MARK = /^[0-9a-f]{16}$/;

const app = await sharedApp({ env: COUNTED });
const service = await serviceOf(app);

const now = async (cursor = '', fields: Record<string, string> = {}) => changesOf(app, service, { cursor, ...fields });

describe('what is told', () => {
  test('without a cursor: where one begins, and nothing else', async () => {
    const { status, headers, body } = await changesOf(app, service, {});
    expect({ status, body }).toEqual({
      status: 200,
      body: { cursor: expect.any(String), changed: [], fresh_ms: expect.any(Number), bound_ms: BOUND },
    });
    expect(headers.get('cache-control')).toBe('no-store');
    expect(body.cursor.length).toBeLessThanOrEqual(200);
    expect((await now()).body.cursor).toBe(body.cursor);
  });

  test('each change of a secret is its mark, which the answer had, and of no use to whoever knows the key', async () => {
    const alice = await bearer(app, 'alice');
    const { key, id } = await app.createKey('alice');
    const { cursor } = (await now()).body;
    const lease = (await leaseOf(app, service, key, { lease: cursor })).body;
    expect(lease.marks).toEqual([expect.stringMatching(MARK), expect.stringMatching(MARK)]);
    for (const text of [key, id, 'alice', 'owner:alice', Bun.SHA256.hash(key, 'hex')]) {
      expect(lease.marks).not.toContain(Bun.SHA256.hash(text, 'hex').slice(0, 16));
    }
    await app.call('revoke_api_key', { keyId: id }, alice);
    const told = (await now(cursor)).body;
    expect(told.changed).toEqual([lease.marks[0]]);
    expect(JSON.stringify(told)).not.toContain(Bun.SHA256.hash(key, 'hex').slice(0, 8));
    expect((await now(told.cursor)).body).toMatchObject({ cursor: told.cursor, changed: [] });
    expect((await now(cursor)).body.changed).toEqual(told.changed);
  });

  test('an owner who is blocked is his mark, once for all his keys', async () => {
    const made = [await app.createKey('bob'), await app.createKey('bob')];
    const { cursor } = (await now()).body;
    const marks = [];
    for (const { key } of made) marks.push((await leaseOf(app, service, key, { lease: cursor })).body.marks);
    expect(marks[0][1]).toBe(marks[1][1]);
    await app.keys('block', 'bob');
    app.clock.advance(1000);
    expect((await now(cursor)).body.changed).toEqual([marks[0][1]]);
    await app.keys('unblock', 'bob');
  });

  test.each([
    ['1,000 secrets: each', 1000, false],
    ['1,001: that all may be different', 1001, true],
  ])('%s', async (_, count, isAll) => {
    app.clock.advance(1000);
    const { cursor } = (await now()).body;
    await changeKeys(app, count);
    app.clock.advance(1000);
    const { body } = await now(cursor);
    expect(body.all).toBe(isAll ? true : undefined);
    expect(body.changed.length).toBe(isAll ? 0 : count);
    expect((await now(body.cursor)).body).toMatchObject({ changed: [], cursor: body.cursor });
  });

  test.each(labelled(['x', '1', `1.${'0'.repeat(16)}`, '0'.repeat(200), `999999.${'0'.repeat(16)}`, '-1.0', 'é']))(
    'the cursor %s is unknown: all may be different',
    async (_label, cursor) => {
      expect((await now(cursor)).body).toMatchObject({ all: true, changed: [] });
    },
  );
});

test('lists from many cursors compute each mark once', async () => {
  const cursors: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    app.clock.advance(1000);
    cursors.push((await now()).body.cursor);
    await changeKeys(app, 900); // the same ones
  }
  app.clock.advance(1000);
  const updates = spyOn(Object.getPrototypeOf(createHmac('sha256', '')), 'update');
  try {
    for (let round = 0; round < 3; round += 1) {
      const told = await Promise.all(cursors.map((cursor) => now(cursor)));
      expect(told.map(({ body }) => body.changed.length)).toEqual([900, 900, 900]);
    }
    expect(updates.mock.calls.length).toBeLessThan(1000); // 900 marks, and some codes of cursors
  } finally {
    updates.mockRestore();
  }
});

test('the cursor of another database, whatever its number, says that all may be different', async () => {
  await using other = await createTestApp();
  const asks = await serviceOf(other);
  const { cursor } = (await changesOf(other, asks, {})).body;
  const own = (await now()).body.cursor;
  expect((await now(cursor)).body).toMatchObject({ cursor: own, changed: [], all: true });
  await changeKeys(other, 2000);
  other.clock.advance(1000);
  const { cursor: ahead } = (await changesOf(other, asks, { cursor })).body;
  expect((await now(ahead)).body).toMatchObject({ cursor: own, changed: [], all: true });
});

describe('a process that starts later', () => {
  const startLater = () => createTestApp({ env: { DATABASE_URL: databaseOf(app) }, clock: app.clock });

  test('knows the same cursor, and what has changed since an older one', async () => {
    const { cursor } = (await now()).body;
    const made = [await app.createKey('hal'), await app.createKey('hal')];
    const marks = [];
    for (const { key, id } of made) {
      marks.push((await leaseOf(app, service, key, { lease: cursor })).body.marks[0]);
      await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'hal'));
    }
    const told = (await now(cursor)).body;
    expect(told.changed).toEqual(marks);
    await using later = await startLater();
    const at = (from: string) => changesOf(later, service, { cursor: from });
    expect((await at(told.cursor)).body).toMatchObject({ cursor: told.cursor, changed: [] });
    expect((await at(cursor)).body).toMatchObject({ cursor: told.cursor, changed: marks });
    const good = await app.createKey('hal');
    expect((await leaseOf(later, service, good.key, { lease: cursor })).body.lease_ms).toBe(300_000);
    expect((await at(`1${cursor.slice(cursor.indexOf('.'))}`)).body).toMatchObject({ all: true });
  });

  test('knows it after all changes were removed but the newest', async () => {
    const { cursor: before } = (await now()).body;
    await changeKeys(app, 3);
    app.clock.advance(1000);
    const { cursor } = (await now(before)).body;
    const db = openDatabase(databaseOf(app));
    await db.executeMultiple(`UPDATE feed SET pruned_seq = (SELECT max(seq) FROM main.changes);
DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed);`);
    db.close();
    await using later = await startLater();
    const at = (from: string) => changesOf(later, service, { cursor: from });
    expect((await at(cursor)).body).toMatchObject({ cursor, changed: [] });
    expect((await at(before)).body).toMatchObject({ cursor, changed: [], all: true });
  });

  test('tells all when the database is put back before it has read older changes', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { cursor } = (await changesOf(own, asks, {})).body;
    const { id } = await own.createKey('ida');
    await changeKeys(own, 2);
    await using later = await createTestApp({ env: { DATABASE_URL: databaseOf(own) }, clock: own.clock });
    expect((await changesOf(later, asks, {})).status).toBe(200); // it has polled
    const db = openDatabase(databaseOf(own));
    // The next change has the number of the newest, which is lost.
    await db.executeMultiple(`DROP TRIGGER changes_newest_kept;
DELETE FROM changes WHERE seq = (SELECT max(seq) FROM main.changes);
UPDATE sqlite_sequence SET seq = (SELECT max(seq) FROM main.changes) WHERE name = 'changes';
UPDATE api_keys SET name = 'another change' WHERE id = '${id}';`);
    db.close();
    expect((await changesOf(later, asks, { cursor })).body).toMatchObject({ all: true, changed: [] });
  });

  test('and one that runs tell all when the database was put back to an earlier state', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { id } = await own.createKey('ida');
    const at = async (cursor: string) => {
      own.clock.advance(1000);
      return (await changesOf(own, asks, { cursor })).body;
    };
    const { cursor: first } = await at('');
    const db = openDatabase(databaseOf(own));
    await db.execute('CREATE TABLE was AS SELECT * FROM main.changes');
    await own.call('revoke_api_key', { keyId: id }, await bearer(own, 'ida'));
    const { cursor: second } = await at(first);
    expect(second).not.toBe(first);
    // As a copy of the file would: the key is good again, and the next change has the number of the one that is lost.
    await db.executeMultiple(`DROP TRIGGER changes_newest_kept;
DELETE FROM changes; INSERT INTO changes SELECT * FROM was; DROP TABLE was;
UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(seq), 0) FROM main.changes) WHERE name = 'changes';
UPDATE api_keys SET name = 'another change' WHERE id = '${id}';`);
    db.close();
    expect(await at(second)).toMatchObject({ all: true, changed: [] });
  });
});

/** How many calls of the store there were. */
async function storeCalls(): Promise<number> {
  const counts = (await metricsOf(app.url)).matchAll(/^mcp_keys_store_duration_seconds_count\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

describe('when it is told', () => {
  test('at once, without a read, while the process is current; it goes on polling for who asks', async () => {
    let { cursor } = (await now()).body;
    for (let asked = 0; asked < 300; asked += 1) {
      app.clock.advance(251);
      const { body } = await now(cursor);
      expect(body).toMatchObject({ cursor, changed: [] });
      expect(body.fresh_ms).toBeGreaterThan(-BOUND);
      cursor = body.cursor;
    }
    const before = await storeCalls();
    for (let asked = 0; asked < 50; asked += 1) expect((await now(cursor)).status).toBe(200);
    expect(await storeCalls()).toBe(before);
  });

  test('after one poll, where the cursor is ahead of the process or of a database that was lost', async () => {
    await using other = await createTestApp({
      env: { DATABASE_URL: databaseOf(app), ...COUNTED },
      clock: app.clock,
    });
    const at = (cursor: string) => changesOf(other, service, { cursor });
    const polls = () => other.storeCalls('changes_after');
    expect((await at((await now()).body.cursor)).status).toBe(200); // it is current
    const { id } = await app.createKey('jan');
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'jan'));
    const { cursor } = (await now()).body;
    const before = await polls();
    const { body } = await at(cursor);
    expect(body).toMatchObject({ cursor, changed: [] });
    expect(body).not.toHaveProperty('all');
    expect(body.fresh_ms).toBeGreaterThanOrEqual(0);
    expect(await polls()).toBe(before + 1);
    expect((await at(`999999.${'0'.repeat(16)}`)).body).toMatchObject({ cursor, changed: [], all: true });
    expect(await polls()).toBe(before + 2);
  });

  test('while polls fail: as long as the process is current, and no cursor ahead of it; then 503', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { key } = await own.createKey('kay', { scopes: ['read'] });
    await own.useKey(key);
    const { cursor } = (await changesOf(own, asks, {})).body;
    await own.loseStore();
    const unavailable = { status: 503, body: { error: 'temporarily_unavailable' } };
    const ahead = await changesOf(own, asks, { cursor: `999999.${'0'.repeat(16)}` });
    expect(ahead).toMatchObject(unavailable);
    expect(ahead.headers.get('retry-after')).toBe('1');
    expect(await changesOf(own, asks, { cursor })).toMatchObject({ status: 200, body: { cursor, changed: [] } });
    expect((await own.useKey(key)).status).toBe(200); // a cursor of anybody's shortens nobody's memory
    own.clock.advance(5000);
    expect(await changesOf(own, asks, { cursor })).toMatchObject(unavailable);
  });

  test.each([
    ['revoked', 401, 'invalid_client', (id: string) => app.keys('revoke', id, '--yes')],
    ['without the scope', 403, 'insufficient_scope', (id: string) => app.keys('update', id, '--scope', 'read')],
    ['expired', 401, 'invalid_client', () => app.clock.advance(86_400_000)],
  ] as const)('no more once the calling key is %s', async (_, status, error, end) => {
    const own = await serviceOf(app, 'carol', { expiresInDays: 1 });
    const { cursor } = (await changesOf(app, own, {})).body;
    expect((await changesOf(app, own, { cursor })).status).toBe(200);
    await end(own.id);
    app.clock.advance(1000);
    expect(await changesOf(app, own, { cursor })).toMatchObject({ status, body: { error } });
  });
});

describe('how often', () => {
  const answersTo = async (by: typeof service, times: number, used = '') =>
    Promise.all(Array.from({ length: times }, () => changesOf(app, by, { used })));

  test('a key may ask 800 times at once, then 400 times a second; beyond that nothing it says is counted', async () => {
    const busy = await serviceOf(app, 'busy');
    const { key, id } = await app.createKey('lou');
    const { tell } = (await leaseOf(app, busy, key)).body;
    expect((await answersTo(busy, 800)).every(({ status }) => status === 200)).toBe(true);
    const [beyond] = await answersTo(busy, 1, `${tell}:5`);
    expect(beyond).toMatchObject({ status: 429, body: { error: 'slow_down' } });
    expect(beyond?.headers.get('retry-after')).toBe('1');
    expect((await now()).status).toBe(200);
    app.clock.advance(1000);
    const statuses = (await answersTo(busy, 401, `${tell}:1`)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(400);
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
    const [listed] = (await listedKeys(app, 'lou')).filter((one) => one.id === id);
    expect(listed.uses.today).toBe(401);
    const lines = (await app.log()).filter(({ event }) => event === 'Rate limit exceeded');
    expect(lines).toContainEqual(expect.objectContaining({ level: 'warn', keyId: busy.id, userId: 'busy' }));
  });

  test('a child asks as its parent', async () => {
    const parent = await serviceOf(app, 'mae', { scopes: ['introspect', 'delegate'] });
    const child = await childOf(app, parent.key, { scope: 'introspect' });
    const asChild = { id: child.id, key: child.key };
    expect((await answersTo(asChild, 800)).every(({ status }) => status === 200)).toBe(true);
    expect((await answersTo(parent, 1))[0]?.status).toBe(429);
  });
});

describe('bad requests', () => {
  test.each([
    ['two cursors', 'cursor=a&cursor=b'],
    ['a cursor of 201 characters', `cursor=${'0'.repeat(201)}`],
    ['two waits', 'wait_ms=1&wait_ms=1'],
    ['two lists', 'used=&used='],
    ['a list of anything', 'used=x'],
    ['no name', 'used=:1'],
    ['no units', `used=${'a'.repeat(40)}:`],
    ['0 units', `used=${'a'.repeat(40)}:0`],
    ['1,000,001 units', `used=${'a'.repeat(40)}:1000001`],
    ['1,001 pairs', `used=${Array.from({ length: 1001 }, (_, at) => `${'a'.repeat(40)}${at}:1`).join('+')}`],
    ['two ids', 'client_id=a&client_id=b'],
  ])('%s: 400', async (_, body) => {
    expect(await changesOf(app, service, body)).toMatchObject({ status: 400, body: { error: 'invalid_request' } });
  });

  test.each([
    ['empty values', 'cursor=&wait_ms=&used='],
    ['a wait', 'wait_ms=487'],
    ['a wait of anything', 'wait_ms=-1e9+minutes'],
    ['1,000,000 units', `used=${'a'.repeat(40)}:1000000`],
    ['odd names', 'used=x:1+y:z:2+%C3%A9%0A:3'],
    ['a long name', `used=${'a'.repeat(5000)}:1`],
    ['another field, twice', 'other=1&other=2'],
  ])('%s: good', async (_, body) => {
    expect((await changesOf(app, service, body)).status).toBe(200);
  });

  test('a page reads nothing, one of an allowed origin neither, and another is refused', async () => {
    const from = async (origin: string, method: string) => {
      const asking = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' };
      const headers = { origin, authorization: `Bearer ${service.key}`, ...(method === 'OPTIONS' && asking) };
      const { status, headers: sent } = await fetch(`${app.url}/changes`, {
        method,
        headers,
        ...(method === 'POST' && { body: new URLSearchParams({}) }),
      });
      return [status, [...sent.keys()].filter((name) => name.startsWith('access-control-'))];
    };
    for (const [method, status] of Object.entries({ POST: 200, OPTIONS: 204, GET: 405 })) {
      expect(await from('http://localhost:5173', method)).toEqual([status, []]);
      expect(await from('https://evil.example', method)).toEqual([403, []]);
    }
  });

  test('a stranger is 401, a key without the scope 403, whatever else is wrong', async () => {
    const { key, id } = await app.createKey('alice', { scopes: ['read'] });
    expect(await changesOf(app, { id, key }, 'used=x')).toMatchObject({
      status: 403,
      body: { error: 'insufficient_scope' },
    });
    expect(await changesOf(app, { id, key: 'sk_test_x' }, 'used=x')).toMatchObject({
      status: 401,
      body: { error: 'invalid_client' },
    });
  });
});

test('the log names each service once, however often it listens; each question of one is a line', async () => {
  await using logged = await createTestApp();
  const services = [await serviceOf(logged), await serviceOf(logged, 'other')];
  const lines = async () =>
    (await logged.log())
      .filter(({ event }) => event === 'API key authentication successful')
      .map(({ keyId, userId }) => [keyId, userId]);
  for (let polls = 0; polls < 3; polls += 1) {
    for (const one of services) expect((await changesOf(logged, one, {})).status).toBe(200);
  }
  const [first, other] = services.map(({ id }) => id);
  await logged.keys('update', String(first), '--name', 'renamed');
  logged.clock.advance(1000);
  for (const one of services) expect((await changesOf(logged, one, {})).status).toBe(200);
  const once = [
    [first, 'operator'],
    [other, 'other'],
  ];
  expect(await lines()).toEqual(once);
  for (let asked = 0; asked < 2; asked += 1) await leaseOf(logged, services[0] ?? service, 'no key');
  expect(await lines()).toEqual([...once, [first, 'operator'], [first, 'operator']]);
});
