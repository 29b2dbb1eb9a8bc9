// A consistent copy of the database, as a file, also of a remote one. Servers may run meanwhile.

import { makePrivate } from '../../ground/private-files.ts';
import { type Database, type Row, type Statement, UnusableDatabase } from '../database.ts';
import { embeddedDatabase } from '../embedded/database.ts';
import { pagesOf, putRows, type Read } from '../pages.ts';
import type { DatabaseConfig } from '../place.ts';
import { remoteDatabase } from '../remote/database.ts';
import { inspect, MAY_BE_OURS } from '../schema.ts';
import { letSignalsIn } from './file.ts';

/** Rows that are read and written at once: those of keys are some 400 KB. */
const PAGE_ROWS = 1000;
const CHANGES_MAX = 500;
/** Servers write meanwhile, each for milliseconds. */
const LOCK_WAIT_MS = 10_000;

/** Codes end in minutes: none is good again when the backup is put back, and none is kept with it. */
const LEFT_OUT = ['codes', 'code_secrets'];

/** Copies into `file`, which must not exist, and which its owner alone can read. Does not migrate: backups come before. */
export async function backUp(config: DatabaseConfig, file: string): Promise<void> {
  makePrivate(file);
  const db = config.mode === 'embedded' ? embeddedDatabase(config.path) : await remoteDatabase(config);
  try {
    if ((await inspect(db)) === 0) throw new UnusableDatabase('DATABASE_URL: the database is empty');
    await letSignalsIn();
    await (config.mode === 'embedded' ? copyFile : copyRemote)(db, file);
  } finally {
    db.close();
  }
}

async function copyFile(db: Database, file: string): Promise<void> {
  await db.read({ sql: 'VACUUM INTO ?', args: [file] }, LOCK_WAIT_MS); // in a transaction SQLite would refuse it
  const copy = embeddedDatabase(file);
  try {
    await copy.read({ sql: 'PRAGMA journal_mode = MEMORY' }); // no other file has the codes for a moment
    await copy.read({ sql: 'PRAGMA secure_delete = ON' });
    const tables = (await copy.read({ sql: TABLES })).map(({ name }) => String(name));
    const leftOut = tables.filter((name) => LEFT_OUT.includes(name));
    await copy.writeAll(leftOut.map((name) => ({ sql: `DELETE FROM ${name}` })));
  } finally {
    copy.close();
  }
}

const TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'";
const SCHEMA = `SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND ${MAY_BE_OURS}`;
const SEQUENCES = 'SELECT name, seq FROM sqlite_sequence';

const NEWEST_CHANGE = 'SELECT max(f.pruned_seq, coalesce((SELECT max(seq) FROM changes), 0)) AS seq FROM feed f';
const CHANGES = `SELECT seq, key_hash FROM changes WHERE seq > ? ORDER BY seq LIMIT ${CHANGES_MAX}`;
const IDS_OF = `SELECT id FROM api_keys WHERE key_hash IN (SELECT value FROM json_each(?1))
OR second_hash IN (SELECT value FROM json_each(?1))`;

/** Of keys that are gone again. */
const ORPHANS = ['key_uses', 'key_counts'];

/**
 * Page by page: the primary would end a transaction that takes seconds. What the change feed says has changed meanwhile
 * is copied again, so that all keys are as they were at its end.
 */
async function copyRemote(primary: Database, file: string): Promise<void> {
  const copy = embeddedDatabase(file);
  const readPrimary: Read = (statement) => primary.read(statement);
  const readCopy: Read = (statement) => copy.read(statement);
  const put = async (...statements: Statement[]): Promise<void> =>
    void (await copy.writeAll(statements.map((statement) => ({ ...statement, unsynced: true }))));

  async function copyRows(table: string, after?: Row): Promise<void> {
    for await (const rows of pagesOf(readPrimary, table, PAGE_ROWS, after)) await put(putRows('REPLACE', table, rows));
  }

  async function copyNewer(table: string, key: string): Promise<void> {
    const [last] = await readCopy({ sql: `SELECT max(${key}) AS ${key} FROM ${table}` });
    await copyRows(table, last?.[key] == null ? undefined : last);
  }

  try {
    const schema = await readPrimary({ sql: SCHEMA });
    const tables = schema.filter(({ type }) => type === 'table');
    const [newest] = await readPrimary({ sql: NEWEST_CHANGE });
    await put(...tables.map(({ sql }) => ({ sql: String(sql) })));
    const names = tables.map(({ name }) => String(name));
    for (const table of names) if (!LEFT_OUT.includes(table)) await copyRows(table);
    for (let seq = Number(newest?.seq); ; ) {
      const changes = await readPrimary({ sql: CHANGES, args: [seq] });
      const hashes = JSON.stringify(changes.map(({ key_hash: hash }) => hash));
      const ids = JSON.stringify((await readCopy({ sql: IDS_OF, args: [hashes] })).map(({ id }) => id));
      const among = { sql: 'api_keys WHERE id IN (SELECT value FROM json_each(?1))', args: [ids] };
      const keys = await readPrimary({ ...among, sql: `SELECT * FROM ${among.sql}` });
      await put(
        { ...among, sql: `DELETE FROM ${among.sql}` },
        ...(keys.length > 0 ? [putRows('REPLACE', 'api_keys', keys)] : []),
      );
      await put({ sql: 'DELETE FROM blocked_owners' });
      await copyRows('blocked_owners');
      await copyNewer('api_keys', 'row');
      await copyNewer('changes', 'seq');
      await copyNewer('key_events', 'seq');
      if (changes.length === 0) break;
      seq = Number(changes.at(-1)?.seq);
    }
    const orphans = names.filter((name) => ORPHANS.includes(name));
    const sequences = await readPrimary({ sql: SEQUENCES });
    const statements: Statement[] = [
      ...orphans.map((name) => ({ sql: `DELETE FROM ${name} WHERE row NOT IN (SELECT row FROM api_keys)` })),
      { sql: 'DELETE FROM sqlite_sequence' },
      ...(sequences.length > 0 ? [putRows('REPLACE', 'sqlite_sequence', sequences)] : []),
      ...schema.filter(({ type }) => type !== 'table').map(({ sql }) => ({ sql: String(sql) })),
    ];
    await copy.writeAll(statements);
  } finally {
    copy.close();
  }
}
