// POST /introspect with a field `lease`: an answer that a service may remember, and the uses that it tells of later.

import { describe, expect, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { databaseOf } from '../../support/database-client.ts';
import { changesOf, leaseOf, serviceOf } from '../../support/service.ts';
import { bearer, createTestApp, listedKeys, sharedApp, type TestApp } from '../../support/test-app.ts';

const app = await sharedApp();
const service = await serviceOf(app);

const cursorOf = async (of = app, by = service): Promise<string> => (await changesOf(of, by, {})).body.cursor;
const lent = async (key: string, fields: Record<string, string> = {}) =>
  leaseOf(app, service, key, { lease: await cursorOf(), ...fields });

describe('the answer', () => {
  test('has marks, ages, units and a time beside what it has anyway', async () => {
    const { key, id } = await app.createKey('alice');
    const { body } = await lent(key);
    expect(body).toMatchObject({ active: true, client_id: id, sub: 'alice', limit: 1000, remaining: 999 });
    expect(body).toMatchObject({ bound_ms: 975, lease_ms: 300_000, tell: expect.any(String) });
    expect(body.fresh_ms).toBeLessThanOrEqual(0);
    expect(body.fresh_ms).toBeGreaterThanOrEqual(-975);
    expect(body.lease_uses).toEqual([{ holder: expect.stringMatching(/^[0-9a-f]{16}$/), units: 31 }]);
    expect(new Set(body.marks).size).toBe(2);
  });

  test('counts once with the cursor of nobody, or of another database', async () => {
    await using other = await createTestApp();
    const foreign = await cursorOf(other, await serviceOf(other));
    for (const lease of ['', 'x', '0'.repeat(200), `0.${'0'.repeat(16)}`, `9999.${'0'.repeat(16)}`, foreign]) {
      const { key } = await app.createKey('alice');
      const { body } = await lent(key, { lease });
      expect([lease, body]).toMatchObject([
        lease,
        { active: true, marks: expect.any(Array), fresh_ms: expect.any(Number) },
      ]);
      expect(body).not.toHaveProperty('lease_ms');
    }
  });

  test('ends with the key, to the millisecond', async () => {
    const { key } = await app.createKey('alice', { expiresInDays: 0.001 }); // 86.4 s
    app.clock.advance(400);
    expect((await lent(key)).body.lease_ms).toBe(86_000);
  });

  test('ends with the overlap of a rotation', async () => {
    const { key, id } = await app.createKey('alice');
    const rotated = await app.call('rotate_api_key', { keyId: id, overlapHours: 1 }, await bearer(app, 'alice'));
    await app.useKey(rotated.body.key);
    app.clock.advance(3_600_000 - 5000);
    expect((await lent(key)).body.lease_ms).toBe(5000);
    expect((await lent(rotated.body.key)).body.lease_ms).toBe(300_000);
  });

  test('is inactive for a key that is not good, and has nothing beside', async () => {
    expect((await lent(`sk_test_${'0'.repeat(64)}`)).body).toEqual({ active: false });
  });

  test('names one owner by one mark, also to another service; what is told is for one alone', async () => {
    const [first, second] = [await app.createKey('alice'), await app.createKey('alice')];
    const other = await serviceOf(app, 'other');
    const [a, b] = [(await lent(first.key)).body, (await lent(second.key)).body];
    const c = (await leaseOf(app, other, first.key)).body;
    expect(a.marks[0]).not.toBe(b.marks[0]);
    expect(a.marks[1]).toBe(b.marks[1]);
    expect(c.marks).toEqual(a.marks);
    expect(c.tell).not.toBe(a.tell);
  });
});

describe('of a key with others', () => {
  test('a child has its parent’s mark beside its own, counts as its parent, and ends with it', async () => {
    const parent = await app.createKey('pat', { scopes: ['read', 'delegate'] });
    const child = await childOf(app, parent.key);
    const cursor = await cursorOf();
    const [ofParent, ofChild] = [(await lent(parent.key)).body, (await lent(child.key)).body];
    expect(ofChild.marks).toEqual([expect.any(String), ofParent.marks[1], ofParent.marks[0]]);
    expect(ofChild.lease_uses).toEqual([{ ...ofParent.lease_uses[0], units: 31 }]);
    expect(ofChild.lease_ms).toBeLessThanOrEqual(300_000);
    await changesOf(app, service, { used: `${ofChild.tell}:5` });
    const [listed] = await listedKeys(app, 'pat');
    expect(listed.uses.today).toBe(7);
    await app.call('revoke_api_key', { keyId: parent.id }, await bearer(app, 'pat'));
    expect((await changesOf(app, service, { cursor })).body.changed).toContain(ofChild.marks[2]);
    expect((await lent(child.key)).body).toEqual({ active: false });
  });

  test('of the owner says so, as a tool does; one of the key alone says nothing more', async () => {
    const { key } = await app.createKey('rita', { scopes: ['read'] });
    await app.keys('owner', 'rita', '--limit', '1/1h', '--quota', '9/day');
    app.clock.advance(1000);
    expect((await lent(key)).status).toBe(200);
    const atTool = await app.call('whoami', {}, { 'x-api-key': key });
    const { detail, of } = atTool.body;
    expect(await lent(key)).toMatchObject({
      status: 429,
      body: { error: 'rate_limited', error_description: detail, of },
    });
    expect(of).toBe('owner');
    const { body: dear } = await lent(key, { cost: '10' });
    expect(dear.error_description).toBe(
      'This call costs more than a limit of all your keys together allows at all, so it is never admitted',
    );
    const { key: ownLimit } = await app.createKey('sam', { rateLimit: { requests: 1, window: '1h' } });
    await lent(ownLimit);
    expect(await lent(ownLimit)).toMatchObject({ status: 429, body: { error: 'rate_limited' } });
    expect(Object.keys((await lent(ownLimit)).body)).toEqual(['error']);
  });

  test('an owner with a plan is a holder too, one for all keys; another plan is told', async () => {
    const made = [await app.createKey('quinn'), await app.createKey('quinn')];
    await app.keys('owner', 'quinn', '--limit', '320/1h');
    app.clock.advance(1000);
    const cursor = await cursorOf();
    const bodies = [];
    for (const { key } of made) bodies.push((await lent(key)).body);
    for (const { lease_uses } of bodies) {
      expect(lease_uses).toEqual([expect.objectContaining({ units: 31 }), expect.objectContaining({ units: 10 })]);
    }
    expect(bodies[0].lease_uses[1]).toEqual(bodies[1].lease_uses[1]);
    expect(bodies[0].lease_uses[0].holder).not.toBe(bodies[1].lease_uses[0].holder);
    await app.keys('owner', 'quinn', '--meta', 'plan=pro');
    app.clock.advance(1000);
    expect((await changesOf(app, service, { cursor })).body.changed).toEqual([bodies[0].marks[1]]);
  });
});

describe('the units of a lease', () => {
  const limited = (requests: number, window = '1h') => app.createKey('alice', { rateLimit: { requests, window } });

  test.each([
    ['31 of 1,000', 1000, '1h', 31],
    ['1 of 32', 32, '1h', 1],
    ['none of 31: it counts once', 31, '1h', 0],
  ])('%s', async (_, requests, window, units) => {
    const { body } = await lent((await limited(requests, window)).key);
    expect(body.lease_uses).toEqual([{ holder: expect.any(String), units }]);
    expect(body.lease_ms).toBe(units === 0 ? undefined : 300_000);
  });

  test.each([
    ['none of a window below 10 s', { RATE_LIMIT_WINDOW: '9s' }, { lease_ms: undefined }],
    ['no list where nothing binds', { RATE_LIMIT_REQUESTS: '0' }, { lease_ms: 300_000, lease_uses: [] }],
  ])('%s', async (_, env, expected) => {
    await using own = await createTestApp({ env: { RATE_LIMIT_REQUESTS: '1000', ...env } });
    const asks = await serviceOf(own);
    const { key } = await own.createKey('alice');
    const { body } = await leaseOf(own, asks, key, { lease: await cursorOf(own, asks) });
    expect({ lease_ms: body.lease_ms, lease_uses: body.lease_uses }).toMatchObject(expected);
  });

  test('what remains, where that is less; the question is a use, and refused as one', async () => {
    const { key, id } = await limited(64);
    const { tell } = (await lent(key)).body;
    expect((await lent(key, { used: `${tell}:60` })).body).toMatchObject({
      remaining: 2,
      lease_uses: [{ units: 2 }],
    });
    await lent(key);
    const last = (await lent(key)).body;
    expect(last).toMatchObject({ active: true, remaining: 0 });
    expect(last).not.toHaveProperty('lease_ms');
    const { status, headers, body } = await lent(key);
    expect({ status, body }).toEqual({ status: 429, body: { error: 'rate_limited' } });
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    const [listed] = (await listedKeys(app, 'alice')).filter((one) => one.id === id);
    expect(listed.uses.today).toBe(64);
  });

  test('a question may cost more, all or nothing', async () => {
    const { key } = await limited(10);
    expect((await lent(key, { cost: '7' })).body).toMatchObject({ remaining: 3 });
    expect(await lent(key, { cost: '4' })).toMatchObject({ status: 429, body: { error: 'rate_limited' } });
    expect((await lent(key, { cost: '3' })).body).toMatchObject({ remaining: 0 });
  });

  test('are those of the quota, where the limit has more', async () => {
    const quota = { requests: 64, period: 'day' };
    const { key } = await app.createKey('alice', { rateLimit: { requests: 640, window: '1h' }, quota });
    expect((await lent(key)).body.lease_uses).toMatchObject([{ units: 2 }]);
  });

  test('over a quota it is quota_exceeded', async () => {
    const { key } = await app.createKey('alice', { quota: { requests: 1, period: 'day' } });
    await lent(key);
    expect(await lent(key)).toMatchObject({ status: 429, body: { error: 'quota_exceeded' } });
  });
});

describe('what a service tells', () => {
  const usesOf = async (of: TestApp, owner: string, id: string) =>
    (await listedKeys(of, owner)).find((one) => one.id === id);

  test('is uses, as far as limits have room; the rest is one line a minute that names the service', async () => {
    const { key, id } = await app.createKey('carol', { rateLimit: { requests: 100, window: '1h' } });
    const { tell } = (await lent(key)).body;
    app.clock.advance(1000);
    await changesOf(app, service, { used: `${tell}:40` });
    expect(await usesOf(app, 'carol', id)).toMatchObject({
      uses: { today: 41 },
      lastUsedAt: app.clock.nowMs(),
    });
    for (let times = 0; times < 3; times += 1) {
      await changesOf(app, service, { used: `${tell}:1000000 ${tell}:1` });
    }
    expect(await usesOf(app, 'carol', id)).toMatchObject({ uses: { today: 100 } });
    const lines = (await app.log()).filter(({ event }) => event === 'told uses not counted');
    expect(lines).toEqual([expect.objectContaining({ keyId: service.id, userId: 'operator', units: 1_000_001 - 59 })]);
    expect(await app.useKey(key)).toMatchObject({ status: 429 });
  });

  test('of a key that has ended, or told by somebody else, is nothing', async () => {
    const other = await serviceOf(app, 'other');
    const { key, id } = await app.createKey('dave');
    const { tell } = (await lent(key)).body;
    const was = await usesOf(app, 'dave', id);
    app.clock.advance(1000);
    for (const used of [`${tell}:5`, `${'0'.repeat(16)}${id}:5`, `${tell}0:5`, `0${tell}:5`]) {
      const by = used === `${tell}:5` ? other : service;
      expect((await changesOf(app, by, { used })).status).toBe(200);
    }
    expect(await usesOf(app, 'dave', id)).toEqual(was);
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'dave'));
    app.clock.advance(1000);
    await changesOf(app, service, { used: `${tell}:5` });
    expect(await usesOf(app, 'dave', id)).toEqual({ ...was, active: false });
  });

  test('counts for a key whose owner was blocked meanwhile, known or not: a block is no end', async () => {
    const parent = await app.createKey('jane', { scopes: ['read', 'delegate'] });
    const [{ tell }, child] = [(await lent(parent.key)).body, await childOf(app, parent.key)];
    const { tell: ofChild } = (await lent(child.key)).body;
    await app.keys('block', 'jane');
    app.clock.advance(1001);
    await changesOf(app, service, { used: `${tell}:7` });
    expect((await app.useKey(parent.key)).status).toBe(401);
    expect((await app.useKey(child.key)).status).toBe(401);
    await changesOf(app, service, { used: `${ofChild}:5` });
    await app.keys('unblock', 'jane');
    expect(await usesOf(app, 'jane', parent.id)).toMatchObject({ uses: { today: 14 } });
  });

  test('counts for a key that was known by a secret which a rotation has ended', async () => {
    await using other = await createTestApp({ env: { DATABASE_URL: databaseOf(app) }, clock: app.clock });
    const { key, id } = await app.createKey('hugo');
    const { tell } = (await leaseOf(other, service, key)).body;
    await app.call('rotate_api_key', { keyId: id, overlapHours: 0 }, await bearer(app, 'hugo'));
    app.clock.advance(1001);
    expect((await other.useKey(key)).status).toBe(401);
    await changesOf(other, service, { used: `${tell}:7` });
    expect(await usesOf(other, 'hugo', id)).toMatchObject({ uses: { today: 8 } });
  });

  test('counts for a key whose previous secret has run out', async () => {
    const { key, id } = await app.createKey('ines');
    const { key: next } = (await app.call('rotate_api_key', { keyId: id, overlapHours: 1 }, await bearer(app, 'ines')))
      .body;
    await app.useKey(next);
    const { tell } = (await lent(key)).body;
    app.clock.advance(3_600_001);
    expect((await app.useKey(key)).status).toBe(401);
    await changesOf(app, service, { used: `${tell}:7` });
    expect(await usesOf(app, 'ines', id)).toMatchObject({ uses: { last30Days: [9] } });
  });

  test('is counted although the question is refused', async () => {
    const { key, id } = await app.createKey('erin', { rateLimit: { requests: 64, window: '1h' } });
    const { tell } = (await lent(key)).body;
    expect((await lent(key, { used: `${tell}:63` })).status).toBe(429);
    expect(await usesOf(app, 'erin', id)).toMatchObject({ uses: { today: 64 } });
  });

  test('any process counts, of keys that it has never seen', async () => {
    const { key, id } = await app.createKey('frank');
    const { tell } = (await lent(key)).body;
    await using other = await createTestApp({ env: { DATABASE_URL: databaseOf(app) }, clock: app.clock });
    await changesOf(other, service, { used: `${tell}:7` });
    expect(await usesOf(other, 'frank', id)).toMatchObject({ lastUsedAt: app.clock.nowMs() });
    await other.close();
    app.clock.advance(5000);
    expect((await usesOf(app, 'frank', id)).uses.today).toBeGreaterThanOrEqual(7);
  });
});

