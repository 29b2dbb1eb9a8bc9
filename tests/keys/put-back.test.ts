// A database that lost its newest changes (put back to a backup, or a standby that took over), after which others
// followed: its numbers are as high as before or higher, so they prove nothing. And what the feed can't notice.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { defineTool, ok, type ToolDeps } from '../../src/start/package/index.ts';
import { postJson } from '../support/client.ts';
import { type Client, openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { STORE_MODES, type StoreMode, startStore } from '../support/store-mode.ts';
import { bearer, COUNTED, createTestApp } from '../support/test-app.ts';
import { noInput } from '../support/tools.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

/** With this bound no poll comes by itself while a test runs. */
const LAG_MAX_MS = 60_000;
const MINUTE_MS = 60_000;

/** An app that has seen two changes and knows a key, and its database. */
async function startApp(mode: StoreMode) {
  const store = await startStore(mode);
  const env = store.env();
  const db = openDatabase(env.DATABASE_URL ?? '');
  const app = await createTestApp({ store, env: { ...COUNTED, REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) } });
  const alice = await bearer(app, 'alice');
  for (let change = 0; change < 2; change += 1) {
    await app.call('delete_api_key', { keyId: (await app.createKey('alice')).id }, alice);
  }
  const { id, key } = await app.createKey('alice');
  const status = async () => (await app.useKey(key)).status;
  expect(await status()).toBe(200);
  return {
    app,
    db,
    status,
    revoke: () => db.execute({ sql: 'UPDATE api_keys SET active = 0 WHERE id = ?', args: [id] }),
    async [Symbol.asyncDispose]() {
      db.close();
      await app.close();
      await store[Symbol.asyncDispose]();
    },
  };
}

const otherChanges = (db: Client, count: number) =>
  db.batch(Array.from({ length: count }, () => "INSERT INTO changes (key_hash, changed_at_ms) VALUES ('other', 0)"));

const loseChanges = (db: Client) =>
  db.batch(['DELETE FROM changes', "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'changes'"]);

describe.each(rows(STORE_MODES, 1))('%s', (mode) => {
  test.each([
    ['as many', 'at the next poll', 1, LAG_MAX_MS],
    ['more', 'at the next poll', 4, LAG_MAX_MS],
    ['more', 'after a time without polls', 4, 3 * MINUTE_MS],
  ])('changes were lost and %s followed: a revocation among them counts %s', async (_, __, others, laterMs) => {
    await using started = await startApp(mode);
    const { app, db, revoke, status } = started;
    await loseChanges(db);
    await revoke();
    await otherChanges(db, others);
    expect(await status()).toBe(200); // the bound has not passed
    app.clock.advance(laterMs);
    expect(await status()).toBe(401);
  });

  test('pruning changes that were seen clears no cache, and changes lost after that are noticed', async () => {
    await using started = await startApp(mode);
    const { app, db, revoke, status } = started;
    const reads = await app.storeReads();
    await db.batch(['UPDATE feed SET pruned_seq = 2', 'DELETE FROM changes']);
    app.clock.advance(LAG_MAX_MS);
    expect([await status(), await app.storeReads()]).toEqual([200, reads]);
    await db.execute('UPDATE feed SET pruned_seq = 0');
    await loseChanges(db);
    await revoke();
    await otherChanges(db, 2);
    app.clock.advance(LAG_MAX_MS);
    expect(await status()).toBe(401);
  });
});

test('an owner who is blocked after changes were lost is refused at the next poll', async () => {
  await using started = await startApp('embedded');
  const { app, db } = started;
  const alice = await bearer(app, 'alice');
  const listed = async () => (await app.call('list_api_keys', {}, alice)).status;
  expect(await listed()).toBe(200);
  await db.execute('DROP TRIGGER changes_newest_kept'); // so that the change of the block has a number that was seen
  await loseChanges(db);
  await db.execute("INSERT INTO blocked_owners (owner) VALUES ('alice')");
  await otherChanges(db, 4);
  app.clock.advance(LAG_MAX_MS);
  expect(await listed()).toBe(403);
});

test.each([
  ['limit', 'UPDATE api_keys SET limit_requests = 1, limit_window_s = 60'],
  ['plan', "INSERT INTO owners (owner, limit_requests, limit_window_s) VALUES ('alice', 1, 60)"],
])('a %s that is set after changes were lost counts at the next poll', async (_, set) => {
  await using started = await startApp('embedded');
  const { app, db, status } = started;
  await db.execute('DROP TRIGGER changes_newest_kept'); // so that this change has a lower number than was seen
  await loseChanges(db);
  await db.execute(set);
  app.clock.advance(LAG_MAX_MS);
  expect([await status(), await status()]).toEqual([200, 429]);
});

