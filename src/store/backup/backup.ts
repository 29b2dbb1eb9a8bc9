// Copies of the database: a consistent backup as a file, also of a remote database, and putting one back.

import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, createClient } from '@libsql/client';
import type { DatabaseConfig, RemoteConfig } from '../../config/database.ts';
import { expected } from '../../config/expected.ts';
import { makePrivate } from '../../lib/private-files.ts';
import { sleep } from '../../lib/timeout.ts';
import {
  type Database,
  driverStatement,
  errorReason,
  fileUrl,
  type Row,
  type Statement,
  UnusableDatabase,
  unwrap,
} from '../database.ts';
import { embeddedDatabase } from '../embedded/database.ts';
import { remoteDatabase } from '../remote/database.ts';
import { inspect, migrate } from '../schema.ts';

/** The driver quotes whole responses. */
const REASON_CHARS_MAX = 200;

export interface Copying {
  readonly config: DatabaseConfig;
  /** Must not exist. Its owner alone can read it. */
  readonly file: string;
  /** A private one for copies, which the caller removes. */
  readonly folder: string;
}

/** Writes all there is into a file, in a thread of its own. Servers may run meanwhile. */
export async function backUp(copying: Copying): Promise<void> {
  await mustBeOurs(copying.config);
  const thread = new Worker(new URL('./copier.ts', import.meta.url), { type: 'module' });
  const failure = await new Promise<string | null>((resolve) => {
    thread.onmessage = ({ data }: MessageEvent<string | null>) => resolve(data);
    thread.onerror = ({ message }) => resolve(message);
    thread.postMessage(copying);
  });
  if (failure !== null) throw new Error(failure);
}

/** What the thread does. */
export async function copyAll({ config, file, folder }: Copying): Promise<void> {
  if (config.mode === 'embedded') return vacuumInto(config.path, file);
  const copy = join(folder, 'copy.db');
  await replicate(config, copy);
  await vacuumInto(copy, file);
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
    throw new Error(expected('DATABASE_URL', `a database that can be copied, as replicas do, but ${reason}`));
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
 * damaged or empty, or not ours. `folder` is a private one for the copy, which the caller removes.
 */
export async function withBackup<T>(file: string, folder: string, use: (backup: Backup) => Promise<T>): Promise<T> {
  const path = join(folder, 'backup.db');
  makePrivate(path);
  copyBackup(file, path);
  await letSignalsIn();
  const db = embeddedDatabase(path);
  try {
    await check(db);
    await letSignalsIn();
    const [row] = unwrap(await db.read({ sql: 'SELECT count(*) AS keys FROM api_keys' }));
    return await use({ path, keys: Number(row?.keys) });
  } finally {
    db.close();
  }
}

/** The driver holds up the thread, and statements that follow each other leave it no turn to notice a signal. */
const letSignalsIn = () => sleep(1);

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
    await letSignalsIn();
  }
  return { replaced, revived };
}

/** Replaced as a whole. */
const REPLACED = ['api_keys', 'key_uses'];
/** Only added to: who was blocked since stays blocked, and no event is forgotten. */
const MERGED = ['blocked_owners', 'key_events'];
const TABLES = [...REPLACED, ...MERGED];
const CHUNK_ROWS = 500;

/** Servers write meanwhile, each for milliseconds. */
const LOCK_WAIT_MS = 10_000;

const NEW_ID = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

/**
 * Puts keys and their uses back as they were, in one transaction, and gives the database a new id, so that every process
 * forgets what it knows. Triggers are off meanwhile: a restore is not a change by a user.
 */
export const restore = (config: DatabaseConfig, db: Database, { path }: Backup): Promise<void> =>
  config.mode === 'embedded' ? restoreFile(config.path, path) : restoreRemote(db, path);

const TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'";

/** Drops the triggers, runs `statements`, and makes the triggers anew. */
const withoutTriggers = (triggers: readonly Row[], statements: readonly string[]): Statement[] =>
  [
    ...triggers.map(({ name }) => `DROP TRIGGER ${name}`),
    ...statements,
    ...triggers.map(({ sql }) => String(sql)),
    NEW_ID,
  ].map((sql) => ({ sql }));

const replace = (table: string, source: string) => [
  `DELETE FROM ${table}`,
  `INSERT INTO ${table} SELECT * FROM ${source}`,
];

