// Copies of the database: a consistent backup as a file, also of a remote database, and putting one back.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, createClient } from '@libsql/client';
import type { DatabaseConfig, RemoteConfig } from '../config/config.ts';
import { makePrivate } from '../lib/private-files.ts';
import { type Database, errorReason, type Row, UnusableDatabase, unwrap } from './database.ts';
import { embeddedDatabase } from './embedded/database.ts';
import { remoteDatabase } from './remote/database.ts';
import { inspect, migrate } from './schema.ts';

/** The driver quotes whole responses. */
const REASON_CHARS_MAX = 200;

/** Writes all there is into `file`, which must not exist, and which its owner alone can read. Servers may run meanwhile. */
export async function backUp(config: DatabaseConfig, file: string): Promise<void> {
  await mustBeOurs(config);
  if (config.mode === 'embedded') return vacuumInto(config.path, file);
  await inFolder(async (folder) => {
    const copy = join(folder, 'copy.db');
    await replicate(config, copy);
    await vacuumInto(copy, file);
  });
}

/** Says what is wrong in words of ours; does not migrate: a backup is what one makes before. */
async function mustBeOurs(config: DatabaseConfig): Promise<void> {
  const db = config.mode === 'embedded' ? embeddedDatabase(config.path) : await remoteDatabase(config);
  try {
    if ((await inspect(db)) === 0) throw new UnusableDatabase('DATABASE_URL: the database is empty');
  } finally {
    db.close();
  }
}

async function replicate(config: RemoteConfig, copy: string): Promise<void> {
  const replica = createClient({ url: fileUrl(copy), syncUrl: config.url, ...tokenOf(config) });
  try {
    await replica.sync();
  } catch (error) {
    const reason = errorReason(error).slice(0, REASON_CHARS_MAX);
    throw new Error(`DATABASE_URL: expected a database that can be copied, as replicas do, but ${reason}`);
  } finally {
    replica.close();
  }
}

async function vacuumInto(path: string, file: string): Promise<void> {
  makePrivate(file);
  await onFile(path, (client) => client.execute({ sql: 'VACUUM INTO ?', args: [file] }));
}

export interface Backup {
  /** A copy of the file, of this version of the schema. */
  readonly path: string;
  readonly keys: number;
}

/**
 * Checks a backup and gives it to `use`, brought up to date in a copy. Throws UnusableDatabase if it can't be read, is
 * damaged or empty, or not ours.
 */
export const withBackup = <T>(file: string, use: (backup: Backup) => Promise<T>): Promise<T> =>
  inFolder(async (folder) => {
    const path = join(folder, 'backup.db');
    makePrivate(path);
    copyBackup(file, path);
    const db = embeddedDatabase(path);
    try {
      await check(db);
      const [row] = unwrap(await db.read({ sql: 'SELECT count(*) AS keys FROM api_keys' }));
      return await use({ path, keys: Number(row?.keys) });
    } finally {
      db.close();
    }
  });

function copyBackup(file: string, path: string): void {
  try {
    copyFileSync(file, path);
  } catch (error) {
    const { code } = error as { readonly code?: string };
    throw new UnusableDatabase(`expected a backup that can be read, got ${JSON.stringify(file)} (${code})`);
  }
}

async function check(db: Database): Promise<void> {
  const [integrity] = unwrap(await db.read({ sql: 'PRAGMA integrity_check(1)' }));
  if (integrity?.integrity_check !== 'ok') throw new UnusableDatabase('the file is damaged');
  if ((await inspect(db)) === 0) throw new UnusableDatabase('the file is empty');
  await migrate(db);
}

/** What putting a backup back would do. */
export interface Restoring {
  /** Keys that are there now. */
  readonly replaced: number;
  /** Keys that were revoked or deleted since, and would be accepted again. */
  readonly revived: number;
}

/** Keys whose hashes are active in the backup, and not so in the database. */
const REVIVED_CHUNK = 1000;