test('without a lease nothing changes: no member more, no use, and used and cost say nothing', async () => {
  const { key, id } = await app.createKey('gina');
  const plain = (await leaseOf(app, service, key, {})).body;
  expect(await leaseOf(app, service, key, { used: 'anything', cost: 'x' })).toMatchObject({ status: 200, body: plain });
  expect(Object.keys(plain)).not.toContain('marks');
  const [listed] = (await listedKeys(app, 'gina')).filter((one) => one.id === id);
  expect(listed).not.toHaveProperty('uses');
});

test('the access log has the cost of a question that is a call', async () => {
  await using app = await createTestApp({ env: { ACCESS_LOG: '1' } });
  const asking = await serviceOf(app);
  const { key } = await app.createKey('alice');
  await leaseOf(app, asking, key, { lease: '', cost: '5' });
  await leaseOf(app, asking, key, { cost: '5' });
  const lines = (await app.log()).filter(({ event, route }) => event === 'request' && route === '/introspect');
  expect(lines.map(({ cost }) => cost)).toEqual([5, undefined]);
});

test.each([
  ['two leases', 'lease=&lease='],
  ['two costs', 'lease=&cost=1&cost=1'],
  ['two lists of uses', 'lease=&used=&used='],
  ['two resources', 'lease=&resource=https://a.example&resource=https://a.example'],
  ['a lease of 201 characters', `lease=${'0'.repeat(201)}`],
  ['a bad list', 'lease=&used=x'],
  ['a cost of 0', 'lease=&cost=0'],
  ['a cost of 1,001', 'lease=&cost=1001'],
  ['a cost in words', 'lease=&cost=1e2'],
])('%s: 400', async (_, fields) => {
  const { key } = await app.createKey('alice');
  const body = `token=${key}&${fields}&client_id=${service.id}&client_secret=${service.key}`;
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const response = await fetch(`${app.url}/introspect`, { method: 'POST', headers, body });
  expect([response.status, await response.json()]).toEqual([400, { error: 'invalid_request' }]);
});
