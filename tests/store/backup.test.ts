// A backup put back into a remote database: all of it is there, and nothing of the way it went.

import { expect, test } from 'bun:test';
import { withBackup } from '../../src/database/backup/file.ts';
import { restore } from '../../src/database/backup/restore.ts';
import { openStore } from '../../src/store/open.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startSqld } from '../support/sqld.ts';
import { backupOf, OPTIONS } from './backups.ts';

test('rows sent ahead by an interrupted restore disturb nothing, and are gone after the next restore', async () => {
  const file = await backupOf(3);
  await using sqld = await startSqld();
  const config = { mode: 'remote', url: sqld.url, authToken: null, replicaFile: null } as const;
  await (await openStore(config, OPTIONS)).close();
  const client = openDatabase(sqld.url);
  await client.execute('CREATE TABLE _restoring_api_keys (row INTEGER PRIMARY KEY, id TEXT)');
  await client.execute("INSERT INTO _restoring_api_keys VALUES (1, 'left over')");
  const store = await openStore(config, OPTIONS);
  await withBackup(file, temporaryFolder(), (backup) => restore(config, store.db, backup));
  const count = async (sql: string) => Number((await client.execute(`SELECT count(*) AS n FROM ${sql}`)).rows[0]?.n);
  expect(await count('api_keys')).toBe(3);
  expect(await count("sqlite_master WHERE name LIKE '\\_restoring%' ESCAPE '\\'")).toBe(0);
  await store.close();
  client.close();
});
