// A backup of a remote database, and one put back: all of it is there, and nothing of the way it went, whatever others write
// meanwhile, and wherever it is killed.

import { expect, test } from 'bun:test';
import { appendFileSync, copyFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/ground/runtime.ts';
import { backUp } from '../../src/store/backup/backup.ts';
import { compare } from '../../src/store/backup/compare.ts';
import { withBackup } from '../../src/store/backup/file.ts';
import { restore } from '../../src/store/backup/restore.ts';
import type { Database, Statement } from '../../src/store/database.ts';
import { openStore } from '../../src/store/open.ts';
import { removeOld } from '../../src/store/upkeep.ts';
import { callOver } from '../support/client.ts';
import { type Client, openDatabase } from '../support/database-client.ts';
import { everything, rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
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
    const told: number[][] = [];
    const progress = (...at: number[]) => void told.push(at);
    await withBackup(file, temporaryFolder(), (backup) => restore(config, store.db, backup, { progress }));
    expect(told.at(-1)).toEqual([6, 6]); // keys and events
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
    expect(left).toEqual(expect.arrayContaining(['_restoring', '_restoring_key_rows', '_restoring_key_events']));
    const upkeep = { clock: systemClock, eventDays: 400, usageDays: 31 };
    await removeOld(store.db, upkeep);
    await client.execute('UPDATE _restoring SET begun_s = begun_s - 86390');
    await removeOld(store.db, upkeep);
    expect(await ahead()).toEqual(left);
    await client.execute('UPDATE _restoring SET begun_s = begun_s - 20');
    await removeOld(store.db, upkeep);
    expect(await ahead()).toEqual([]);
    const next = await openStore(config, OPTIONS); // the killed one holds its copy of the backup
    started.defer(next.close);
    await withBackup(file, temporaryFolder(), (backup) => restore(config, next.db, backup));
    expect((await client.execute('SELECT count(*) AS n FROM api_keys')).rows[0]?.n).toBe(3);
    expect(await ahead()).toEqual([]);
  },
);