export async function compare(db: Database, { path }: Backup): Promise<Restoring> {
  const [count] = unwrap(await db.read({ sql: 'SELECT count(*) AS keys FROM api_keys' }));
  const replaced = Number(count?.keys);
  let revived = 0;
  for await (const rows of chunksOf(path, 'api_keys', REVIVED_CHUNK)) {
    const hashes = rows.filter(({ active }) => active === 1).map(({ key_hash: hash }) => hash);
    const sql =
      'SELECT count(*) AS kept FROM json_each(?) h WHERE EXISTS (SELECT 1 FROM api_keys WHERE key_hash = h.value AND active = 1)';
    const [kept] = unwrap(await db.read({ sql, args: [JSON.stringify(hashes)] }));
    revived += hashes.length - Number(kept?.kept);
  }
  return { replaced, revived };
}

/** Replaced as a whole. */
const REPLACED = ['api_keys', 'key_uses'];
/** Only added to: who was blocked since stays blocked, and no event is forgotten. */
const MERGED = ['blocked_owners', 'key_events'];
const CHUNK_ROWS = 500;

/** Servers write meanwhile, each for milliseconds. */
const LOCK_WAIT_MS = 10_000;

const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

/**
 * Puts keys and their uses back as they were, in one transaction, and gives the database a new id, so that every process
 * forgets what it knows. Triggers rest meanwhile: nothing of this is a change that somebody made.
 */
export async function restore(config: DatabaseConfig, { path }: Backup): Promise<void> {
  const client =
    config.mode === 'embedded'
      ? createClient({ url: fileUrl(config.path), timeout: LOCK_WAIT_MS })
      : createClient({ url: config.url, ...tokenOf(config) });
  try {
    const triggers = await triggersOf(client);
    const statements = [
      ...triggers.map(({ name }) => `DROP TRIGGER ${name}`),
      ...REPLACED.map((table) => `DELETE FROM ${table}`),
      ...(config.mode === 'embedded' ? await attached(client, path) : await sent(path)),
      ...triggers.map(({ sql }) => String(sql)),
      NEW_ID,
    ];
    await client.batch(statements, 'write');
  } finally {
    client.close();
  }
}

const triggersOf = async (client: Client): Promise<Row[]> =>
  (await client.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).rows;

/** Copies from the file itself. */
async function attached(client: Client, path: string): Promise<string[]> {
  await client.execute({ sql: 'ATTACH ? AS backup', args: [path] });
  return [...REPLACED, ...MERGED].map(
    (table) => `${intoTable(table)} SELECT * FROM backup.${table} WHERE true ${unlessThere(table)}`,
  );
}

/** Sends the rows along. */
async function sent(path: string) {
  const statements: { sql: string; args: string[] }[] = [];
  for (const table of [...REPLACED, ...MERGED]) {
    for await (const rows of chunksOf(path, table, CHUNK_ROWS)) {
      const columns = columnsOf(rows);
      const values = columns.map((_, at) => `value ->> ${at}`);
      const sql = `${intoTable(table)} SELECT ${values} FROM json_each(?) WHERE true ${unlessThere(table)}`;
      statements.push({ sql, args: [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))] });
    }
  }
  return statements;
}

const columnsOf = ([first]: readonly Row[]) => Object.keys(first ?? {}).filter((name) => name !== 'at_row');

const intoTable = (table: string) => `INSERT INTO ${table}`;
const unlessThere = (table: string) => (MERGED.includes(table) ? 'ON CONFLICT DO NOTHING' : '');

/** The rows of a table in a file, in the order of its columns. */
async function* chunksOf(path: string, table: string, rows: number): AsyncGenerator<Row[]> {
  const client = createClient({ url: fileUrl(path) });
  try {
    for (let after = 0; ; ) {
      const sql = `SELECT rowid AS at_row, * FROM ${table} WHERE rowid > ? ORDER BY rowid LIMIT ?`;
      const { rows: page } = await client.execute({ sql, args: [after, rows] });
      const last = page.at(-1);
      if (last === undefined) return;
      after = Number(last.at_row);
      yield page;
    }
  } finally {
    client.close();
  }
}

async function onFile<T>(path: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = createClient({ url: fileUrl(path) });
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'keys-')); // 0700
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const fileUrl = (path: string) => `file:${encodeURI(path)}`;

const tokenOf = ({ authToken }: RemoteConfig) => (authToken === null ? {} : { authToken });
