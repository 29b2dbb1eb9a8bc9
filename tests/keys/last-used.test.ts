// Last uses that a stop can’t write. What one writes is in ../store/last-used.test.ts, what is written when in
// ../uses/last-used.test.ts.

import { expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../support/database-client.ts';
import { createTestApp } from '../support/test-app.ts';

test('a stop that cannot write what is pending closes the database all the same', async () => {
  const app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  await app.useKey(key);
  const file = join(app.folder, 'keys.db');
  const database = openDatabase(`file:${file}`);
  await database.execute("CREATE TRIGGER broken BEFORE INSERT ON key_counts BEGIN SELECT RAISE(ABORT, 'a bug'); END");
  database.close();
  expect(await app.close().catch(String)).toContain('a bug');
  expect(statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0).toBe(0);
});
