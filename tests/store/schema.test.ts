// The tables are those that db/README.md describes, the migrations those of db/, and a database with others is refused.

import { expect, test } from 'bun:test';
import { copyFileSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../support/database-client.ts';
import { readDocument, unquoted } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { bearer, createTestApp, failureOf, type TestApp } from '../support/test-app.ts';

const DB = join(import.meta.dir, '../../db');

const README = readDocument('db/README.md');

/** Table name to column names, of a database. */
async function columnsIn(folder: string): Promise<ReadonlyMap<string, string[]>> {
  const db = openDatabase(`file:${join(folder, 'keys.db')}`);
  const { rows } = await db.execute(
    "SELECT m.name AS tbl, c.name AS col FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid",
  );
  db.close();
  const found = Map.groupBy(rows, (row) => String(row.tbl));
  return new Map([...found].map(([name, columns]) => [name, columns.map(({ col }) => String(col))]));
}

/** The names in the first cell of each row: one may be about several. */
const namedIn = (title: string) => README.table(title).flatMap(([cell = '']) => unquoted(cell).split(', '));

test('a new database has the tables and columns that are described, and records every migration', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const found = await columnsIn(app.folder);
  const db = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  const applied = await db.execute('SELECT version, name FROM schema_migrations ORDER BY version');
  db.close();
  const titles = [...README.text.matchAll(/^## (\w+)$/gm)].map(([, title = '']) => title); // those of tables
  expect([...found.keys()].sort()).toEqual([...titles, ...namedIn('Other tables')].sort());
  for (const title of titles) expect(namedIn(title).sort()).toEqual(found.get(title)?.toSorted() ?? []);
  const files = readdirSync(DB).filter((name) => name.endsWith('.sql'));
  expect(applied.rows.map(({ version, name }) => ({ version, name }))).toEqual(
    files.sort().map((file, index) => ({ version: index + 1, name: file.replace('.sql', '') })),
  );
});

test('db/parts.txt lists all tables, their columns and the triggers', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const db = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  const { rows } =
    await db.execute(`SELECT concat_ws(' ', m.type, m.name, group_concat(c.name, ' ' ORDER BY c.cid)) AS line
FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table'
WHERE m.type IN ('table', 'trigger') AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'schema_migrations'
GROUP BY m.name ORDER BY m.type, m.name`);
  db.close();
  expect(readFileSync(join(DB, 'parts.txt'), 'utf8')).toBe(rows.map(({ line }) => `${line}\n`).join(''));
});

test('what triggers run also runs in the older SQLite of a shell', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const db = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  const { rows } = await db.execute("SELECT sql FROM sqlite_master WHERE type IN ('trigger', 'table')");
  db.close();
  expect(rows.filter(({ sql }) => /subsec|octet_length/.test(String(sql)))).toEqual([]); // of 3.42 and 3.43
});

/** Makes a file large, which is not read whole at the start. */
const ENLARGE = `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms) VALUES
('large', 'alice', printf('%.*c', ${65 * 1024 * 1024}, 'x'), 'large', '[]', 1, 1);
DELETE FROM api_keys WHERE id = 'large';`;

test.each([
  ['a', ''],
  ['a large', ENLARGE],
])('%s database of the first version keeps its keys, and their last uses until they are used again', async (_, sql) => {
  const key = `sk_test_${'0'.repeat(64)}`;
  const folder = temporaryFolder();
  const db = openDatabase(`file:${join(folder, 'keys.db')}`);
  await db.executeMultiple(`${readFileSync(join(DB, '0001_keys.sql'), 'utf8')}
CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT;
INSERT INTO schema_migrations VALUES (1, '0001_keys', 1);
INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, last_used_at_ms) VALUES
('${'a'.repeat(32)}', 'alice', 'used', '${Bun.SHA256.hash(key, 'hex')}', '["read"]', 1, 1000, 2000),
('${'b'.repeat(32)}', 'alice', 'unused', '${'b'.repeat(64)}', '[]', 0, 3000, NULL);
${sql}`);
  db.close();
  const app = await createTestApp({ store: 'embedded', folder });
  const listed = async (by: TestApp) => (await by.call('list_api_keys', {}, await bearer(by, 'alice'))).body.keys;
  const keys = await listed(app);
  expect(keys).toEqual([
    expect.objectContaining({ name: 'unused', active: false, createdAt: 3000 }),
    expect.objectContaining({ name: 'used', active: true, scopes: ['read'], createdAt: 1000, lastUsedAt: 2000 }),
  ]);
  expect(keys[0]).not.toHaveProperty('lastUsedAt');
  expect(await app.useKey(key)).toMatchObject({ status: 200 });
  await app.close(); // writes
  await using again = await createTestApp({ store: 'embedded', folder, clock: app.clock });
  expect((await listed(again))[1].lastUsedAt).toBe(app.clock.nowMs());
});

test.each([
  'ALTER TABLE api_keys RENAME COLUMN scopes TO rights',
  'DROP TABLE changes',
  'DELETE FROM feed',
  'DROP TRIGGER api_keys_updated',
  'DROP TRIGGER key_uses_deleted',
  'DROP TRIGGER api_keys_created',
  'DROP TABLE server_secrets',
  "UPDATE schema_migrations SET name = '0001_other'",
])('a database of ours in which somebody has run %s stops the start', async (sql) => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const db = openDatabase(`file:${join(app.folder, 'keys.db')}`);
  await db.execute(sql);
  db.close();
  const again = createTestApp({ store: 'embedded', folder: app.folder });
  expect(await failureOf(again)).toContain('belongs to another program, or was changed by hand');
});

/** What no migration makes. */
const UNREAD = ['schema_migrations.applied_at_ms'];
const isOfVersionBefore = (table: string) => ['code_secrets', 'redeemed_codes'].includes(table);

test('a database that lacks any column that servers use stops the start', async () => {
  const whole = await createTestApp({ store: 'embedded' });
  await whole.close();
  const columns = [...(await columnsIn(whole.folder))].flatMap(([table, names]) =>
    isOfVersionBefore(table) ? [] : names.map((name) => [table, name] as const),
  );
  expect(columns.length).toBeGreaterThan(60);
  const started: string[] = [];
  for (const [table, column] of columns) {
    const folder = temporaryFolder();
    copyFileSync(join(whole.folder, 'keys.db'), join(folder, 'keys.db'));
    const db = openDatabase(`file:${join(folder, 'keys.db')}`);
    await db.execute(`ALTER TABLE ${table} RENAME COLUMN ${column} TO lost_${column}`);
    db.close();
    const app = await createTestApp({ store: 'embedded', folder }).catch(() => null);
    if (app === null) continue;
    await app.close();
    started.push(`${table}.${column}`);
  }
  expect(started).toEqual(UNREAD);
}, 180_000);