test('a key whose creation was lost, of which no change tells, is believed for five minutes at most', async () => {
  await using started = await startApp('embedded');
  const { app, db, status } = started;
  await db.batch(['DROP TRIGGER changes_newest_kept', 'DELETE FROM api_keys', 'DELETE FROM changes WHERE seq > 2']);
  await db.execute("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'changes'");
  app.clock.advance(4 * MINUTE_MS - 1);
  expect(await status()).toBe(200);
  app.clock.advance(MINUTE_MS + 1);
  expect(await status()).toBe(401);
});

test('a key that was read again as it was is believed anew; a revocation that no change tells counts in five minutes', async () => {
  await using started = await startApp('embedded');
  const { app, db, revoke, status } = started;
  const reads = await app.storeReads();
  app.clock.advance(5 * MINUTE_MS);
  expect([await status(), await app.storeReads()]).toEqual([200, reads + 1]);
  await revoke();
  await db.batch(['DROP TRIGGER changes_newest_kept', 'DELETE FROM changes WHERE seq > 2']);
  await db.execute("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'changes'");
  app.clock.advance(4 * MINUTE_MS - 1);
  expect([await status(), await app.storeReads()]).toEqual([200, reads + 1]);
  app.clock.advance(MINUTE_MS + 1);
  expect(await status()).toBe(401);
});

test('a key that was read again as it was keeps its place in memory, whatever it may do', async () => {
  const seen: unknown[] = [];
  const see = ({ guards }: ToolDeps) =>
    defineTool(guards.apiKey, {
      ...noInput('see'),
      run: (_, { auth }) => {
        seen.push(auth.scopes);
        return ok({ content: [] });
      },
    });
  await using app = await createTestApp({ store: 'embedded', env: COUNTED, tools: (deps) => [see(deps)] });
  const scopes = Array.from({ length: 5 }, (_, n) => `${n}`.repeat(99)); // which no memo holds
  const given = [...scopes.flatMap((scope) => ['--scope', scope]), '--limit', '9/1h', '--quota', '99/day'];
  const key = (await app.keys('create', '--user', 'alice', '--name', 'n', ...given)).trim();
  for (const reads of [1, 2, 3]) {
    expect((await app.call('see', {}, { 'x-api-key': key })).status).toBe(200);
    expect(await app.storeReads()).toBe(reads);
    expect(seen.at(-1)).toBe(seen[0]);
    app.clock.advance(5 * MINUTE_MS);
  }
});

test('keys that were read together are not all read again together', async () => {
  await using app = await createTestApp({ store: 'embedded', env: COUNTED });
  const keys = await Promise.all(Array.from({ length: 100 }, async () => (await app.createKey('alice')).key));
  const useAll = async () => {
    const before = await app.storeReads();
    for (const key of keys) expect((await app.useKey(key)).status).toBe(200);
    return (await app.storeReads()) - before;
  };
  expect(await useAll()).toBe(100);
  app.clock.advance(4.5 * MINUTE_MS);
  const early = await useAll();
  expect(early).toBeGreaterThan(20);
  expect(early).toBeLessThan(80);
  app.clock.advance(0.5 * MINUTE_MS);
  expect(await useAll()).toBe(100 - early);
});

test('a known key that is read again costs no budget of unknown keys, and needs no place among them', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const keys = await Promise.all(Array.from({ length: 5 }, async () => (await app.createKey('alice')).key));
  const useAll = async () => (await Promise.all(keys.map((key) => app.useKey(key)))).map(({ status }) => status);
  expect(new Set(await useAll())).toEqual(new Set([200]));
  app.clock.advance(5 * MINUTE_MS);
  const guesses = Array.from({ length: 60 }, (_, request) => {
    const tokens = Array.from({ length: 100 }, (_, n) => `sk_test_${String(100 * request + n).padStart(64, '0')}`);
    return postJson(`${app.url}/revoke`, tokens);
  });
  expect(new Set(await useAll())).toEqual(new Set([200]));
  const refused = (await Promise.all(guesses)).filter(({ status }) => status === 429);
  expect(refused.length).toBeGreaterThan(10);
});
