// A backup of a remote database, and one put back: all of it is there, and nothing of the way it went.

import { expect, test } from 'bun:test';
import { appendFileSync, copyFileSync, type PathLike, statSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/ground/runtime.ts';
import { backUp } from '../../src/store/backup/backup.ts';
import { compare } from '../../src/store/backup/compare.ts';
import { withBackup } from '../../src/store/backup/file.ts';
import { restore } from '../../src/store/backup/restore.ts';
import type { Statement } from '../../src/store/database.ts';
import { openStore } from '../../src/store/open.ts';
import { removeOld } from '../../src/store/upkeep.ts';
import { callOver } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startProxy } from '../support/proxy.ts';
import { startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { bearer, createTestApp, TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';
import { backupOf, OPTIONS } from './backups.ts';

/** A new database, opened as a store, and by hand. */
async function databaseOf(mode: 'embedded' | 'remote', started: AsyncDisposableStack) {
  const path = join(temporaryFolder(), 'keys.db');
  const url = mode === 'remote' ? started.use(await startSqld()).url : `file:${path}`;
  const config = mode === 'remote' ? { mode, url, authToken: null, replicaFile: null } : { mode, path };
  const store = await openStore(config, OPTIONS);
  const client = openDatabase(url);
  started.defer(store.close);
  started.defer(client.close);
  return { config, store, client };
}

test.each(rows(['embedded', 'remote'] as const, 1))(
  '%s: rows sent ahead by an interrupted restore disturb nothing, and are gone after the next restore',
  async (mode) => {
    const file = await backupOf(3);
    await using started = new AsyncDisposableStack();
    const { config, store, client } = await databaseOf(mode, started);
    await client.execute('CREATE TABLE _restoring_api_keys (row INTEGER PRIMARY KEY, id TEXT)');
    await client.execute("INSERT INTO _restoring_api_keys VALUES (1, 'left over')");
    await (await openStore(config, OPTIONS)).close();
    await withBackup(file, temporaryFolder(), (backup) => restore(config, store.db, backup));
    const count = async (sql: string) => Number((await client.execute(`SELECT count(*) AS n FROM ${sql}`)).rows[0]?.n);
    expect(await count('api_keys')).toBe(3);
    expect(await count("sqlite_master WHERE name LIKE '\\_restoring%' ESCAPE '\\'")).toBe(0);
  },
);

test.each(rows(['embedded', 'remote'] as const, 1))(
  '%s: what a restore that was killed has left behind is dropped after a day, no sooner',
  async (mode) => {
    const file = await backupOf(3);
    await using started = new AsyncDisposableStack();
    const { config, store, client } = await databaseOf(mode, started);
    const ahead = async () => {
      const { rows } = await client.execute(
        "SELECT name FROM sqlite_master WHERE name LIKE '\\_restoring%' ESCAPE '\\'",
      );
      return rows.map(({ name }) => name);
    };
    const sentAhead = Promise.withResolvers<void>();
    const killedHere = () => {
      sentAhead.resolve();
      return new Promise<never>(() => {});
    };
    const db = {
      ...store.db,
      writeAll: (all: readonly Statement[]) =>
        all.some(({ sql }) => sql.startsWith('ALTER TABLE')) ? killedHere() : store.db.writeAll(all),
    };
    void withBackup(file, temporaryFolder(), (backup) => restore(config, db, backup));
    await sentAhead.promise;
    const left = await ahead();
    expect(left).toEqual(expect.arrayContaining(['_restoring', '_restoring_api_keys', '_restoring_key_events']));
    const upkeep = { clock: systemClock, eventDays: 400, usageDays: 31 };
    await removeOld(store.db, upkeep);
    await client.execute('UPDATE _restoring SET begun_s = begun_s - 86390');
    await removeOld(store.db, upkeep);
    expect(await ahead()).toEqual(left);
    await client.execute('UPDATE _restoring SET begun_s = begun_s - 20');
    await removeOld(store.db, upkeep);
    expect(await ahead()).toEqual([]);
    await withBackup(file, temporaryFolder(), (backup) => restore(config, store.db, backup));
    expect((await client.execute('SELECT count(*) AS n FROM api_keys')).rows[0]?.n).toBe(3);
    expect(await ahead()).toEqual([]);
  },
);

test('of more secrets than are read at once each that has ended is counted, and the first are named', async () => {
  const file = await backupOf(1500);
  await using started = new AsyncDisposableStack();
  const { config, store, client } = await databaseOf('embedded', started);
  await withBackup(file, temporaryFolder(), async (backup) => {
    expect(await compare(store.db, backup, Date.now())).toMatchObject({ isNew: true, replaced: 0, revivedCount: 1500 });
    await restore(config, store.db, backup);
    expect(await compare(store.db, backup, Date.now())).toMatchObject({
      isNew: false,
      replaced: 1500,
      revivedCount: 0,
    });
    await client.execute('UPDATE api_keys SET expires_at_ms = 1 WHERE row IN (1, 1400)');
    await client.execute('DELETE FROM api_keys WHERE row IN (2, 1500)');
    const { revivedCount, revived } = await compare(store.db, backup, Date.now());
    const named = revived.map(({ name, ended }) => [name, ended]);
    expect([revivedCount, named]).toEqual([
      4,
      [
        ['key 1', 'expired'],
        ['key 2', 'deleted'],
        ['key 1400', 'expired'],
        ['key 1500', 'deleted'],
      ],
    ]);
  });
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

test('a file that somebody writes to while it is copied is copied anew, or refused with what to do', async () => {
  const other = await backupOf(1);
  const keysOf = async ({ keys }: { keys: number }) => keys;
  let writes = 0;
  const writtenMeanwhile = (most: number) => (from: PathLike, to: PathLike) => {
    copyFileSync(from, to);
    writes += 1;
    if (writes <= most) appendFileSync(other, '\0');
  };
  expect(await withBackup(other, temporaryFolder(), keysOf, writtenMeanwhile(1))).toBe(1);
  expect(writes).toBe(2);
  const refused = withBackup(other, temporaryFolder(), keysOf, writtenMeanwhile(Number.POSITIVE_INFINITY));
  await expect(refused).rejects.toThrow('of a database in use take one with keys backup');
});