const merge = (table: string, source: string) => [
  ...(table === 'key_events' ? [moveEvents(source)] : []),
  `INSERT INTO ${table} SELECT * FROM ${source} WHERE true ON CONFLICT DO NOTHING`,
];

/** Events that another database has under the numbers of the backup's, as a new one has after its first key, come last. */
const moveEvents = (source: string) => `UPDATE key_events
SET seq = seq + (SELECT max(seq) FROM (SELECT seq FROM key_events UNION ALL SELECT seq FROM ${source}))
WHERE EXISTS (SELECT 1 FROM ${source} b WHERE b.seq = key_events.seq
AND (b.at_ms, b.owner, b.key_id, b.kind) IS NOT (key_events.at_ms, key_events.owner, key_events.key_id, key_events.kind))`;

const restoreFile = (path: string, backup: string) =>
  onFile(path, async (client) => {
    await client.execute({ sql: 'ATTACH ? AS backup', args: [backup] });
    const { rows: triggers } = await client.execute(TRIGGERS);
    const statements = [
      ...REPLACED.flatMap((table) => replace(table, `backup.${table}`)),
      ...MERGED.flatMap((table) => merge(table, `backup.${table}`)),
    ];
    await client.batch(withoutTriggers(triggers, statements).map(driverStatement), 'write');
  });

/**
 * Sends the rows ahead into tables of their own, which then take the place of those before: `sqld` ends a transaction that
 * keeps others from writing for 5 s, which 100,000 insertions would. If the transaction is sent twice, the second fails,
 * because the first has used up what was sent ahead.
 */
async function restoreRemote(db: Database, path: string): Promise<void> {
  const read = async (sql: string) => unwrap(await db.read({ sql }));
  const idOf = async () => (await read('SELECT database_id FROM feed'))[0]?.database_id;
  const idBefore = await idOf();
  try {
    for (const table of TABLES) await sendAhead(db, path, table);
    const indexes = await read(INDEXES);
    const statements = [
      ...REPLACED.flatMap((table) => [`DROP TABLE ${table}`, `ALTER TABLE ${aheadOf(table)} RENAME TO ${table}`]),
      ...indexes.map(({ sql }) => String(sql)),
      ...MERGED.flatMap((table) => merge(table, aheadOf(table))),
    ];
    const restored = await db.writeAll([...withoutTriggers(await read(TRIGGERS), statements), ...DROP_AHEAD]);
    if (!restored.ok && (await idOf()) === idBefore) unwrap(restored);
  } finally {
    await db.writeAll(DROP_AHEAD);
  }
}

const NAMES_REPLACED = REPLACED.map((table) => `'${table}'`);
const INDEXES = `SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN (${NAMES_REPLACED}) AND sql IS NOT NULL`;

/** The underscore: a table that is not taken for one of ours (schema.ts). */
const aheadOf = (table: string) => `_restoring_${table}`;

const DROP_AHEAD = TABLES.map((table) => ({ sql: `DROP TABLE IF EXISTS ${aheadOf(table)}` }));

async function sendAhead(db: Database, path: string, table: string): Promise<void> {
  const ahead = aheadOf(table);
  const [made] = unwrap(
    await db.read({ sql: "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", args: [table] }),
  );
  unwrap(
    await db.writeAll([
      { sql: `DROP TABLE IF EXISTS ${ahead}` }, // of a restore that was interrupted
      { sql: String(made?.sql).replace(/^CREATE TABLE [^ (]+/, `CREATE TABLE ${ahead}`) },
    ]),
  );
  for await (const rows of chunksOf(path, table, CHUNK_ROWS)) {
    const columns = Object.keys(rows[0] ?? {}).filter((name) => name !== 'at_row');
    const values = columns.map((_, at) => `value ->> ${at}`);
    const sql = `INSERT OR IGNORE INTO ${ahead} SELECT ${values} FROM json_each(?)`; // it may be sent twice
    const args = [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))];
    unwrap(await db.write({ sql, args }));
  }
}

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
  const client = createClient({ url: fileUrl(path), timeout: LOCK_WAIT_MS });
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

const tokenOf = ({ authToken }: RemoteConfig) => (authToken === null ? {} : { authToken });
