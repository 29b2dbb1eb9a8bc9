// POST /changes: what services that check keys from memory are told, when, and for how long they wait.

import { afterAll, describe, expect, test } from 'bun:test';
import { openDatabase } from '../support/database-client.ts';
import { labelled } from '../support/labels.ts';
import { changeKeys, changesOf, leaseOf, type Service, serviceOf } from '../support/service.ts';
import { bearer, COUNTED, createTestApp, metricsOf, NO_CONNECTION } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const BOUND = 975;
const MARK = /^[0-9a-f]{16}$/;

const app = await createTestApp({ env: COUNTED });
const service = await serviceOf(app);
afterAll(() => app.close());

const now = async (cursor = '', fields: Record<string, string> = {}) =>
  changesOf(app, service, { cursor, wait_ms: '0', ...fields });

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
      const asked = now(cursor);
      while (!(await settled(asked))) app.clock.advance(250);
      expect((await asked).body).toMatchObject({ all: true, changed: [] });
    },
  );
});

describe('a process that starts later', () => {
  const startLater = () => createTestApp({ env: { DATABASE_URL: `file:${app.folder}/keys.db` }, clock: app.clock });

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
    const at = (from: string) => changesOf(later, service, { cursor: from, wait_ms: '0' });
    expect((await at(told.cursor)).body).toMatchObject({ cursor: told.cursor, changed: [] });
    expect((await at(cursor)).body).toMatchObject({ cursor: told.cursor, changed: marks });
    const good = await app.createKey('hal');
    expect((await leaseOf(later, service, good.key, { lease: cursor })).body.lease_ms).toBe(300_000);
    const foreign = at(`1${cursor.slice(cursor.indexOf('.'))}`);
    while (!(await settled(foreign))) app.clock.advance(250);
    expect((await foreign).body).toMatchObject({ all: true });
  });

  test('knows it after all changes were removed but the newest, as the version before does, too', async () => {
    const { cursor: before } = (await now()).body;
    await changeKeys(app, 3);
    app.clock.advance(1000);
    const { cursor } = (await now(before)).body;
    const db = openDatabase(`file:${app.folder}/keys.db`);
    await db.executeMultiple(`UPDATE feed SET pruned_seq = (SELECT max(seq) FROM main.changes);
DELETE FROM changes WHERE seq <= (SELECT pruned_seq FROM feed);`);
    db.close();
    await using later = await startLater();
    const at = (from: string) => changesOf(later, service, { cursor: from, wait_ms: '0' });
    expect((await at(cursor)).body).toMatchObject({ cursor, changed: [] });
    expect((await at(before)).body).toMatchObject({ cursor, changed: [], all: true });
  });

  test('and one that runs tell all when the database was put back to an earlier state', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { id } = await own.createKey('ida');
    const at = async (cursor: string) => {
      own.clock.advance(1000);
      const asked = changesOf(own, asks, { cursor, wait_ms: '0' });
      while (!(await settled(asked))) own.clock.advance(250);
      return (await asked).body;
    };
    const { cursor: first } = await at('');
    const db = openDatabase(`file:${own.folder}/keys.db`);
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

/** Whether a response is there, a few turns of the event loop later. */
const settled = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => true), Bun.sleep(20).then(() => false)]);

