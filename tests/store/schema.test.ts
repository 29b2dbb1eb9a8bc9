// The tables are those that db/README.md describes, the migrations those of db/, and a database with others is refused.

import { expect, test } from 'bun:test';
import { copyFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { databaseOf, executeAt, openDatabase } from '../support/database-client.ts';
import { readDocument, unquoted } from '../support/documents.ts';
import { temporaryFolder } from '../support/folder.ts';
import { TABLES } from '../support/tables.ts';
import { createTestApp, failureOf } from '../support/test-app.ts';

const DB = join(import.meta.dir, '../../db');

const README = readDocument('db/README.md');

/** Table name to column names, of a database. */
async function columnsIn(folder: string): Promise<ReadonlyMap<string, string[]>> {
  const rows = await executeAt(
    `file:${join(folder, 'keys.db')}`,
    "SELECT m.name AS tbl, c.name AS col FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid",
  );
  const found = Map.groupBy(rows, (row) => String(row.tbl));
  return new Map([...found].map(([name, columns]) => [name, columns.map(({ col }) => String(col))]));
}

/** The names in the first cell of each row: one may be about several. */
const namedIn = (title: string) => README.table(title).flatMap(([cell = '']) => unquoted(cell).split(', '));

test('a new database has the tables and the trail that are described, and records every migration', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const found = await columnsIn(app.folder);
  const applied = await executeAt(databaseOf(app), 'SELECT version, name FROM schema_migrations ORDER BY version');
  expect([...found.keys()].sort()).toEqual(namedIn('The tables').sort());
  expect(namedIn('key_events').sort()).toEqual(found.get('key_events')?.toSorted() ?? []);
  expect(TABLES.map(({ name }) => name).sort()).toEqual([...found.keys()].sort());
  for (const { name, growsBy } of TABLES) expect(found.get(name)).toContain(growsBy ?? found.get(name)?.[0] ?? '');
  const files = readdirSync(DB).filter((name) => name.endsWith('.sql'));
  expect(applied.map(({ version, name }) => ({ version, name }))).toEqual(
    files.sort().map((file, index) => ({ version: index + 1, name: file.replace('.sql', '') })),
  );
});

/** Columns of a key that no memory holds, or that change with one that is announced. */
const UNANNOUNCED = ['row', 'created_at_ms', 'rotations', 'last_used_at_ms', 'changed_by', 'deleting'];

test('triggers announce a change of each column of a key that servers remember, also to its rules', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const triggers = await executeAt(
    databaseOf(app),
    "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'api_keys' AND sql LIKE '% AFTER UPDATE %INSERT INTO changes%'",
  );
  const whens = triggers.map(({ sql }) => String(sql).split(/^BEGIN/m)[0] ?? '');
  const announced = (table: string) =>
    new Set(whens.filter((when) => when.includes(table)).flatMap((when) => when.match(/(?<=\bnew\.)\w+/g) ?? []));
  const columns = (await columnsIn(app.folder)).get('api_keys') ?? [];
  expect(columns.filter((column) => !announced('api_keys').has(column))).toEqual(UNANNOUNCED);
  const ofRules = [...UNANNOUNCED, 'foreign_hash'];
  expect(columns.filter((column) => !announced('rules_of_key').has(column)).sort()).toEqual(ofRules.sort());
});

test('what triggers run also runs in the older SQLite of a shell', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const rows = await executeAt(databaseOf(app), "SELECT sql FROM sqlite_master WHERE type IN ('trigger', 'table')");
  expect(rows.filter(({ sql }) => /subsec|octet_length/.test(String(sql)))).toEqual([]); // of 3.42 and 3.43
});

test.each([
  'ALTER TABLE api_keys RENAME COLUMN scopes TO rights',
  'DROP TABLE changes',
  'DELETE FROM feed',
  'DROP TABLE server_secrets',
  "UPDATE schema_migrations SET name = '0001_other'",
])('a database of ours in which somebody has run %s stops the start', async (sql) => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  await executeAt(databaseOf(app), sql);
  const again = createTestApp({ store: 'embedded', folder: app.folder });
  expect(await failureOf(again)).toContain('belongs to another program, or was changed by hand');
});

/** What no migration makes. */
const UNREAD = ['schema_migrations.applied_at_ms'];

test('a database that lacks any column, view or trigger stops the start', async () => {
  const whole = await createTestApp({ store: 'embedded' });
  await whole.close();
  const columns = [...(await columnsIn(whole.folder))].flatMap(([table, names]) =>
    names.map((name) => [`${table}.${name}`, `ALTER TABLE ${table} RENAME COLUMN ${name} TO lost_${name}`] as const),
  );
  expect(columns.length).toBeGreaterThan(60);
  const db = openDatabase(databaseOf(whole));
  const { rows } = await db.execute("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')");
  db.close();
  expect(rows.length).toBeGreaterThan(20);
  const losses = [...columns, ...rows.map(({ type, name }) => [String(name), `DROP ${type} ${name}`] as const)];
  const started: string[] = [];
  for (const [part, sql] of losses) {
    const folder = temporaryFolder();
    copyFileSync(join(whole.folder, 'keys.db'), join(folder, 'keys.db'));
    await executeAt(`file:${join(folder, 'keys.db')}`, sql);
    const app = await createTestApp({ store: 'embedded', folder }).catch(() => null);
    if (app === null) continue;
    await app.close();
    started.push(part);
  }
  expect(started).toEqual(UNREAD);
}, 180_000);
