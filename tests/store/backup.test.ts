// A backup of a remote database, and one put back into it: all of it is there, and nothing of the way it went.

import { expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { backUp } from '../../src/store/backup/backup.ts';
import { withBackup } from '../../src/store/backup/file.ts';
import { restore } from '../../src/store/backup/restore.ts';
import { openStore } from '../../src/store/open.ts';
import { callOver } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startProxy } from '../support/proxy.ts';
import { startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { bearer, createTestApp, TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';
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

test('what changes while a remote database is copied is in the backup', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url, { delayMs: 100 });
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const [revoked, deleted, kept] = [
    await app.createKey('alice'),
    await app.createKey('alice'),
    await app.createKey('bob'),
  ];
  const alice = await bearer(app, 'alice');
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file);
  await waitFor(() => proxy.sent('FROM key_counts t') > 0); // keys were read before
  await app.call('revoke_api_key', { keyId: revoked.id }, alice);
  await app.call('delete_api_key', { keyId: deleted.id }, alice);
  const { id } = await app.createKey('alice');
  await done;
  const copy = openDatabase(`file:${file}`);
  const rows = async (sql: string) => (await copy.execute(sql)).rows;
  expect(await rows('SELECT id, active FROM api_keys ORDER BY row')).toEqual([
    { id: revoked.id, active: 0 },
    { id: kept.id, active: 1 },
    { id, active: 1 },
  ]);
  expect(await rows('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  copy.close();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${file}` } });
  expect((await callOver(server.url, 'get_data', {}, { 'x-api-key': kept.key })).status).toBe(200);
});
