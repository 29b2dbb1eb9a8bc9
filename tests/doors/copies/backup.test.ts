// A backup of a remote database, and one put back: all of it is there, and nothing of the way it went, whatever others write
// meanwhile, and wherever it is killed.

import { expect, test } from 'bun:test';
import { appendFileSync, copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { backUp } from '../../../src/doors/copies/backup.ts';
import { withBackup } from '../../../src/doors/copies/backup-file.ts';
import { compare } from '../../../src/doors/copies/compare.ts';
import { holdAlone } from '../../../src/doors/copies/exclusive-file.ts';
import { DatabaseInUse, hasKeys, isNew, restoreFile, restoreRemote } from '../../../src/doors/copies/restore.ts';
import type { Database } from '../../../src/store/database.ts';
import { embeddedDatabase } from '../../../src/store/embedded/database.ts';
import { openStore } from '../../../src/store/open.ts';
import { migrate } from '../../../src/store/schema.ts';
import { backupOf, OPTIONS, withLostPage } from '../../support/backups.ts';
import { callOver } from '../../support/client.ts';
import { type Client, openDatabase, type Row } from '../../support/database-client.ts';
import { everything } from '../../support/everything.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { jsonLines, keysCommand, keysProcess, startKeys } from '../../support/keys-command.ts';
import { MIGRATIONS, NEXT_MIGRATIONS } from '../../support/next-version.ts';
import { readOf, startProxy } from '../../support/proxy.ts';
import { startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { storeOn } from '../../support/store-mode.ts';
import { bearer, createTestApp, TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

/** More than are read at once. */
const LONG_KEYS = 1200;
const LONG_AT_ONCE = 300;

/** A new remote database, opened as a store, and by hand. */
async function remoteDatabase(started: AsyncDisposableStack) {
  const { url } = started.use(await startSqld());
  const store = await openStore({ mode: 'remote', url, authToken: null, replicaFile: null }, OPTIONS);
  const client = openDatabase(url);
  started.defer(store.close);
  started.defer(client.close);
  return { store, client, url };
}

test('of more secrets than are read at once each that has ended is counted, and the first are named', async () => {
  const file = await backupOf(1500);
  await using started = new AsyncDisposableStack();
  const { store, client } = await remoteDatabase(started);
  const counted: number[] = [];
  await withBackup(file, temporaryFolder(), async (backup) => {
    expect(await isNew(store.db)).toBe(true);
    expect(await compare(store.db, backup, Date.now())).toMatchObject({ replaced: 0, revivedCount: 1500 });
    const progress = (done: number, total: number) => void counted.push(done, total);
    await restoreRemote(store.db, backup, { isNew: true, actor: null, progress });
    expect(counted).toEqual([1000, 3000, 1500, 3000, 2500, 3000, 3000, 3000]); // keys and events
    expect(await isNew(store.db)).toBe(false);
    expect(await compare(store.db, backup, Date.now())).toMatchObject({ replaced: 1500, revivedCount: 0 });
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

const rulesOf = (id: string, keyId: string, issuer: string) => [
  `INSERT INTO issuers VALUES ('${issuer}', '${id}')`,
  `INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
VALUES ('${id}', '${keyId}', 'of ${id}', '${issuer}', 's', '[]', '[]', 1)`,
];

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
  const primary = openDatabase(sqld.url);
  await primary.batch([
    'ALTER TABLE api_keys ADD COLUMN "group" TEXT',
    'CREATE TABLE "by hand" (text TEXT)',
    `INSERT INTO "by hand" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT 'a' FROM n`,
    ...rulesOf('removed', kept.id, 'one'),
  ]);
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file);
  await waitFor(() => proxy.sent(readOf('rules')) > 0); // keys were read before
  await primary.batch(["DELETE FROM rules WHERE id = 'removed'", ...rulesOf('added', kept.id, 'other')]);
  await primary.batch([
    `UPDATE api_keys SET name = 'new', "group" = 'by hand' WHERE id = '${kept.id}'`,
    "INSERT INTO blocked_owners (owner, blocked_at_ms) VALUES ('carol', 1796000000000000000)",
  ]);
  primary.close();
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
  expect(await rows('SELECT name, "group" FROM api_keys WHERE "group" IS NOT NULL')).toEqual([
    { name: 'new', group: 'by hand' },
  ]);
  expect(await rows('SELECT text, count(*) AS rows FROM "by hand"')).toEqual([{ text: 'a', rows: 600 }]);
  expect(await rows('SELECT owner, blocked_at_ms FROM blocked_owners')).toEqual([
    { owner: 'carol', blocked_at_ms: Number.MAX_SAFE_INTEGER },
  ]);
  expect(await rows('SELECT id, issuer, jwks FROM rules JOIN issuers USING (issuer)')).toEqual([
    { id: 'added', issuer: 'other', jwks: 'added' },
  ]);
  expect((await rows('SELECT issuer FROM issuers')).length).toBe(1);
  expect(await rows('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  copy.close();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: `file:${file}` } });
  expect((await callOver(server.url, 'get_data', {}, { 'x-api-key': kept.key })).status).toBe(200);
});

test('a remote database that changes all the time is backed up, without rules of keys that were deleted meanwhile', async () => {
  await using sqld = await startSqld();
  await using proxy = await startProxy(sqld.url, { delayMs: 20 });
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const [kept, ending] = [await app.createKey('alice'), await app.createKey('alice')];
  using primary = openDatabase(sqld.url);
  await primary.batch(rulesOf('of a key', ending.id, 'one'));
  const feedReads = () => proxy.sent('FROM feed f');
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file);
  const ended = done.then(() => true);
  await waitFor(() => proxy.sent(readOf('rules')) > 0);
  const rename = `UPDATE api_keys SET name = name || '+' WHERE id IN ('${kept.id}', '${ending.id}')`;
  await primary.execute(rename);
  await waitFor(() => feedReads() > 1); // what changed before is copied once more, and what changes now needn't be
  await primary.execute(`DELETE FROM api_keys WHERE id = '${ending.id}'`);
  while (feedReads() < 10 && !(await Promise.race([ended, primary.execute(rename).then(() => false)])));
  await done;
  expect(feedReads()).toBeLessThan(10);
  using copy = openDatabase(`file:${file}`);
  const { rows } = await copy.execute(`SELECT name FROM api_keys WHERE id = '${kept.id}'`);
  expect(rows).toEqual([{ name: expect.stringMatching(/\+$/) }]);
  expect((await copy.execute('SELECT * FROM rules WHERE key_id NOT IN (SELECT id FROM api_keys)')).rows).toEqual([]);
});

test('a key in whose row another was when the backup of a remote database began is in it, behind many changes', async () => {
  await using started = new AsyncDisposableStack();
  const { client, url } = await remoteDatabase(started);
  const add = (nth: number) => client.execute(NEW_KEYS.replace('?', `'[${nth}]'`));
  for (const nth of [1, 2]) await add(nth);
  const proxy = started.use(await startProxy(url, { delayMs: 50 }));
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file);
  await waitFor(() => proxy.sent(readOf('rules')) > 0);
  const many =
    "SELECT 'x' FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) SELECT i FROM n)";
  await client.batch([`INSERT INTO changes (key_hash) ${many}`, 'DELETE FROM api_keys WHERE row = 2']);
  for (const nth of [2, 3]) await add(nth);
  await done;
  using copy = openDatabase(`file:${file}`);
  const ids = 'SELECT row, id FROM api_keys ORDER BY row';
  expect((await copy.execute(ids)).rows.map(plain)).toEqual((await client.execute(ids)).rows.map(plain));
});

test('a table that was made by hand, with numbers beyond 2^53, is in the backup of a remote database as it is', async () => {
  await using started = new AsyncDisposableStack();
  const { client, url } = await remoteDatabase(started);
  const beyond = (nth: string) => `1152921504606846976 + ${nth}`;
  await client.batch([
    'CREATE TABLE posts (id INTEGER PRIMARY KEY, of BIGINT, text TEXT)',
    'CREATE TABLE logs (at BIGINT)',
    `INSERT INTO posts WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
SELECT ${beyond('i')}, iif(i % 2, NULL, ${beyond('-i')}), 'a' FROM n`,
    `INSERT INTO logs (rowid, at) SELECT id + 1, of FROM posts`,
  ]);
  const file = join(temporaryFolder(), 'backup.db');
  await backUp({ mode: 'remote', url, authToken: null, replicaFile: null }, file);
  using copy = openDatabase(`file:${file}`);
  const rows = [
    'SELECT CAST(id AS TEXT) AS id, typeof(id), CAST(of AS TEXT) AS of, text FROM posts ORDER BY id',
    'SELECT CAST(rowid AS TEXT) AS id, CAST(at AS TEXT) AS at, typeof(at) FROM logs ORDER BY rowid',
  ];
  for (const sql of rows) {
    const [there, here] = await Promise.all([client, copy].map(async (db) => (await db.execute(sql)).rows.map(plain)));
    expect(there).toHaveLength(1200);
    expect(here).toEqual(there ?? []);
  }
}, 180_000);

test('a file that somebody makes while a backup is under way stays, and the backup fails', async () => {
  await using started = new AsyncDisposableStack();
  const { url } = await remoteDatabase(started);
  await using proxy = await startProxy(url, { delayMs: 100 });
  const folder = temporaryFolder();
  const file = join(folder, 'backup.db');
  const env = { DATABASE_URL: proxy.url, JWT_SECRET: TEST_SECRET };
  const backup = keysCommand(env, ['backup', file]);
  await waitFor(() => readdirSync(folder).some((name) => name.endsWith('.part')));
  writeFileSync(file, 'of another backup');
  expect(await backup).toMatchObject({ code: 1, stderr: 'keys: the file exists already\n' });
  expect(readFileSync(file, 'utf8')).toBe('of another backup');
  expect(readdirSync(folder)).toEqual(['backup.db']);
});

test('a remote database that a newer version migrates while it is copied is in the backup as this version knows it', async () => {
  await using started = new AsyncDisposableStack();
  const { store, client, url } = await remoteDatabase(started);
  await client.execute(
    "INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms) VALUES ('k', 'u', 'n', 'h', '[]', 1, 1)",
  );
  const proxy = started.use(await startProxy(url));
  const schema = proxy.delayResponseTo('FROM sqlite_master WHERE sql');
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file);
  await schema.made;
  await migrate(store.db, NEXT_MIGRATIONS);
  schema.release();
  await done;
  const keys = await withBackup(file, temporaryFolder(), async ({ keys }) => keys);
  expect(keys).toBe(1);
});

test.each([
  ['replaced', "UPDATE feed SET database_id = 'another'"],
  ['put back to an earlier state', "UPDATE changes SET key_hash = 'another'"],
  ['pruned beyond what the copy has seen', 'UPDATE feed SET pruned_seq = 9'],
])('of a remote database that is %s while it is copied there is no backup', async (_, meanwhile) => {
  await using started = new AsyncDisposableStack();
  const { client, url } = await remoteDatabase(started);
  await client.execute("INSERT INTO changes (key_hash) VALUES ('h')");
  const proxy = started.use(await startProxy(url));
  const copied = proxy.delayResponseTo(readOf('api_keys'));
  const file = join(temporaryFolder(), 'backup.db');
  const done = backUp({ mode: 'remote', url: proxy.url, authToken: null, replicaFile: null }, file).catch(String);
  await copied.made;
  await client.execute(meanwhile);
  copied.release();
  expect(await done).toContain('while it was copied: try again');
});

test('a remote database of keys that are as long as they may be is backed up, and put back into another', async () => {
  await using started = new AsyncDisposableStack();
  const { client, url } = await remoteDatabase(started);
  const { store: other } = await remoteDatabase(started);
  const scopes = JSON.stringify(Array.from({ length: 100 }, (_, nth) => `scope:${nth}`.padEnd(20, 'x')));
  const resource = `https://other.example/${'p'.repeat(2000)}`;
  for (let from = 0; from < LONG_KEYS; from += LONG_AT_ONCE)
    await client.execute({
      sql: `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, resource, metadata)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${LONG_AT_ONCE})
SELECT lower(hex(randomblob(16))), ?1, ?2, lower(hex(randomblob(32))), ?3, 1, 1, ?4, json_object('a', ?5, 'b', ?5) FROM n`,
      args: ['\u{1f642}'.repeat(255), '\u{1f642}'.repeat(200), scopes, resource, 'x'.repeat(200)],
    });
  const file = join(temporaryFolder(), 'backup.db');
  await backUp({ mode: 'remote', url, authToken: null, replicaFile: null }, file);
  const [before, after] = await withBackup(file, temporaryFolder(), async (backup) => {
    await restoreRemote(other.db, backup, { isNew: true, actor: null });
    return [backup.keys, await compare(other.db, backup, Date.now())];
  });
  expect([before, after]).toMatchObject([LONG_KEYS, { replaced: LONG_KEYS, refusedCount: 0, revivedCount: 0 }]);
});

/** Makes a backup of before the migration 0003, with a key. */
async function olderBackup(): Promise<string> {
  const file = join(temporaryFolder(), 'backup.db');
  const db = embeddedDatabase(file);
  await migrate(db, MIGRATIONS.slice(0, 2));
  db.close();
  using client = openDatabase(`file:${file}`);
  await client.execute(
    "INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms) VALUES (lower(hex(randomblob(16))), 'o', 'n', 'h', '[]', 1, 1)",
  );
  await client.executeMultiple('PRAGMA journal_mode = delete');
  return file;
}

test('verbs that only read leave a backup as it is, also one of an older schema', async () => {
  for (const file of [await backupOf(2), await olderBackup()]) {
    const env = { DATABASE_URL: `file:${file}`, TZ: 'UTC' };
    const [key] = jsonLines(await keysCommand(env, ['list', '--json']));
    const [before, beside] = [readFileSync(file), readdirSync(dirname(file))];
    const reading = ['list', `show ${key.id}`, 'export', 'events', 'usage', 'owners', 'owner o', 'block', 'unblock'];
    for (const verb of [...reading, 'rule list'])
      expect(await keysCommand(env, verb.split(' ')), verb).toMatchObject({ code: 0 });
    expect(readFileSync(file).equals(before)).toBe(true);
    expect(readdirSync(dirname(file))).toEqual(beside);
  }
});

test('of a damaged database there is no backup, and one line says what to do', async () => {
  const file = await backupOf(100);
  const [damaged, copy] = [join(temporaryFolder(), 'keys.db'), join(temporaryFolder(), 'b.db')];
  writeFileSync(damaged, withLostPage(file));
  const { code, stderr } = await keysCommand({ DATABASE_URL: `file:${damaged}` }, ['backup', copy]);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^keys: the database file is damaged; restore it from a backup \(.*\)\n$/),
  });
  expect(existsSync(copy)).toBe(false);
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

test('of a file whose server stops while it is copied nothing of its log of before is taken', async () => {
  const file = await backupOf(1);
  const server = openDatabase(`file:${file}`);
  await server.execute('PRAGMA journal_mode = WAL');
  await server.execute("UPDATE api_keys SET name = 'in the log'");
  const key = await withBackup(
    file,
    temporaryFolder(),
    async ({ read }) => (await read({ sql: 'SELECT name, active FROM api_keys' }))[0],
    async (from, to) => {
      copyFileSync(from, to);
      if (!from.endsWith('-wal')) return;
      await server.execute('UPDATE api_keys SET active = 0');
      server.close(); // moves the log into the file, and removes it
    },
  );
  expect({ ...key }).toEqual({ name: 'in the log', active: 0 });
});

const NEW_KEYS = `INSERT INTO api_keys (row, id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT value, lower(hex(randomblob(16))), 'later', 'n', lower(hex(randomblob(32))), '[]', 1, 1 FROM json_each(?)`;

/** Without what the driver of remote databases adds. */
const plain = (row: Row) => Object.fromEntries(Object.entries(row).filter(([name]) => !/^(\d+|length)$/.test(name)));

/** All that a restore takes from the backup. */
async function restored(client: Client) {
  const all = async (sql: string) => (await client.execute(sql)).rows.map(plain);
  return {
    keys: (await all('SELECT * FROM api_keys ORDER BY row')).map(({ last_used_at_ms, ...key }) => key),
    counts: await all('SELECT * FROM key_counts ORDER BY row, window_s, number'),
    months: await all('SELECT * FROM key_months ORDER BY row, month'),
    owners: await all('SELECT * FROM owners ORDER BY owner'),
    blocked: await all('SELECT owner FROM blocked_owners'),
    holders: await all('SELECT * FROM holders ORDER BY row'),
    rules: await all('SELECT * FROM rules JOIN issuers USING (issuer)'),
  };
}

const schemaOf = async (client: Client) =>
  (await client.execute("SELECT type, name, tbl_name, replace(sql, '\"', '') AS sql FROM sqlite_master ORDER BY name"))
    .rows;

const eventsOf = async (client: Client) =>
  (await client.execute('SELECT seq, key_id, owner, kind FROM key_events ORDER BY seq')).rows.map(plain);

/** A backup with keys of every kind: plans, counts, blocks, rotations. */
async function richBackup() {
  const file = await backupOf(1200);
  using copy = openDatabase(`file:${file}`);
  await copy.batch([
    "UPDATE api_keys SET second_hash = 'next', second_is = 'next', rotations = 1 WHERE row = 5",
    "UPDATE api_keys SET limit_requests = 5, limit_window_s = 60, metadata = '{}' WHERE row = 6",
    'DELETE FROM api_keys WHERE row = 7',
    'INSERT INTO key_counts (row, window_s, number, uses) SELECT row, 60, unixepoch() / 60, 5 FROM api_keys',
    'INSERT INTO key_months (row, month, d1, d31, last_used_at_ms) SELECT row, 24321, 5, 6, 7 FROM api_keys',
    "INSERT INTO owners (owner, keys_max) VALUES ('owner 1', 5)",
    "INSERT INTO holders (owner) VALUES ('owner 1')",
    ...rulesOf('rule', 'of a key', 'issuer'),
    "INSERT INTO blocked_owners (owner) VALUES ('owner 2')",
  ]);
  const all = { rows: await restored(copy), events: await eventsOf(copy) };
  return { file, ...all };
}

/** Restores a backup into a remote database, in which there was something before. */
const restoreInto = (db: Database, file: string) =>
  withBackup(file, temporaryFolder(), (backup) => restoreRemote(db, backup, { isNew: false, actor: null }));

/** A database to which something happens before the second page of keys is put. */
function meddledWith(db: Database, meanwhile: () => Promise<unknown>): Database {
  let keysPut = 0;
  return {
    ...db,
    async writeAll(all) {
      const isOfKeys = all.some(({ sql }) => sql.startsWith('INSERT OR IGNORE INTO "api_keys"'));
      if (isOfKeys && keysPut++ === 1) await meanwhile();
      return db.writeAll(all);
    },
  };
}

const trailOf = (events: readonly Row[]) => events.map(({ seq: _, ...event }) => event);

/** Not every write is the last one in `bun run test`. */
const WRITES_AT_ONCE = 4;

test('into a remote database that is killed at any of its writes: what is there holds, and a repeated one completes it', async () => {
  const { file, rows: wanted, events } = await richBackup();
  await using started = new AsyncDisposableStack();
  const { store, client } = await remoteDatabase(started);
  const schema = await schemaOf(client);
  let isOver = false;
  for (let writes = 0; !isOver; writes += everything ? 1 : WRITES_AT_ONCE) {
    // Whatever an earlier round has put.
    for (const table of [
      'api_keys',
      'owners',
      'holders',
      'key_counts',
      'key_months',
      'blocked_owners',
      'key_events',
      'upkeep',
    ])
      await client.execute(`DELETE FROM ${table}`);
    await client.batch([NEW_KEYS.replace('?', "'[1]'"), 'DELETE FROM api_keys']); // two events of its own
    const own = trailOf(await eventsOf(client));
    let left = writes;
    const killed = Promise.withResolvers<'killed'>();
    const until = <T>(write: () => Promise<T>): Promise<T> => {
      left -= 1;
      if (left >= 0) return write();
      killed.resolve('killed');
      return new Promise<never>(() => {});
    };
    const db: Database = { ...store.db, writeAll: (all) => until(() => store.db.writeAll(all)) };
    isOver = (await Promise.race([restoreInto(db, file), killed.promise])) !== 'killed';
    expect(await schemaOf(client)).toEqual(schema);
    // No key without the block of its owner, its plan and its counts.
    const keys = (await client.execute('SELECT 1 FROM api_keys')).rows.length;
    if (keys > 0) expect(await restored(client)).toEqual({ ...wanted, keys: wanted.keys.slice(0, keys) });
    expect(await hasKeys(store.db)).toBe(isOver);
    if (!isOver) await restoreInto(store.db, file);
    expect(await restored(client)).toEqual(wanted);
    expect(trailOf(await eventsOf(client))).toEqual([...own, ...trailOf(events), RESTORED]);
    expect((await client.execute('SELECT task FROM upkeep')).rows).toEqual([]); // nothing is under way
  }
}, 180_000);

const RESTORED = { key_id: null, owner: '', kind: 'restored' };

test('a new remote database is new still after a restore that was killed: it is not asked for, and takes the secrets', async () => {
  const { file } = await richBackup();
  await using started = new AsyncDisposableStack();
  const { store, client, url } = await remoteDatabase(started);
  const killed = meddledWith(store.db, () => Promise.reject(new Error('killed')));
  await expect(restoreInto(killed, file)).rejects.toThrow('killed');
  const { code, stderr } = await keysCommand({ DATABASE_URL: url }, ['restore', file]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('since') });
  using backup = openDatabase(`file:${file}`);
  const secretsIn = async (one: Client) =>
    (await one.execute('SELECT name, value FROM server_secrets ORDER BY name')).rows.map(plain);
  expect(await secretsIn(client)).toEqual(await secretsIn(backup));
});

test('a key that a server makes while its remote database is restored stays; the restore says that it is not complete', async () => {
  const { file } = await richBackup();
  await using started = new AsyncDisposableStack();
  const { store, client } = await remoteDatabase(started);
  const db = meddledWith(store.db, () => client.execute(NEW_KEYS.replace('?', "'[null]'")));
  await expect(restoreInto(db, file)).rejects.toThrow(DatabaseInUse);
  await expect(restoreInto(store.db, file)).rejects.toThrow(DatabaseInUse);
  const { rows } = await client.execute("SELECT 1 FROM api_keys WHERE user_id = 'later'");
  expect(rows).toHaveLength(1);
});

test('a restore into a remote database that another one has taken over puts nothing more', async () => {
  const { file, rows: wanted } = await richBackup();
  await using started = new AsyncDisposableStack();
  const { store, client } = await remoteDatabase(started);
  const db = meddledWith(store.db, () => restoreInto(store.db, file));
  await expect(restoreInto(db, file)).rejects.toThrow(DatabaseInUse);
  expect(await restored(client)).toEqual(wanted);
});

test('a write into a remote database that is sent twice, or arrives late, changes nothing', async () => {
  const { file, rows: wanted } = await richBackup();
  await using started = new AsyncDisposableStack();
  const { store, client } = await remoteDatabase(started);
  const killed = meddledWith(store.db, () => Promise.reject(new Error('killed')));
  await expect(restoreInto(killed, file)).rejects.toThrow('killed');
  const late: (() => Promise<unknown>)[] = [];
  const arriveLate = async () => {
    for (const write of late) await write().catch(() => {}); // whatever it says, nobody hears it
  };
  const twice = async <T>(write: () => Promise<T>): Promise<T> => {
    late.push(write);
    await arriveLate();
    return write();
  };
  const db: Database = {
    ...store.db,
    write: (one) => twice(() => store.db.write(one)),
    writeAll: (all) => twice(() => store.db.writeAll(all)),
  };
  await restoreInto(db, file);
  expect(await restored(client)).toEqual(wanted);
  await client.batch([
    'UPDATE api_keys SET active = 0 WHERE row = 5',
    'UPDATE owners SET keys_max = 1',
    'DELETE FROM rules',
    'DELETE FROM blocked_owners',
    "INSERT INTO codes (hash, ends_at_ms, content) VALUES ('of a client', 1, '')",
  ]);
  const all = async () => [await restored(client), (await client.execute('SELECT hash FROM codes')).rows.map(plain)];
  const changed = await all();
  await arriveLate();
  expect(await all()).toEqual(changed);
}, 180_000);

test('while a file is held for a restore, a server that starts waits; then it has what was restored', async () => {
  const app = await createTestApp({ store: 'embedded' });
  const kept = await app.createKey('alice');
  const file = join(temporaryFolder(), 'backup.db');
  await app.keys('backup', file);
  const later = await app.createKey('alice');
  await app.close();
  const path = join(app.folder, 'keys.db');
  const held = await holdAlone(path);
  if (held === null) throw new Error('nobody has it open');
  const waiting = startServer({ env: { DATABASE_URL: `file:${path}`, JWT_SECRET: TEST_SECRET } });
  await withBackup(file, temporaryFolder(), (backup) => restoreFile(held.db, backup, { isNew: false, actor: null }));
  await held.close();
  await using server = await waiting;
  const use = async (key: string) => (await callOver(server.url, 'get_data', {}, { 'x-api-key': key })).status;
  expect([await use(kept.key), await use(later.key)]).toEqual([200, 401]);
});

test('while a file is held for a restore, another says who is in the way', async () => {
  const path = await restoredFrom(await backupOf(1));
  const file = join(temporaryFolder(), 'backup.db');
  expect((await keysCommand(at(path), ['backup', file])).code).toBe(0);
  const held = await holdAlone(path);
  const { code, stderr } = await keysProcess(at(path), ['restore', file, '--yes']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('another process has') });
  await held?.close();
});

