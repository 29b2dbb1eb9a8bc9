// Lists the migrations, checks whether a database is ours, and migrates it.

import migration0001 from '../../db/0001_keys.sql' with { type: 'text' };
import migration0002 from '../../db/0002_key_uses.sql' with { type: 'text' };
import migration0003 from '../../db/0003_changes_by_key.sql' with { type: 'text' };
import migration0004 from '../../db/0004_rotation_and_events.sql' with { type: 'text' };
import migration0005 from '../../db/0005_expiring.sql' with { type: 'text' };
import migration0006 from '../../db/0006_ranges_and_restores.sql' with { type: 'text' };
import migration0007 from '../../db/0007_connect.sql' with { type: 'text' };
import migration0008 from '../../db/0008_limits_and_counts.sql' with { type: 'text' };
import migration0009 from '../../db/0009_windows_replaced.sql' with { type: 'text' };
import migration0010 from '../../db/0010_codes.sql' with { type: 'text' };
import migration0011 from '../../db/0011_exchanges.sql' with { type: 'text' };
import migration0012 from '../../db/0012_changed_fields.sql' with { type: 'text' };
import migration0013 from '../../db/0013_open_requests.sql' with { type: 'text' };
import migration0014 from '../../db/0014_upkeep_and_trail.sql' with { type: 'text' };
import migration0015 from '../../db/0015_holders.sql' with { type: 'text' };
import migration0016 from '../../db/0016_owners.sql' with { type: 'text' };
import migration0017 from '../../db/0017_metadata.sql' with { type: 'text' };
import migration0018 from '../../db/0018_children.sql' with { type: 'text' };
import migration0019 from '../../db/0019_newest_change.sql' with { type: 'text' };
import migration0020 from '../../db/0020_event_client.sql' with { type: 'text' };
import migration0021 from '../../db/0021_foreign.sql' with { type: 'text' };
import migration0022 from '../../db/0022_admin_events.sql' with { type: 'text' };
import parts from '../../db/parts.txt' with { type: 'text' };
import { isOutage } from '../ground/result.ts';
import { sleep } from '../ground/runtime.ts';
import { type Database, type Row, type Statement, UnusableDatabase } from './database.ts';

