// Lists the migrations, checks whether a database is ours, and migrates it.

import schema from '../../db/0001_schema.sql' with { type: 'text' };
import rules from '../../db/0002_rules.sql' with { type: 'text' };
import endedUses from '../../db/0003_ended_uses.sql' with { type: 'text' };
import { isOutage } from '../ground/result.ts';
import { type Database, type Row, type Statement, UnusableDatabase } from './database.ts';

interface Migration {
  readonly name: string;
  readonly sql: string;
}

/** All migrations, in order. db/README.md says what a new one may do. */
const MIGRATIONS: readonly Migration[] = [
  { name: '0001_schema', sql: schema },
  { name: '0002_rules', sql: rules },
  { name: '0003_ended_uses', sql: endedUses },
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** The first migration of what was there before 1.0.0. */
const BEFORE_1_0_0 = '0001_keys';

// Excludes tables of SQLite, the driver and the database server, which even an empty database may have.
export const MAY_BE_OURS =
  "name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_%' ESCAPE '\\' AND name NOT LIKE 'libsql\\_%' ESCAPE '\\'";
const TABLES: Statement = { sql: `SELECT name FROM sqlite_master WHERE type = 'table' AND ${MAY_BE_OURS}` };
const APPLIED: Statement = { sql: 'SELECT version, name FROM schema_migrations ORDER BY version' };
const CREATE_LEDGER: Statement = {
  sql: 'CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at_ms INTEGER NOT NULL) STRICT',
};
/** Selects columns, as `table.column`, views and triggers, each with the number of rows in `feed`. */
const PARTS: Statement = {
  sql: `SELECT (SELECT count(*) FROM feed) AS feeds, m.name || coalesce('.' || c.name, '') AS part FROM sqlite_master m
LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table' WHERE m.type IN ('table', 'view', 'trigger')`,
};

const unusable = (what: string, advice: string) =>
  new UnusableDatabase(`DATABASE_URL: this database ${what}${advice}`, `it ${what}`);

const TAKE_ANOTHER = '; nothing was changed. Point it at an empty or new database';
const foreign = () => unusable('belongs to another program, or was changed by hand', TAKE_ANOTHER);
const older = () => unusable('is of a version before 1.0.0, which this one does not read', TAKE_ANOTHER);

/** Returns how many migrations are applied, without changes. Throws UnusableDatabase if the database isn't ours or empty. */
export async function inspect(db: Database, migrations = MIGRATIONS): Promise<number> {
  const tables = (await db.read(TABLES)).map((row) => row.name);
  if (tables.length === 0) return 0;
  if (!tables.includes('schema_migrations')) throw foreign();
  const applied = await ownRows(db.read(APPLIED));
  if (applied[0]?.name === BEFORE_1_0_0) throw older();
  if (applied.some((row, index) => index < migrations.length && row.name !== migrations[index]?.name)) throw foreign();
  if (applied.length > migrations.length) {
    const counts = `${applied.length} migrations, this one knows ${migrations.length}`;
    throw unusable('was written by a newer version of this program', ` (${counts}). Start that version`);
  }
  return applied.length;
}

/** Applies missing migrations, each in one transaction, to an empty database all in one. Processes may do so concurrently. */
export async function migrate(db: Database, migrations = MIGRATIONS): Promise<void> {
  let applied = await inspect(db, migrations);
  while (applied < migrations.length) {
    const before = applied;
    const next = migrations.slice(before, before === 0 ? undefined : before + 1);
    const steps = next.flatMap(({ name, sql }, at) => [claimOf(before + at + 1, name), ...statementsOf(sql)]);
    try {
      await db.writeAll([CREATE_LEDGER, ...steps]);
      applied += next.length;
    } catch (error) {
      const found = await inspect(db, migrations);
      if (found <= applied) throw error; // otherwise another process was faster
      applied = found;
    }
  }
  await checkShape(db, migrations);
}

/** Comes first in a transaction: if another process was faster, its uniqueness rolls back the whole transaction. */
const claimOf = (version: number, name: string): Statement => ({
  sql: "INSERT INTO schema_migrations (version, name, applied_at_ms) VALUES (?, ?, CAST(unixepoch('subsec') * 1000 AS INTEGER))",
  args: [version, name],
});

/** Refuses a database that lacks a part. Without triggers no process would learn of a revocation. */
async function checkShape(db: Database, migrations: readonly Migration[]): Promise<void> {
  const rows = await ownRows(db.read(PARTS));
  const found = new Set(rows.map(({ part }) => part));
  if (rows[0]?.feeds !== 1 || !partsOf(migrations).isSubsetOf(found)) throw foreign();
}

/** Returns the columns, views and triggers that migrations make together. */
function partsOf(migrations: readonly Migration[]): Set<unknown> {
  const parts = new Set<unknown>();
  for (const { sql } of migrations.flatMap(({ sql }) => statementsOf(sql.replace(/ *--.*/g, '')))) {
    const [, verb, type, name = '', added] = /^(CREATE|ALTER|DROP) (\w+) (\w+)(?: ADD COLUMN (\w+))?/.exec(sql) ?? [];
    if (added !== undefined) parts.add(`${name}.${added}`);
    else if (type === 'TABLE') for (const [, column] of sql.matchAll(COLUMN)) parts.add(`${name}.${column}`);
    else if (type === 'TRIGGER' || type === 'VIEW') parts[verb === 'DROP' ? 'delete' : 'add'](name);
  }
  return parts;
}

/** A column in a table's statement: it begins a line, or follows a parenthesis or comma, and has a type. */
const COLUMN = /(?:^ {2}|[(,] ?)(\w+) (?:TEXT|INTEGER|REAL|BLOB)\b/gm;

/** Returns the rows of a statement that every database of ours supports. */
const ownRows = (rows: Promise<readonly Row[]>): Promise<readonly Row[]> =>
  rows.catch((error) => {
    throw isOutage(error, 'no_schema') ? foreign() : error;
  });

/** Splits a file. A statement ends with a semicolon at the end of a line that isn't indented, which keeps triggers whole. */
const statementsOf = (sql: string): Statement[] =>
  sql
    .split(/(?<=^(?!\s|--).*;)$/m)
    .map((statement) => ({ sql: statement.trim() }))
    .filter((statement) => statement.sql !== '');
