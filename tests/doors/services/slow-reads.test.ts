// An answer of /introspect that may be remembered is of one read: scopes, owner, end, marks, age and lease are what was
// right at one moment. A response of the database that comes late shows an answer that is put together of two.

import { expect, test } from 'bun:test';
import { startProxy } from '../../support/proxy.ts';
import { changesOf, leaseOf, serviceOf } from '../../support/service.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp, listedKeys, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

/** No proof is too old meanwhile: nothing is verified a second time. */
const LAG_MAX_MS = 60_000;
const POLL_EVERY_MS = LAG_MAX_MS / 4;

test('an answer whose read comes late says nothing that was learned meanwhile', async () => {
  await using slow = await startSlowStore();
  const options = { store: slow.store, env: { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) } };
  await using here = await createTestApp(options);
  await using elsewhere = await createTestApp(options);
  const service = await serviceOf(here);
  const { key } = await elsewhere.createKey('alice', { scopes: ['read', 'write'] });
  const cursorOf = async (from: string, at = here) =>
    (await changesOf(at, service, { cursor: from })).body.cursor as string;
  const before = await cursorOf('');
  const read = slow.delayReadOf(key);
  const asked = leaseOf(here, service, key, { lease: before });
  await read.made;
  const endsAtMs = here.clock.nowMs() + 200_000;
  await slow.handOver('alice', { owner: 'bob', scope: 'read', endsAtMs });
  here.clock.advance(1);
  elsewhere.clock.advance(LAG_MAX_MS); // it polls at the next request
  const after = await cursorOf(before, elsewhere);
  expect(after).not.toBe(before);
  const joined = leaseOf(here, service, key, { lease: after });
  await Bun.sleep(50); // it waits for the same read, or is later than the poll, which is as good
  here.clock.advance(POLL_EVERY_MS);
  await waitFor(async () => (await cursorOf(before)) === after);
  read.release();

  // Who asked before has what was right then; it is as old as that, and he is told of the change by his cursor.
  const old = { scope: 'read write', sub: 'alice' };
  const early = (await asked).body;
  expect(early).toMatchObject({ ...old, lease_ms: 300_000 });
  expect(early).not.toHaveProperty('exp');
  expect(early.fresh_ms).toBeLessThanOrEqual(0);
  // Who has been told of it may not remember that. What the process has learned meanwhile makes the read no newer.
  const late = (await joined).body;
  if (late.sub === 'alice') {
    expect(late).toMatchObject({ ...old, marks: early.marks });
    expect(late.fresh_ms).toBeLessThan(0);
    expect(late).not.toHaveProperty('lease_ms');
  }
  const anew = (await leaseOf(here, service, key, { lease: after })).body;
  expect(anew).toMatchObject({ scope: 'read', sub: 'bob', exp: endsAtMs / 1000 });
  expect(anew.lease_ms).toBe(endsAtMs - here.clock.nowMs());
  expect(anew.marks[0]).toBe(early.marks[0]);
  expect(anew.marks[1]).not.toBe(early.marks[1]);
}, 180_000);

// Older changes are read for the first service whose cursor is older than what a process has seen of the feed.

/** Responds to the read of older changes, or of the feed, when the test wants it. */
const OF_FEED = 'AS holds_rules';

/** A service whose cursor is older than a process, which knows the later cursor `begun`. */
async function startOlder() {
  const slow = await startSlowStore();
  const elsewhere = await createTestApp({ store: slow.store });
  const service = await serviceOf(elsewhere);
  const older: string = (await changesOf(elsewhere, service, {})).body.cursor;
  const change = (name: string, count: number) =>
    slow.execute(
      `INSERT INTO changes (key_hash, changed_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT ?, 1 FROM n`,
      count,
      name,
    );
  await change('before', 1);
  const here = await createTestApp({ store: slow.store, env: { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) } });
  const begun: string = (await changesOf(here, service, {})).body.cursor;
  expect(begun).not.toBe(older);
  return {
    slow,
    here,
    elsewhere,
    service,
    older,
    begun,
    change,
    async [Symbol.asyncDispose]() {
      for (const part of [here, elsewhere, slow]) await part[Symbol.asyncDispose]();
    },
  };
}

test('4,001 changes while older ones are read: who lacks them all is told of all', async () => {
  await using started = await startOlder();
  const { slow, here, elsewhere, service, older, begun, change } = started;
  const { id } = await elsewhere.createKey('alice');
  const read = slow.delayResponseTo(OF_FEED);
  const asked = changesOf(here, service, { cursor: older });
  await read.made;
  await elsewhere.call('revoke_api_key', { keyId: id }, await bearer(elsewhere, 'alice'));
  await change('another', 4000);
  here.clock.advance(LAG_MAX_MS);
  expect((await changesOf(here, service, { cursor: begun })).body).toMatchObject({ all: true });
  read.release();
  expect((await asked).body).toMatchObject({ all: true });
  expect((await changesOf(here, service, { cursor: begun })).body).toMatchObject({ all: true });
}, 180_000);

test('an own change that no poll has seen while older ones are read: nobody is told that nothing else has changed', async () => {
  await using started = await startOlder();
  const { slow, here, service, older } = started;
  const { id } = await here.createKey('alice');
  const read = slow.delayResponseTo(OF_FEED);
  const asked = changesOf(here, service, { cursor: older });
  await read.made;
  slow.refuse(OF_FEED);
  await here.call('revoke_api_key', { keyId: id }, await bearer(here, 'alice'));
  read.release();
  expect(await asked).toMatchObject({ status: 503 });
  slow.refuse(null);
  expect((await changesOf(here, service, { cursor: older })).body.fresh_ms).toBeNumber();
}, 180_000);

// The uses that a service reports while the database is slow or refuses: what can be counted is.

const usesOf = async (app: TestApp, owner: string): Promise<number> =>
  (await listedKeys(app, owner))[0].uses?.today ?? 0;

test('uses of a key are counted although the feed tells of another change before the key is read', async () => {
  await using slow = await startSlowStore();
  await using here = await createTestApp({ store: slow.store });
  await using elsewhere = await createTestApp({ store: slow.store });
  const service = await serviceOf(here);
  const { key } = await elsewhere.createKey('alice');
  const other = await elsewhere.createKey('bob');
  const { tell } = (await leaseOf(elsewhere, service, key)).body;
  const { cursor } = (await changesOf(here, service, {})).body;
  const read = slow.delayReadOf(key);
  const reporting = changesOf(here, service, { used: `${tell}:7` });
  await read.made;
  await elsewhere.call('revoke_api_key', { keyId: other.id }, await bearer(elsewhere, 'bob'));
  here.clock.advance(1000);
  await waitFor(async () => (await changesOf(here, service, { cursor })).body.changed.length > 0);
  read.release();
  expect((await reporting).status).toBe(200);
  expect(await usesOf(here, 'alice')).toBeGreaterThanOrEqual(7);
});

test('uses of a key in memory are counted although another key can’t be read', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  await using app = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }) });
  await using elsewhere = await createTestApp({ store: storeOn({ DATABASE_URL: sqld.url }) });
  const service = await serviceOf(app);
  const tellOf = async (at: TestApp, key: string) => (await leaseOf(at, service, key)).body.tell;
  const known = await tellOf(app, (await app.createKey('alice')).key);
  const unknown = await tellOf(elsewhere, (await elsewhere.createKey('bob')).key);
  proxy.refuse('SELECT id, key_hash');
  expect((await changesOf(app, service, { used: `${unknown}:5 ${known}:7` })).status).toBe(200);
  proxy.refuse(null);
  expect(await usesOf(app, 'alice')).toBe(8);
});