/** All migrations, in order. Never edit a landed file; see db/README.md. */
const MIGRATIONS: readonly { readonly name: string; readonly sql: string }[] = [
  { name: '0001_keys', sql: migration0001 },
  { name: '0002_key_uses', sql: migration0002 },
  { name: '0003_changes_by_key', sql: migration0003 },
  { name: '0004_rotation_and_events', sql: migration0004 },
  { name: '0005_expiring', sql: migration0005 },
  { name: '0006_ranges_and_restores', sql: migration0006 },
  { name: '0007_connect', sql: migration0007 },
  { name: '0008_limits_and_counts', sql: migration0008 },
  { name: '0009_windows_replaced', sql: migration0009 },
  { name: '0010_codes', sql: migration0010 },
  { name: '0011_exchanges', sql: migration0011 },
  { name: '0012_changed_fields', sql: migration0012 },
  { name: '0013_open_requests', sql: migration0013 },
  { name: '0014_upkeep_and_trail', sql: migration0014 },
  { name: '0015_holders', sql: migration0015 },
  { name: '0016_owners', sql: migration0016 },
  { name: '0017_metadata', sql: migration0017 },
  { name: '0018_children', sql: migration0018 },
  { name: '0019_newest_change', sql: migration0019 },
  { name: '0020_event_client', sql: migration0020 },
  { name: '0021_foreign', sql: migration0021 },
  { name: '0022_admin_events', sql: migration0022 },
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** The longest that a remote database may take to add a column. */
const ADD_COLUMN_MS_MAX = 120_000;
/** Longer than the pause of a process that waits for the file (embedded/connection.ts), so that it gets its turn. */
const BETWEEN_COLUMNS_MS = 30;

// Excludes tables of SQLite, the driver and the database server, which even an empty database may have.
export const MAY_BE_OURS =
  "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'libsql\\_%' ESCAPE '\\'";
const TABLES: Statement = { sql: `SELECT name FROM sqlite_master WHERE type = 'table' AND ${MAY_BE_OURS}` };
const APPLIED: Statement = { sql: 'SELECT version, name FROM schema_migrations ORDER BY version' };
const CREATE_LEDGER: Statement = {
  sql: 'CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT',
};
/** Selects columns, as `table.column`, and triggers. */
const PARTS: Statement = {
  sql: `SELECT m.name || coalesce('.' || c.name, '') AS part FROM sqlite_master m
LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table' WHERE m.type IN ('table', 'trigger')`,
};

/**
 * Fails if the database is read-only, or has no room for what one change of a key writes. It writes a code that nobody has
 * and that has ended, which the upkeep deletes. A row that stays the same would write no page.
 */
export const WRITE_PROBE: Statement = {
  sql: `INSERT INTO codes (hash, ends_at_ms, content) VALUES ('probe', 0, hex(randomblob(32768)))
ON CONFLICT (hash) DO UPDATE SET content = excluded.content`,
  unsynced: true,
};

const foreign = () =>
  new UnusableDatabase(
    'DATABASE_URL: this database belongs to another program, or was changed by hand; nothing was changed. Point it at an empty or new database',
    'it belongs to another program, or was changed by hand',
  );

/** Returns how many migrations are applied, without changes. Throws UnusableDatabase if the database isn't ours or empty. */
export async function inspect(db: Database): Promise<number> {
  const tables = (await db.read(TABLES)).map((row) => row.name);
  if (tables.length === 0) return 0;
  if (!tables.includes('schema_migrations')) throw foreign();
  const applied = await ownRows(db.read(APPLIED));
  if (applied.some((row, index) => index < MIGRATIONS.length && row.name !== MIGRATIONS[index]?.name)) {
    throw foreign();
  }
  if (applied.length > MIGRATIONS.length) {
    throw new UnusableDatabase(
      `DATABASE_URL: this database was written by a newer version of this program (${applied.length} migrations, this one knows ${MIGRATIONS.length}). Start that version`,
      'it was written by a newer version of this program',
    );
  }
  return applied.length;
}

/** Applies missing migrations, each in one transaction after its first columns. Processes may do so concurrently. */
export async function migrate(db: Database): Promise<void> {
  let applied = await inspect(db);
  let columnsFirst = applied > 0; // an empty database is made in one go
  for (;;) {
    const migration = MIGRATIONS[applied];
    if (migration === undefined) break;
    const statements = statementsOf(migration.sql);
    const left = columnsFirst ? await addColumns(db, statements) : statements;
    // The version's row comes first: if another process was faster, its uniqueness rolls back the whole transaction.
    const claim: Statement = {
      sql: "INSERT INTO schema_migrations (version, name, applied_at_ms) VALUES (?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))",
      args: [applied + 1, migration.name],
    };
    try {
      await db.writeAll([CREATE_LEDGER, claim, ...left]);
    } catch (error) {
      if ((await inspect(db)) <= applied) {
        if (columnsFirst) throw error;
        columnsFirst = true; // another process, which started later, may have added some
      }
    }
    applied = await inspect(db);
  }
  await checkShape(db);
}

/**
 * Adds the columns with which a migration begins, each in its own transaction, and returns the remaining statements.
 * SQLite reads the whole table for each column: in one transaction, no other process could write meanwhile, and `sqld`
 * would time out (remote/database.ts). Servers of the previous version ignore new columns.
 */
async function addColumns(db: Database, statements: readonly Statement[]): Promise<readonly Statement[]> {
  for (const [index, statement] of statements.entries()) {
    const [, table, column] = ADDS_COLUMN.exec(statement.sql) ?? [];
    if (table === undefined || column === undefined) return statements.slice(index);
    const isThere = async () => (await db.read({ sql: HAS_COLUMN, args: [table, column] })).length > 0;
    if (await isThere()) continue;
    try {
      await db.write(statement, ADD_COLUMN_MS_MAX);
    } catch (error) {
      if (!(await isThere())) throw error; // otherwise another process was faster
    }
    await sleep(BETWEEN_COLUMNS_MS);
  }
  return [];
}

const ADDS_COLUMN = /^(?:\s|--.*\n)*ALTER TABLE (\w+) ADD COLUMN (\w+)/;
const HAS_COLUMN = 'SELECT 1 FROM pragma_table_info(?) WHERE name = ?';

/** The triggers and columns that all migrations make together. */
const WANTED: readonly string[] = parts
  .trim()
  .split('\n')
  .flatMap((line) => {
    const [type, name, ...columns] = line.split(' ');
    return type === 'trigger' ? [`${name}`] : columns.map((column) => `${name}.${column}`);
  });

/** Refuses a database that lacks a part. Without triggers no process would learn of a revocation. */
async function checkShape(db: Database): Promise<void> {
  const found = new Set((await db.read(PARTS)).map(({ part }) => part));
  const feeds = await ownRows(db.read({ sql: 'SELECT 1 FROM feed' }));
  if (feeds.length !== 1 || !WANTED.every((part) => found.has(part))) throw foreign();
}

/** Returns the rows of a statement that every database of ours supports. */
const ownRows = (rows: Promise<readonly Row[]>): Promise<readonly Row[]> =>
  rows.catch((error) => {
    throw isOutage(error, 'no_schema') ? foreign() : error;
  });

/** Splits a file. A statement ends with a semicolon before an empty line or the file's end, which keeps triggers whole. */
const statementsOf = (sql: string): Statement[] =>
  sql
    .split(/;[ \t]*(?:--[^\n]*)?\n(?:[ \t]*\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement.replace(/^--.*$/gm, '').trim() !== '')
    .map((statement) => ({ sql: statement }));