const at = (path: string) => ({ DATABASE_URL: `file:${path}` });

/** Restores a backup into a new file, to which then a key is added. */
async function restoredFrom(file: string): Promise<string> {
  const path = join(temporaryFolder(), 'data/keys.db');
  expect((await keysCommand(at(path), ['restore', file])).code).toBe(0);
  const made = await keysCommand(at(path), ['create', '--user', 'alice', '--name', 'later']);
  expect(made.code).toBe(0);
  return path;
}

/** Counts the keys as a server that starts finds them. */
async function countKeys(path: string): Promise<number> {
  expect((await keysCommand(at(path), ['list', '--user', 'nobody'])).code).toBe(0); // opens it as a server does
  using client = openDatabase(`file:${path}`);
  const { rows } = await client.execute('SELECT count(*) AS keys FROM api_keys');
  expect((await client.execute('PRAGMA integrity_check')).rows).toEqual([{ integrity_check: 'ok' }]);
  return Number(rows[0]?.keys);
}

/** Restores a file, and kills the command once such a file stands beside the database. */
async function killRestore(path: string, file: string, isAwaited: (name: string) => boolean): Promise<void> {
  const command = startKeys(at(path), ['restore', file, '--yes'], temporaryFolder());
  await waitFor(() => readdirSync(dirname(path)).some(isAwaited));
  command.kill('SIGKILL');
  await command.exited;
}