describe('who waits', () => {
  test('gets a change of this process at once', async () => {
    const { key, id } = await app.createKey('alice');
    const { cursor } = (await now()).body;
    const { marks } = (await leaseOf(app, service, key, { lease: cursor })).body;
    const waiting = changesOf(app, service, { cursor, wait_ms: '487' });
    expect(await settled(waiting)).toBe(false);
    expect(await metricsOf(app.url)).toContain('mcp_keys_listeners 1\n');
    await app.call('delete_api_key', { keyId: id }, await bearer(app, 'alice'));
    expect((await waiting).body.changed).toEqual([marks[0]]);
    expect(await metricsOf(app.url)).toContain('mcp_keys_listeners 0\n');
  });

  test('is answered by the first poll that ends after it, and not before', async () => {
    const { cursor } = (await now()).body;
    app.clock.advance(1000);
    await now(cursor);
    const waiting = changesOf(app, service, { cursor, wait_ms: '400' });
    expect(await settled(waiting)).toBe(false);
    app.clock.advance(251);
    expect(await settled(waiting)).toBe(false);
    app.clock.advance(251);
    const { body } = await waiting;
    expect(body).toMatchObject({ cursor, changed: [] });
    expect(body.fresh_ms).toBeGreaterThan(400);
  });

  test('keeps the process polling', async () => {
    const { cursor } = (await now()).body;
    for (let asked = 0; asked < 300; asked += 1) {
      app.clock.advance(251);
      expect((await now(cursor)).body.fresh_ms).toBeGreaterThan(-BOUND);
    }
    const waiting = changesOf(app, service, { cursor });
    expect(await settled(waiting)).toBe(false);
    app.clock.advance(251);
    await waiting;
  });

  test.each([
    ['revoked', 401, 'invalid_client', (id: string) => app.keys('revoke', id, '--yes')],
    ['without the scope', 403, 'insufficient_scope', (id: string) => app.keys('update', id, '--scope', 'read')],
    ['expired', 401, 'invalid_client', () => app.clock.advance(100)],
  ] as const)('is refused as soon as its key is %s', async (what, status, error, end) => {
    const own = await serviceOf(app, 'carol', { expiresInDays: what === 'expired' ? 1 : 2 });
    app.clock.advance(86_400_000 - 100);
    const { cursor } = (await changesOf(app, own, {})).body;
    const waiting = changesOf(app, own, { cursor, wait_ms: '487' });
    expect(await settled(waiting)).toBe(false);
    await end(own.id);
    app.clock.advance(251);
    expect(await waiting).toMatchObject({ status, body: { error } });
  });

  test('gets 503 while the database is away, with Retry-After', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { cursor } = (await changesOf(own, asks, {})).body;
    await own.loseStore();
    own.clock.advance(5000);
    const { status, headers, body } = await changesOf(own, asks, { cursor });
    expect({ status, body }).toEqual({ status: 503, body: { error: 'temporarily_unavailable' } });
    expect(headers.get('retry-after')).toBe('1');
  });

  test('is forgotten when its client hangs up, and is 499 in the log', async () => {
    await using logged = await createTestApp({ env: { ACCESS_LOG: '1', ...COUNTED } });
    const by = await serviceOf(logged);
    const hangUp = new AbortController();
    const held = fetch(`${logged.url}/changes`, {
      method: 'POST',
      headers: { 'x-api-key': by.key },
      body: new URLSearchParams({ cursor: (await changesOf(logged, by, { wait_ms: '0' })).body.cursor }),
      signal: hangUp.signal,
    }).catch(() => {});
    const listen = async (count: number) => (await metricsOf(logged.url)).includes(`mcp_keys_listeners ${count}\n`);
    await waitFor(() => listen(1));
    hangUp.abort();
    await waitFor(() => listen(0));
    await held;
    const line = (await logged.log()).findLast(({ route }) => route === '/changes');
    expect(line).toMatchObject({ event: 'request', status: 499, keyId: by.id });
    expect(line).not.toHaveProperty('code');
  });

  test('is answered when the server stops', async () => {
    await using own = await createTestApp();
    const asks = await serviceOf(own);
    const { cursor } = (await changesOf(own, asks, {})).body;
    const waiting = changesOf(own, asks, { cursor, wait_ms: '487' });
    const ahead = changesOf(own, asks, { cursor: `999.${'0'.repeat(16)}`, wait_ms: '487' });
    expect(await settled(waiting)).toBe(false);
    own.handler.endStreams();
    expect((await waiting).body).toMatchObject({ cursor, changed: [] });
    expect((await ahead).status).toBe(503);
    expect((await changesOf(own, asks, { cursor, wait_ms: '487' })).status).toBe(200);
  });
});

