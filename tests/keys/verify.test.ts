// Reading a key's record when something goes wrong that nobody expects.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { createTestApp } from '../support/test-app.ts';

test('a key whose record could not be read, by a bug or a hand in the database, is read anew the next time', async () => {
  // Long enough for no poll of the change feed to come between.
  await using app = await createTestApp({ store: 'embedded', env: { REVOCATION_LAG_MAX_MS: '60000' } });
  const seen = await app.createKey('alice');
  const unseen = await app.createKey('alice');
  const statusOf = async ({ key }: { key: string }) => (await app.useKey(key)).status;
  expect(await statusOf(seen)).toBe(200);

  const database = createClient({ url: `file:${join(app.folder, 'keys.db')}` });
  await database.batch(['CREATE TABLE put_aside AS SELECT * FROM feed', 'DELETE FROM feed'], 'write');
  expect(await statusOf(unseen)).toBe(500);
  await database.batch(['INSERT INTO feed SELECT * FROM put_aside', 'DROP TABLE put_aside'], 'write');
  database.close();
  expect(await statusOf(unseen)).toBe(200);
});