test('killed while it copies the file of before, it has changed nothing, and can be repeated', async () => {
  const file = await backupOf(20_000); // several pieces, with a pause between
  const path = await restoredFrom(file);
  await killRestore(path, file, (name) => name.endsWith('.part'));
  expect(await countKeys(path)).toBe(20_001);
  expect((await keysCommand(at(path), ['restore', file, '--yes'])).code).toBe(0);
  expect(await countKeys(path)).toBe(20_000);
});

test('killed while it makes a database in place of a damaged file, that one is there, and no server starts empty', async () => {
  const file = await backupOf(20_000);
  const path = await restoredFrom(file);
  const damaged = withLostPage(path);
  writeFileSync(path, damaged);
  await killRestore(path, file, (name) => name.includes('.before-'));
  expect(existsSync(path) && readFileSync(path).equals(damaged)).toBe(true);
  expect((await keysCommand(at(path), ['restore', file, '--yes'])).code).toBe(0);
  expect(await countKeys(path)).toBe(20_000);
});

test('while a server has a damaged file open that it found before its restore was made, the restore changes nothing', async () => {
  const file = await backupOf(20_000);
  const path = await restoredFrom(file);
  const damaged = withLostPage(path);
  writeFileSync(path, damaged);
  const command = keysProcess(at(path), ['restore', file, '--yes']);
  await waitFor(() => readdirSync(dirname(path)).some((name) => name.includes('.before-')));
  using server = openDatabase(`file:${path}`);
  await server.execute('SELECT count(*) FROM sqlite_master');
  expect(await command).toMatchObject({ code: 1, stderr: expect.stringContaining('another process has') });
  expect(readFileSync(path).equals(damaged)).toBe(true);
});

