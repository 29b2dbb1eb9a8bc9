// Limits and quotas with more keys in use than memory holds: a record that is forgotten and read again comes with its
// counts, wherever the store is.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { countedHolders } from '../store/stored.ts';
import { childOf } from '../support/children.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { STORE_MODES, startStore } from '../support/store-mode.ts';
import { COUNTED, createTestApp, type TestApp } from '../support/test-app.ts';
import { advanceUntil } from '../support/wait-for.ts';

setDefaultTimeout(300_000); // 12,000 calls, on machines that do other things too

/** With these scopes more than 8 MB take, the least memory for keys. */
const KEYS = 3000;
const SCOPES = JSON.stringify(Array.from({ length: 50 }, (_, at) => `scope-${at}-`.padEnd(100, 'x')));
const AT_ONCE = 200;
const SMALL = { ...COUNTED, KEY_CACHE_MB: '8', RATE_LIMIT_REQUESTS: '0', OWNER_KEYS: '10000' };

const INSERT = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), 'owner-' || (h.key / 1000), 'k', h.value, '${SCOPES}', 1, h.key + 1 FROM json_each(?1) h`;

const statusOf = async ({ url }: TestApp, key: string) => {
  const { status, body } = await fetch(`${url}/verify`, { headers: { 'x-api-key': key } });
  await body?.cancel();
  return status;
};

/** Uses each key once. Returns how many were let in. */
async function useAll(app: TestApp, keys: readonly string[]): Promise<number> {
  let admitted = 0;
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const statuses = await Promise.all(keys.slice(from, from + AT_ONCE).map((key) => statusOf(app, key)));
    admitted += statuses.filter((status) => status === 200).length;
    app.clock.advance(100); // what was counted is exchanged
  }
  return admitted;
}

/** Stores keys of owners for each thousand. Returns their secrets. */
async function storeKeys(url: string): Promise<readonly string[]> {
  const keys = Array.from({ length: KEYS }, () => `sk_test_${crypto.getRandomValues(new Uint8Array(32)).toHex()}`);
  const db = openDatabase(url);
  for (let from = 0; from < KEYS; from += 1000) {
    const hashes = keys.slice(from, from + 1000).map((key) => Bun.SHA256.hash(key, 'hex'));
    await db.execute({ sql: INSERT.replace('(h.key / 1000)', String(from / 1000)), args: [JSON.stringify(hashes)] });
  }
  db.close();
  return keys;
}

test.each(rows(STORE_MODES, 1))(
  'quotas of keys, owners and parents hold while memory forgets keys: %s',
  async (mode) => {
    await using store = await startStore(mode);
    await using app = await createTestApp({ store, env: SMALL });
    const keys = await storeKeys(store.env().DATABASE_URL ?? '');
    const db = openDatabase(store.env().DATABASE_URL ?? '');
    await db.execute("UPDATE api_keys SET quota_requests = 3, quota_period = 'day' WHERE user_id = 'owner-0'");
    await db.execute("INSERT INTO owners (owner, quota_requests, quota_period) VALUES ('owner-1', 1500, 'day')");
    db.close();
    const limited = { scopes: ['read', 'delegate'], quota: { requests: 3, period: 'day' } };
    const parent = await app.createKey('alice', limited);
    const child = await childOf(app, parent.key);

    const [ofKeys, ofOwner, others] = [keys.slice(0, 1000), keys.slice(1000, 2000), keys.slice(2000)];
    const admitted = { ofKeys: 0, ofOwner: 0, child: 0 };
    for (let round = 0; round < 4; round += 1) {
      const reads = await app.storeReads();
      admitted.ofKeys += await useAll(app, ofKeys);
      admitted.ofOwner += await useAll(app, ofOwner);
      admitted.child += Number((await statusOf(app, child.key)) === 200);
      expect(await useAll(app, others)).toBe(others.length);
      expect((await app.storeReads()) - reads).toBeGreaterThanOrEqual(KEYS / AT_ONCE); // all had been forgotten
    }
    expect(admitted).toEqual({ ofKeys: 3000, ofOwner: 1500, child: 3 });
  },
);

test('a quota holds although its key was forgotten before its uses were exchanged, and a replica has the key', async () => {
  await using store = await startStore('replica');
  await using app = await createTestApp({ store, env: SMALL });
  const others = await storeKeys(store.env().DATABASE_URL ?? '');
  const { key } = await app.createKey('alice', { quota: { requests: 100, period: 'day' } });
  const keysExchanged = () => countedHolders(store.env().DATABASE_URL ?? '');
  const isInUse = async () => {
    const health = (await (await fetch(`${app.url}/mcp/health`)).json()) as { store: { replica: string } };
    return health.store.replica === 'in_use';
  };
  const burst = async (calls: number) => {
    const statuses = await Promise.all(Array.from({ length: calls }, () => statusOf(app, key)));
    return statuses.filter((status) => status === 200).length;
  };
  expect(await burst(98)).toBe(98);
  await advanceUntil(app.clock, async () => (await keysExchanged()) === 1 && (await isInUse()), 100);
  // Too few for an early exchange: it comes once all others have taken the key's place in memory, one after the other.
  expect(await burst(1)).toBe(1);
  for (const other of others) await statusOf(app, other);
  await advanceUntil(app.clock, async () => (await keysExchanged()) === KEYS + 1, 100);
  expect(await burst(10)).toBe(1);
});
