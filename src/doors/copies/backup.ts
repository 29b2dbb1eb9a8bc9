// Copies the database, even a remote one, into a file, while servers run.

import { open } from 'node:fs/promises';
import { isLost, type ReachedPosition } from '../../ground/change-feed.ts';
import { makePrivate } from '../../ground/private-files.ts';
import { isOutage } from '../../ground/result.ts';
import {
  type DatabaseConfig,
  firstOf,
  type RemoteConfig,
  type Row,
  type Statement,
  UnusableDatabase,
} from '../../store/database.ts';
import { embeddedDatabase } from '../../store/embedded/database.ts';
import { checkAllPages, inspectFile, mustBeFile, openError } from '../../store/embedded/open.ts';
import { CHANGES, pageOf } from '../../store/key-reads.ts';
import { remoteDatabase } from '../../store/remote/database.ts';
import { inspect, MAY_BE_OURS } from '../../store/schema.ts';
import { LEFT_OUT_TABLES, TABLES } from '../../store/tables.ts';
import { letSignalsIn } from './backup-file.ts';
import { copyPages } from './file-copy.ts';
import { newerPagesOf, pagesOf, putChanged, putRows, withoutTriggers } from './row-copy.ts';

/** Rows read and written at once: some 200 KB of keys, 5 MB of the longest, and a remote database sends 10 at most. */
const PAGE_ROWS = 500;

/** Copies into the new file `file`, which only its owner can read. Does not migrate, because backups come before. */
export const backUp = (config: DatabaseConfig, file: string): Promise<void> =>
  config.mode === 'embedded' ? copyFile(config.path, file) : copyRemote(config, file);

/** Copies the pages, without delaying writers, and deletes from the copy what backups leave out. */
async function copyFile(path: string, file: string): Promise<void> {
  mustBeFile(path);
  makePrivate(file);
  const applied = await inspectFile(path).catch((error) => {
    throw isOutage(error, 'unreachable') ? openError(path, error) : error;
  });
  if (applied === 0) throw empty();
  await letSignalsIn();
  const db = embeddedDatabase(path);
  const source = await open(path);
  try {
    await copyPages(db, source, path, file);
  } finally {
    await db.close(); // first, because closing `source` releases the locks on the file
    await source.close();
  }
  await leaveOut(file);
}

const empty = () => new UnusableDatabase('DATABASE_URL: the database is empty');

async function leaveOut(file: string): Promise<void> {
  const copy = embeddedDatabase(file);
  try {
    await checkAllPages(copy);
    await copy.read({ sql: 'PRAGMA secure_delete = ON' });
    await copy.writeAll(
      await withoutTriggers(
        copy,
        LEFT_OUT_TABLES.map((name) => `DELETE FROM ${name}`),
      ),
    );
    await copy.read({ sql: 'PRAGMA incremental_vacuum' });
    await copy.read({ sql: 'PRAGMA journal_mode = DELETE' }); // one file, without a write-ahead log
  } finally {
    await copy.close();
  }
}

const isTable = ({ type }: Row): boolean => type === 'table';
const sqlOf = ({ sql }: Row): Statement => ({ sql: String(sql) });

/** Selects the schema, with the newest migration that has made it. */
const SCHEMA = `SELECT type, name, sql, (SELECT max(version) FROM schema_migrations) AS version
FROM sqlite_master WHERE sql IS NOT NULL AND ${MAY_BE_OURS}`;
const MEANWHILE = 'the database was replaced, or changed too much, while it was copied: try again';
const SEQUENCES = 'SELECT name, seq FROM sqlite_sequence';

/** What belongs to keys that were deleted during the copy: which rows of which table. */
const ORPHANS = [
  ['key_counts', 'row > 0 AND row NOT IN (SELECT row FROM api_keys)'],
  ['key_months', 'row > 0 AND row NOT IN (SELECT row FROM api_keys)'],
  ['rules', 'key_id NOT IN (SELECT id FROM api_keys)'],
  ['issuers', 'issuer NOT IN (SELECT issuer FROM rules)'],
] as const;

/**
 * Copies page by page, because the primary would abort a transaction that takes seconds. Copies again what the feed
 * reports as changed meanwhile, so that no key is older than the last page. Later changes may be missing: a database that
 * changes all the time would never be copied. If a newer version migrates the database meanwhile, the copy has the schema
 * of before.
 */
async function copyRemote(config: RemoteConfig, file: string): Promise<void> {
  makePrivate(file);
  const primary = await remoteDatabase(config);
  if ((await inspect(primary)) === 0) throw empty();
  const copy = embeddedDatabase(file);
  const { read: from } = primary;
  const put = async (statements: readonly Statement[]): Promise<void> =>
    void (await copy.writeAll(statements.map((statement) => ({ ...statement, unsynced: true }))));
  const changesAfter = async (seq: number) => pageOf(await from({ sql: CHANGES, args: [seq] }), seq);
  /** Reads what has changed since. Throws an Error if that can't be known any more. */
  const changesSince = async (reached: ReachedPosition) => {
    const page = await changesAfter(reached.seq);
    if (isLost(reached, page) || page.prunedSeq > reached.seq) throw new Error(MEANWHILE);
    return page;
  };

  try {
    const schema = await from({ sql: SCHEMA });
    const tablesSql = schema.filter(isTable);
    const names = tablesSql.map(({ name }) => String(name)).filter((name) => !LEFT_OUT_TABLES.includes(name));
    const tables = TABLES.filter(({ name }) => names.includes(name)); // an older database lacks some
    const { databaseId, newestSeq, newestMark } = await changesAfter(0);
    let reached: ReachedPosition = { databaseId, seq: newestSeq, mark: newestMark };
    await put(tablesSql.map(sqlOf));
    for (const table of names) {
      const isByHand = !TABLES.some(({ name }) => name === table);
      for await (const rows of pagesOf(from, table, PAGE_ROWS, { columnsFrom: copy.read, isByHand }))
        await put(putRows('REPLACE', table, rows));
    }
    let lastSeq: number | undefined; // as of the last page
    for (let isBehind = true; isBehind; ) {
      const { changes, newestSeq } = await changesSince(reached);
      lastSeq ??= newestSeq;
      const changed = changes.map(({ changed }) => changed);
      await put(await putChanged({ from, copy: copy.read, tables }, changed));
      const { seq, mark } = changes.at(-1) ?? reached;
      reached = { databaseId, seq, mark };
      isBehind = changes.length > 0 && seq < lastSeq;
    }
    // Only now: the row of a newest key that was deleted is given to the next one.
    for (const { name: table, growsBy } of tables) {
      if (growsBy === null) continue;
      for await (const rows of newerPagesOf(from, copy.read, table, growsBy, PAGE_ROWS))
        await put(putRows('REPLACE', table, rows));
    }
    await changesSince(reached); // all of it was of one database
    const sequences = await from({ sql: SEQUENCES });
    await copy.writeAll([
      ...ORPHANS.filter(([table]) => names.includes(table)).map(([table, where]) => ({
        sql: `DELETE FROM ${table} WHERE ${where}`,
      })),
      { sql: 'DELETE FROM schema_migrations WHERE version > ?', args: [firstOf(schema).version ?? null] },
      { sql: 'DELETE FROM sqlite_sequence' },
      ...putRows('REPLACE', 'sqlite_sequence', sequences),
      ...schema.filter((one) => !isTable(one)).map(sqlOf),
    ]);
  } finally {
    await copy.close();
    await primary.close();
  }
}
