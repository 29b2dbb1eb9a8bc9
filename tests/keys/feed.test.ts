// What the change feed can no longer tell: a process that missed changes forgets all it knows. And the feed's upkeep.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { openEmbedded } from '../../src/store/open-embedded.ts';
import { temporaryFolder } from '../support/folder.ts';
import { bearer, createTestApp } from '../support/test-app.ts';

/** What takes the change with seq 2 away from a process that has seen seq 1. */
const MISSED: [string, string[]][] = [
  ['it was pruned', ['DELETE FROM changes', 'UPDATE feed SET pruned_seq = 2']],
  ['the database was restored to an older state', ['DELETE FROM changes']],
  [
    'the restored database was given another id',
    ['DELETE FROM changes', 'UPDATE feed SET pruned_seq = 1, database_id = lower(hex(randomblob(16)))'],
  ],
];

test.each(MISSED)('a revocation that a process cannot see, because %s, counts all the same', async (_, statements) => {
  await using app = await createTestApp({ store: 'embedded' });
  const other = await app.createKey('alice');
  await app.call('revoke_api_key', { keyId: other.id }, await bearer(app, 'alice')); // seq 1
  const { key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const database = createClient({ url: `file:${join(app.folder, 'keys.db')}` });
  await database.batch(['UPDATE api_keys SET active = 0', ...statements], 'write');
  database.close();
  app.clock.advance(1000);
  expect((await app.useKey(key)).status).toBe(401);
});

test('changes older than a day are removed, however many there are, and younger ones stay', async () => {
  const path = join(temporaryFolder(), 'keys.db');
  const { store, close } = await openEmbedded(path);
  const database = createClient({ url: `file:${path}` });
  const add = (count: number, ageMs: number) =>
    database.execute({
      sql: `INSERT INTO changes (key_hash, changed_at_ms) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
SELECT 'hash', unixepoch('subsec') * 1000 - ? FROM n`,
      args: [count, ageMs],
    });
  await add(2500, 24 * 60 * 60 * 1000 + 1);
  await add(3, 23 * 60 * 60 * 1000);
  expect(await store.prune()).toEqual({ ok: true, value: undefined });
  const { rows } = await database.execute('SELECT count(*) AS kept, min(seq) AS oldest, pruned_seq FROM changes, feed');
  expect({ ...rows[0] }).toEqual({ kept: 3, oldest: 2501, pruned_seq: 2500 });
  database.close();
  await close();
});
