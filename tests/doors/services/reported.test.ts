// The uses that a service reports, while the database is slow or refuses: what can be counted is.

import { expect, test } from 'bun:test';
import { startProxy } from '../../support/proxy.ts';
import { changesOf, leaseOf, serviceOf } from '../../support/service.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { bearer, createTestApp, listedKeys, type TestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

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
