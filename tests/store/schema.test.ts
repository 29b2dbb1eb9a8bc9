// The tables are those that db/README.md describes, the migrations those of db/, and a database with others is refused.

import { expect, test } from 'bun:test';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { createTestApp } from '../support/test-app.ts';

const DB = join(import.meta.dir, '../../db');

/** Table name to column names, as db/README.md has them. */
const described = new Map(
  readFileSync(join(DB, 'README.md'), 'utf8')
    .split('\n## ')
    .slice(1)
    .map((section) => [
      section.slice(0, section.indexOf('\n')),
      [...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, column]) => column),
    ]),
);

test('a new database has the tables and columns that are described, and every migration is recorded', async () => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const db = createClient({ url: `file:${join(app.folder, 'keys.db')}` });
  const { rows } = await db.execute(
    "SELECT m.name AS tbl, c.name AS col FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.rowid, c.cid",
  );
  const found = Map.groupBy(rows, (row) => String(row.tbl));
  const applied = await db.execute('SELECT version, name FROM schema_migrations ORDER BY version');
  db.close();
  expect(
    Object.fromEntries([...found].map(([name, columns]) => [name, columns.map(({ col }) => String(col))])),
  ).toEqual(Object.fromEntries(described) as Record<string, string[]>);
  const files = readdirSync(DB).filter((name) => name.endsWith('.sql'));
  expect(applied.rows.map(({ version, name }) => ({ version, name }))).toEqual(
    files.sort().map((file, index) => ({ version: index + 1, name: file.replace('.sql', '') })),
  );
});

test.each([
  'ALTER TABLE api_keys RENAME COLUMN scopes TO rights',
  'DROP TABLE changes',
  'DELETE FROM feed',
  'DROP TRIGGER api_keys_updated',
  "UPDATE schema_migrations SET name = '0001_other'",
])('a database of ours in which somebody has run %s stops the start', async (sql) => {
  const app = await createTestApp({ store: 'embedded' });
  await app.close();
  const db = createClient({ url: `file:${join(app.folder, 'keys.db')}` });
  await db.execute(sql);
  db.close();
  const again = createTestApp({ store: 'embedded', folder: app.folder });
  await expect(again).rejects.toThrow('belongs to another program, or was changed by hand');
});
