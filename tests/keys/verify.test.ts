// Reading a key's record while something interferes; and what the database keeps of a key: the hash, and not the key.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { startSlowStore } from '../support/slow-store.ts';
import { bearer, COUNTED, createTestApp } from '../support/test-app.ts';

test('a record that could not be read, because of a change by hand, is read again the next time', async () => {
  // Long enough that no poll of the change feed comes between.
  await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const seen = await app.createKey('alice');
  const unseen = await app.createKey('alice');
  const statusOf = async ({ key }: { key: string }) => (await app.useKey(key)).status;
  expect(await statusOf(seen)).toBe(200);

  using database = openDatabase(databaseOf(app));
  await database.batch(['CREATE TABLE feed_backup AS SELECT * FROM feed', 'DELETE FROM feed']);
  expect(await statusOf(unseen)).toBe(503);
  await database.batch(['INSERT INTO feed SELECT * FROM feed_backup', 'DROP TABLE feed_backup']);
  expect(await statusOf(unseen)).toBe(200);
});

test('a record that is read before a revocation and arrives after it counts for who asked before, and is not kept', async () => {
  await using slow = await startSlowStore();
  // A read may take 3 s, on a busy machine too. Those of one address take turns at a remote store.
  const env = { REVOCATION_LAG_MAX_MS: '4000', TRUST_PROXY: '1' };
  await using app = await createTestApp({ store: slow.store, env });
  const { id, key } = await app.createKey('alice');
  const statusFrom = async (address: string) =>
    (await app.call('get_data', {}, { 'x-api-key': key, 'x-forwarded-for': address })).status;
  const read = slow.delayReadOf(key);
  const before = statusFrom('192.0.2.1');
  await read.made;
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  expect(await statusFrom('192.0.2.2')).toBe(401); // which has not joined that read
  read.release();
  expect(await before).toBe(200);
  expect(await statusFrom('192.0.2.1')).toBe(401);
});

test('a known key that expires is refused from memory for a second, like any other, and then read again', async () => {
  await using app = await createTestApp({ store: 'embedded', env: COUNTED });
  const { key } = await app.createKey('alice', { expiresInDays: 1 / 1440 });
  const use = async () => [(await app.useKey(key)).status, await app.storeReads()];
  expect(await use()).toEqual([200, 1]);
  app.clock.advance(60_001);
  expect(await use()).toEqual([401, 1]);
  app.clock.advance(999);
  expect(await use()).toEqual([401, 1]);
  app.clock.advance(1);
  expect([await use(), await use()]).toEqual([
    [401, 2],
    [401, 2],
  ]);
});

test('the database holds the SHA-256 of a key, the key itself nowhere', async () => {
  const app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  await app.close();
  const files = readdirSync(app.folder).map((name) => readFileSync(join(app.folder, name), 'latin1'));
  const hash = Bun.SHA256.hash(key, 'hex');
  expect(files.some((content) => content.includes(hash))).toBe(true);
  for (const content of files) {
    expect(content).not.toContain(key);
    expect(content).not.toContain(key.slice('sk_test_'.length));
  }
});
