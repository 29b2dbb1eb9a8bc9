// A database of a version before: what a server of that version has left, with one key.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { type Client, openDatabase } from './database-client.ts';
import { ROOT } from './documents.ts';
import { temporaryFolder } from './folder.ts';

const DB = join(ROOT, 'db');

/** Every migration, in order. */
export const MIGRATIONS = [...new Glob('*.sql').scanSync(DB)]
  .sort()
  .map((file) => ({ name: file.replace('.sql', ''), sql: readFileSync(join(DB, file), 'utf8') }));

/** Those of the last version without rotation and events, which migration 4 begins with seven columns for. */
export const OLD_MIGRATIONS = MIGRATIONS.slice(0, 3);

/** A database of that version with one key, and a connection of one of its servers. */
export async function oldDatabase(
  migrations = OLD_MIGRATIONS,
  path = join(temporaryFolder(), 'keys.db'),
): Promise<{ path: string; old: Client }> {
  const old = openDatabase(`file:${path}`);
  await old.execute('PRAGMA journal_mode = WAL');
  for (const { sql } of migrations) await old.executeMultiple(sql);
  await old.execute(
    'CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT',
  );
  for (const [index, { name }] of migrations.entries()) {
    await old.execute({ sql: 'INSERT INTO schema_migrations VALUES (?, ?, 1)', args: [index + 1, name] });
  }
  await createByOld(old, 'first');
  return { path, old };
}

export const createByOld = (old: Client, id: string) =>
  old.execute({
    sql: `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
VALUES (?1, 'alice', 'k', ?1, '[]', 1, 1)`,
    args: [id],
  });
