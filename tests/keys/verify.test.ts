// Reading a key's record while something interferes.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import type { FeedPage } from '../../src/ground/change-feed.ts';
import { createOriginOf } from '../../src/keys/actor.ts';
import { createAudience } from '../../src/keys/audience.ts';
import { createFeed } from '../../src/keys/feed.ts';
import { NEW_KEY, type PresentedKey } from '../../src/keys/record.ts';
import type { Found, KeyStore } from '../../src/keys/store.ts';
import { createLookupBudgets, createReadKeys, createUnknownKeys } from '../../src/keys/unknown-keys.ts';
import { createVerifier } from '../../src/keys/verify.ts';
import { createLog } from '../../src/start/package/index.ts';
import { testClock } from '../support/clock.ts';
import { openDatabase } from '../support/database-client.ts';
import { CALLER, createTestApp } from '../support/test-app.ts';

test('a record that could not be read, because of a bug or a change by hand, is read again the next time', async () => {
  // Long enough that no poll of the change feed comes between.
  await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const seen = await app.createKey('alice');
  const unseen = await app.createKey('alice');
  const statusOf = async ({ key }: { key: string }) => (await app.useKey(key)).status;
  expect(await statusOf(seen)).toBe(200);

  const database = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  await database.batch(['CREATE TABLE feed_backup AS SELECT * FROM feed', 'DELETE FROM feed']);
  expect(await statusOf(unseen)).toBe(500);
  await database.batch(['INSERT INTO feed SELECT * FROM feed_backup', 'DROP TABLE feed_backup']);
  database.close();
  expect(await statusOf(unseen)).toBe(200);
});

test('a record that is read before a revocation and arrives after it counts for who asked before, and is not kept', async () => {
  const clock = testClock();
  const log = createLog({ level: 'error', clock, write: async () => {} });
  const key = `sk_test_${'0'.repeat(64)}`;
  const keyHash = Bun.SHA256.hash(key, 'hex');
  const record: PresentedKey = {
    ...NEW_KEY,
    id: '0'.repeat(32),
    userId: 'alice',
    name: 'n',
    keyHash,
    scopes: [],
    createdAtMs: 0,
    expiresAtMs: null,
    presented: 'in_force',
    secretEndsAtMs: null,
    blocked: false,
  };
  const slow = Promise.withResolvers<Found>();
  const revoked: Found = { record: { ...record, active: false }, position: { databaseId: 'd', seq: 2 }, counts: null };
  const responses = [slow.promise, revoked];
  let page: FeedPage = { databaseId: 'd', prunedSeq: 0, mark: '1', newestSeq: 1, newestMark: '1', changes: [] };
  const store = {
    async findByHashes() {
      const response = await responses.shift();
      return () => response;
    },
    changesAfter: async () => page,
  } as unknown as KeyStore; // all that verification needs of it
  const originOf = createOriginOf(true);
  const feed = createFeed({ store, clock, log, lagMaxMs: 1000 });
  const readKeys = createReadKeys(store, feed, { beginRead: () => ({ asOf: { nowMs: 0, windowS: 0 }, learn() {} }) });
  const unknownKeys = createUnknownKeys(readKeys, { near: true, budgets: createLookupBudgets(clock), clock, log });
  const sha256 = Bun.SHA256.hash;
  const audience = createAudience(() => 'http://here.example', []);
  const { verify } = createVerifier({
    audience,
    store,
    feed,
    usage: { note() {} },
    readKeys,
    unknownKeys,
    clock,
    sha256,
    log,
    originOf,
  });

  await feed.refresh();
  const before = verify(key, CALLER);
  page = { ...page, newestSeq: 2, newestMark: '2', changes: [{ seq: 2, changed: keyHash, mark: '2' }] };
  await feed.refresh();
  const after = verify(key, CALLER);
  slow.resolve({ record, position: { databaseId: 'd', seq: 1 }, counts: null });
  expect((await before).ok).toBe(true);
  expect((await after).ok).toBe(false);
  expect((await verify(key, CALLER)).ok).toBe(false);
  feed.stop();
});