test.each([0, 0.5, 1])('killed when this part of the transaction has run, the old keys are there: %d', async (part) => {
  const file = await backupOf(5000);
  const path = await restoredFrom(file);
  const source = (path: string) => JSON.stringify(join(import.meta.dir, '../../../src', path));
  const script = `import { withBackup } from ${source('doors/copies/backup-file.ts')};
import { restoreFile } from ${source('doors/copies/restore.ts')};
import { holdAlone } from ${source('doors/copies/exclusive-file.ts')};
const { db } = await holdAlone(${JSON.stringify(path)});
async function writeAll(statements) {
  await db.read({ sql: 'BEGIN IMMEDIATE' });
  for (const statement of statements.slice(0, statements.length * ${part})) await db.read(statement);
  process.kill(process.pid, 'SIGKILL');
}
await withBackup(${JSON.stringify(file)}, ${JSON.stringify(temporaryFolder())}, (backup) =>
  restoreFile({ ...db, writeAll }, backup, { isNew: false, actor: null }));`;
  const child = Bun.spawn([process.execPath, '-e', script], { stderr: 'inherit' });
  await child.exited;
  expect(child.signalCode).toBe('SIGKILL');
  expect(await countKeys(path)).toBe(5001);
  expect((await keysCommand(at(path), ['restore', file, '--yes'])).code).toBe(0);
  expect(await countKeys(path)).toBe(5000);
});