test('100 wait for a key, 500 for an owner, 1,000 in all: then the oldest is answered', async () => {
  await using own = await createTestApp();
  const keys: Service[] = [];
  for (const owner of ['ann', 'ann', 'ann', 'ann', 'ann', 'ann', 'b', 'b', 'c', 'c', 'd', 'zoe']) {
    keys.push(await serviceOf(own, owner));
  }
  const { cursor } = (await changesOf(own, keys[0] as Service, {})).body;
  const answered: number[] = [];
  let count = 0;
  /** Not over sockets, of which a client has 256. Returns who was answered, once all others wait. */
  const listen = async (at: number, times: number) => {
    for (let time = 0; time < times; time += 1) {
      const number = count++;
      void Promise.resolve(own.handler.fetch(listening(keys[at] as Service, cursor), NO_CONNECTION)).then(() =>
        answered.push(number),
      );
    }
    await Bun.sleep(50);
    return answered;
  };
  expect(await listen(0, 100)).toEqual([]);
  expect(await listen(0, 1)).toEqual([0]);
  for (const at of [1, 2, 3, 4]) expect(await listen(at, 100)).toEqual([0]); // 500 of ann
  expect(await listen(5, 1)).toEqual([0, 1]);
  for (const at of [6, 7, 8, 9, 10]) expect(await listen(at, 100)).toEqual([0, 1]); // 1,000 in all
  expect(await listen(11, 1)).toEqual([0, 1, 2]);
  own.handler.endStreams();
  await Bun.sleep(50);
  expect(answered.length).toBe(count);
});

const listening = ({ key }: Service, cursor: string) =>
  new Request('http://localhost/changes', {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ cursor, wait_ms: '487' }).toString(),
  });

describe('bad requests', () => {
  test.each([
    ['two cursors', 'cursor=a&cursor=b'],
    ['a cursor of 201 characters', `cursor=${'0'.repeat(201)}`],
    ['two waits', 'wait_ms=1&wait_ms=1'],
    ['half of the bound and more', 'wait_ms=488'],
    ['a negative wait', 'wait_ms=-1'],
    ['no number', 'wait_ms=1e2'],
    ['a fraction', 'wait_ms=1.5'],
    ['two lists', 'used=&used='],
    ['a list of anything', 'used=x'],
    ['no units', `used=${'a'.repeat(40)}:`],
    ['0 units', `used=${'a'.repeat(40)}:0`],
    ['1,000,001 units', `used=${'a'.repeat(40)}:1000001`],
    ['1,001 pairs', `used=${Array.from({ length: 1001 }, (_, at) => `${'a'.repeat(40)}${at}:1`).join('+')}`],
    ['two ids', 'client_id=a&client_id=b'],
  ])('%s: 400', async (_, body) => {
    expect(await changesOf(app, service, body)).toMatchObject({ status: 400, body: { error: 'invalid_request' } });
  });

  test.each(['cursor=&wait_ms=&used=', 'wait_ms=487', `used=${'a'.repeat(40)}:1000000`, 'other=1&other=2'])(
    '%s is good',
    async (body) => {
      expect((await changesOf(app, service, body)).status).toBe(200);
    },
  );

  test('a page reads nothing, one of an allowed origin neither, and another is refused', async () => {
    const from = async (origin: string, method: string) => {
      const asking = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' };
      const headers = { origin, authorization: `Bearer ${service.key}`, ...(method === 'OPTIONS' && asking) };
      const { status, headers: sent } = await fetch(`${app.url}/changes`, {
        method,
        headers,
        ...(method === 'POST' && { body: new URLSearchParams({ wait_ms: '0' }) }),
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
    expect(await changesOf(app, { id, key }, 'wait_ms=x')).toMatchObject({
      status: 403,
      body: { error: 'insufficient_scope' },
    });
    expect(await changesOf(app, { id, key: 'sk_test_x' }, 'wait_ms=x')).toMatchObject({
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
    for (const one of services) expect((await changesOf(logged, one, { wait_ms: '0' })).status).toBe(200);
  }
  const [first, other] = services.map(({ id }) => id);
  const once = [
    [first, 'operator'],
    [other, 'other'],
  ];
  expect(await lines()).toEqual(once);
  for (let asked = 0; asked < 2; asked += 1) await leaseOf(logged, services[0] ?? service, 'no key');
  expect(await lines()).toEqual([...once, [first, 'operator'], [first, 'operator']]);
});
