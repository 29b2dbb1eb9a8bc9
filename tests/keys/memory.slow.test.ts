// How much of KEY_CACHE_MB a key takes: with all that is kept for it, its owner's settings, too.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { databaseOf, executeAt } from '../support/database-client.ts';
import { COUNTED, createTestApp, type TestApp } from '../support/test-app.ts';

setDefaultTimeout(300_000); // 12,000 calls, on machines that do other things too

/** They fit the least memory for keys, 8 MB, twice over; with a kilobyte each besides they don't. */
const KEYS = 6000;
const AT_ONCE = 200;

const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), 'owner-' || h.key, 'k', h.value, '[]', 1, h.key + 1 FROM json_each(?1) h`;

const DATA = JSON.stringify(Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`name_${at}`, 'x'.repeat(180)])));
const SET_DATA = `INSERT INTO owners (owner, metadata)
SELECT 'owner-' || h.key, json_set('${DATA}', '$.name_0', substr(h.value, 1, 40)) FROM json_each(?1) h`;

/** Uses each key once. Returns how often keys were read for it. */
async function readsToUse(app: TestApp, keys: readonly string[]): Promise<number> {
  const before = await app.storeReads();
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const used = keys.slice(from, from + AT_ONCE).map(async (key) => {
      const { status, body } = await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
      await body?.cancel();
      return status;
    });
    expect(new Set(await Promise.all(used))).toEqual(new Set([200]));
  }
  return (await app.storeReads()) - before;
}

test('data of owners takes its part of the memory for keys', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { ...COUNTED, KEY_CACHE_MB: '8' } });
  const keys = Array.from({ length: KEYS }, () => `sk_test_${crypto.getRandomValues(new Uint8Array(32)).toHex()}`);
  const hashes = JSON.stringify(keys.map((key) => Bun.SHA256.hash(key, 'hex')));
  await executeAt(databaseOf(app), { sql: INSERT, args: [hashes] });
  await readsToUse(app, keys);
  expect(await readsToUse(app, keys)).toBe(0);
  await executeAt(databaseOf(app), { sql: SET_DATA, args: [hashes] });
  app.clock.advance(1000); // it learns of that
  await readsToUse(app, keys);
  expect(await readsToUse(app, keys)).toBeGreaterThan(0);
});