test('of more secrets than are read at once each that has ended is counted, and the first are named', async () => {
  const file = await backupOf(1500);
  await using started = new AsyncDisposableStack();
  const { config, store, client } = await databaseOf('embedded', started);
  await withBackup(file, temporaryFolder(), async (backup) => {
    expect(await compare(config, store.db, backup, Date.now())).toMatchObject({
      isNew: true,
      replaced: 0,
      revivedCount: 1500,
    });
    await restore(config, store.db, backup);
    expect(await compare(config, store.db, backup, Date.now())).toMatchObject({
      isNew: false,
      replaced: 1500,
      revivedCount: 0,
    });
    await client.execute('UPDATE api_keys SET expires_at_ms = 1 WHERE row IN (1, 1400)');
    await client.execute('DELETE FROM api_keys WHERE row IN (2, 1500)');
    const { revivedCount, revived } = await compare(config, store.db, backup, Date.now());
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
  const writtenMeanwhile = (most: number) => async (from: string, to: string) => {
    copyFileSync(from, to);
    writes += 1;
    if (writes <= most) appendFileSync(other, '\0');
  };
  expect(await withBackup(other, temporaryFolder(), keysOf, writtenMeanwhile(1))).toBe(1);
  expect(writes).toBe(2);
  const refused = withBackup(other, temporaryFolder(), keysOf, writtenMeanwhile(Number.POSITIVE_INFINITY));
  await expect(refused).rejects.toThrow('of a database in use take one with keys backup');
});

const NEW_KEYS = `INSERT INTO api_keys (row, id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT value, lower(hex(randomblob(16))), 'later', 'n', lower(hex(randomblob(32))), '[]', 1, 1 FROM json_each(?)`;

/** Runs `also` before the transaction that puts the backup back. */
const before = (db: Database, also: (all: readonly Statement[]) => Promise<unknown>): Database => ({
  ...db,
  async writeAll(all) {
    if (all.some(({ sql }) => sql.startsWith('ALTER TABLE'))) await also(all);
    return db.writeAll(all);
  },
});

/** All that a restore takes from the backup. */
async function restored(client: Client) {
  const all = async (sql: string) => (await client.execute(sql)).rows;
  return {
    keys: (await all('SELECT * FROM api_keys ORDER BY row')).map(({ last_used_at_ms, ...key }) => key),
    counts: await all('SELECT * FROM key_counts ORDER BY row, window_s, number, instance'),
    uses: await all('SELECT * FROM key_uses ORDER BY row'),
    owners: await all('SELECT * FROM owners ORDER BY owner'),
    holders: await all('SELECT * FROM holders ORDER BY row'),
  };
}

const schemaOf = async (client: Client) =>
  (await client.execute("SELECT type, name, tbl_name, replace(sql, '\"', '') AS sql FROM sqlite_master ORDER BY name"))
    .rows;

const eventsOf = async (client: Client) =>
  (await client.execute('SELECT seq, key_id, owner, kind FROM key_events ORDER BY seq')).rows;

async function changeKeys(client: Client, rowsFrom: number): Promise<void> {
  await client.batch([
    { sql: `UPDATE api_keys SET active = 0 WHERE row = ${rowsFrom}` },
    { sql: `DELETE FROM api_keys WHERE row IN (${rowsFrom + 1}, (SELECT max(row) FROM api_keys))` },
    { sql: NEW_KEYS, args: [`[${rowsFrom + 1}, ${1000 + rowsFrom}, null]`] }, // a number that was given before, and others
    // Two keys change their secrets, a rotation is begun, and one gets another id by hand.
    { sql: `UPDATE api_keys SET key_hash = 'moving' WHERE row = ${rowsFrom + 2}` },
    {
      sql: `UPDATE api_keys SET key_hash = (SELECT key_hash FROM api_keys WHERE row = ${rowsFrom + 4}) || 'x' WHERE row = ${rowsFrom + 3}`,
    },
    {
      sql: `UPDATE api_keys SET second_hash = 'next ${rowsFrom}', second_is = 'next', rotations = 1 WHERE row = ${rowsFrom + 5}`,
    },
    { sql: `UPDATE api_keys SET id = 'another ${rowsFrom}', metadata = '{}' WHERE row = ${rowsFrom + 6}` },
    { sql: `UPDATE api_keys SET limit_requests = 5, limit_window_s = 60 WHERE row = ${rowsFrom + 7}` },
    { sql: `UPDATE api_keys SET key_hash = 'moved ${rowsFrom}' WHERE key_hash = 'moving'` },
    `INSERT INTO key_counts (row, window_s, number, instance, uses) VALUES (${rowsFrom}, 86400, unixepoch() / 86400, 1, 5)`,
    `INSERT INTO owners (owner, keys_max) VALUES ('owner ${rowsFrom}', 5)`,
    `INSERT INTO holders (owner) VALUES ('owner ${rowsFrom}')`,
    `INSERT INTO key_uses (row, last_used_at_ms) VALUES (${rowsFrom}, 5)`,
  ]);
}

test.each(rows(['embedded', 'remote'] as const, 1))(
  '%s: what changes before a restore and while it runs is as in the backup after it; no event is lost',
  async (mode) => {
    await using started = new AsyncDisposableStack();
    const { config, store, client } = await databaseOf(mode, started);
    const file = await backupOf(100);
    await withBackup(file, temporaryFolder(), (backup) => restore(config, store.db, backup));
    await changeKeys(client, 80); // these are in the backup that counts
    const counted = join(temporaryFolder(), 'backup.db');
    const env = config.mode === 'embedded' ? { DATABASE_URL: `file:${config.path}` } : { DATABASE_URL: config.url };
    expect((await keysCommand(env, ['backup', counted])).code).toBe(0);
    const [wanted, schema] = [await restored(client), await schemaOf(client)];
    await changeKeys(client, 10);
    const between = async () => {
      await changeKeys(client, 30);
      expect(await restored(client)).not.toEqual(wanted);
    };
    let events: unknown[] = [];
    const db = before(store.db, async (all) => {
      expect(all.filter(({ sql }) => /^CREATE (UNIQUE )?INDEX|^DROP TABLE (?!_)/.test(sql))).toEqual([]); // others wait
      await between();
      events = await eventsOf(client);
    });
    await withBackup(counted, temporaryFolder(), (backup) => restore(config, db, backup));
    expect(await restored(client)).toEqual(wanted);
    expect(await schemaOf(client)).toEqual(schema);
    expect((await eventsOf(client)).slice(0, -1)).toEqual(events as never);
    expect((await client.execute('PRAGMA integrity_check')).rows).toEqual([{ integrity_check: 'ok' }]);
  },
);

const MANY = 10_001;

test('more keys than are replaced one by one are replaced together, with what changes meanwhile', async () => {
  await using started = new AsyncDisposableStack();
  const { config, store, client } = await databaseOf('embedded', started);
  const schema = await schemaOf(client);
  const file = await backupOf(MANY);
  const copy = openDatabase(`file:${file}`);
  const wanted = await restored(copy);
  copy.close();
  await client.execute({ sql: NEW_KEYS, args: ['[1, 2]'] });
  const db = before(store.db, () => client.execute({ sql: NEW_KEYS, args: ['[null]'] }));
  await withBackup(file, temporaryFolder(), (backup) => restore(config, db, backup));
  expect(await restored(client)).toEqual(wanted);
  expect(await schemaOf(client)).toEqual(schema);
  const events = await eventsOf(client);
  expect(events.length).toBe(MANY + 4); // three of others, and the restore
  expect(events.at(-1)?.kind).toBe('restored');
});

/** Not every write is the last one in `bun run test`. */
const WRITES_AT_ONCE = 6;

test('a restore that is killed at any of its writes leaves the keys of before, or the backup; its tables go after a day', async () => {
  const file = await backupOf(20);
  const copy = openDatabase(`file:${file}`);
  const wanted = await restored(copy);
  copy.close();
  const states = new Set<string>();
  for (let writes = 0, isOver = false; !isOver; writes += everything ? 1 : WRITES_AT_ONCE) {
    await using started = new AsyncDisposableStack();
    const { config, store, client } = await databaseOf('embedded', started);
    await client.execute({ sql: NEW_KEYS, args: ['[3, 40]'] });
    await changeKeys(client, 40);
    const [old, schema] = [await restored(client), await schemaOf(client)];
    let left = writes;
    const killed = Promise.withResolvers<'killed'>();
    const until = <T>(write: () => Promise<T>): Promise<T> => {
      left -= 1;
      if (left >= 0) return write();
      killed.resolve('killed');
      return new Promise<never>(() => {});
    };
    const db: Database = {
      ...store.db,
      write: (statement) => until(() => store.db.write(statement)),
      writeAll: (all) => until(() => store.db.writeAll(all)),
    };
    const done = withBackup(file, temporaryFolder(), (backup) => restore(config, db, backup));
    isOver = (await Promise.race([done, killed.promise])) !== 'killed';
    const now = JSON.stringify(await restored(client));
    const is = now === JSON.stringify(wanted) ? 'new' : now === JSON.stringify(old) ? 'old' : 'neither';
    states.add(is);
    expect(is).not.toBe('neither');
    const env = { DATABASE_URL: `file:${config.mode === 'embedded' ? config.path : ''}` };
    const beside = join(temporaryFolder(), 'beside.db');
    expect((await keysCommand(env, ['backup', beside])).code).toBe(0);
    await client.execute(NEW_KEYS.replace('?', "'[null]'")); // a server goes on
    if ((await client.execute("SELECT 1 FROM sqlite_master WHERE name = '_restoring'")).rows.length > 0)
      await client.execute('UPDATE _restoring SET begun_s = begun_s - 86500');
    await removeOld(store.db, OPTIONS);
    expect(await schemaOf(client)).toEqual(schema);
    expect((await client.execute('PRAGMA integrity_check')).rows).toEqual([{ integrity_check: 'ok' }]);
  }
  expect([...states].sort()).toEqual(['new', 'old']);
});
