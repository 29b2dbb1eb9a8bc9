// Opens the file of a replica. If it isn't usable, one process at a time makes it anew, under a lock.

import { existsSync, rmSync, statSync } from 'node:fs';
import { makePrivate } from '../../ground/private-files.ts';
import { isOutage } from '../../ground/result.ts';
import { expected, reasonOf } from '../../ground/text.ts';
import type { Database, Statement } from '../../store/database.ts';
import { type EmbeddedDatabase, embeddedDatabase } from '../../store/embedded/database.ts';
import { isBusy, openSqlite } from '../../store/embedded/sqlite.ts';
import { migrate, SCHEMA_VERSION } from '../../store/schema.ts';

/** Its row has the mark of the change followed last. A file of another schema version is made anew. */
export const FOLLOWED = `replica_of_${SCHEMA_VERSION}`;

/** Returns the path of an empty file beside the replica, which shows who made it, and serves as the lock. */
const marker = (file: string) => `${file}-owner`;
/** What SQLite keeps beside it. */
const PARTS = ['', '-wal', '-shm'];

const IS_FIT: Statement = { sql: `SELECT 1 FROM sqlite_master WHERE name = '${FOLLOWED}'` };
const TRIGGERS: Statement = { sql: "SELECT 'DROP TRIGGER ' || name AS sql FROM sqlite_master WHERE type = 'trigger'" };
const MAKE = [
  `CREATE TABLE ${FOLLOWED} (mark TEXT)`,
  `INSERT INTO ${FOLLOWED} VALUES (NULL)`,
  "UPDATE feed SET database_id = ''",
];

/** Throws if the file belongs to another program, is itself a database of keys, or is a folder, device or pipe. */
export function refuseForeign(file: string): void {
  if (mayBeReplica(file)) return;
  throw new Error(expected('DATABASE_REPLICA_FILE', 'a new file, or a replica made by this program', file));
}

function mayBeReplica(file: string): boolean {
  try {
    const there = statSync(file, { throwIfNoEntry: false });
    return there === undefined || (there.isFile() && (there.size === 0 || existsSync(marker(file))));
  } catch (error) {
    throw new Error(expected('DATABASE_REPLICA_FILE', `a file that can be written, but ${reasonOf(error)}`, file));
  }
}

/** Opens the replica's file, or makes it. `anew`: it is damaged, so it is replaced. */
export async function openReplica(file: string, anew: boolean): Promise<EmbeddedDatabase> {
  makePrivate(marker(file));
  makePrivate(file);
  const found = anew ? null : await fitAt(file);
  return found ?? withLock(file, async () => (anew ? null : await fitAt(file)) ?? make(file));
}

/**
 * Opens what has taken the place of the file, or makes it anew if nothing has. Null: another version has put its own there,
 * which stays, or each would replace the other's for ever.
 */
export async function openInPlace(file: string): Promise<EmbeddedDatabase | null> {
  const { size = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return size === 0 ? openReplica(file, false) : fitAt(file);
}

/** Returns the file's database if it is usable, or else null. */
async function fitAt(file: string): Promise<EmbeddedDatabase | null> {
  const db = embeddedDatabase(file);
  const found = await db.read(IS_FIT).catch(async (error) => {
    if (isOutage(error, 'damaged')) return [];
    await db.close();
    throw error;
  });
  if (found.length > 0) return db;
  await db.close();
  return null;
}

async function withLock<T>(file: string, run: () => Promise<T>): Promise<T> {
  const lock = openSqlite(marker(file), { lockWaitMs: 0 });
  try {
    lock.exec('BEGIN IMMEDIATE');
    return await run();
  } catch (error) {
    throw isBusy(error) ? new Error('another process makes it') : error;
  } finally {
    lock.close();
  }
}

async function make(file: string): Promise<EmbeddedDatabase> {
  for (const part of PARTS) rmSync(file + part, { force: true });
  makePrivate(file);
  const db = embeddedDatabase(file);
  try {
    await db.read({ sql: 'PRAGMA journal_mode = WAL' });
    const unsynced = withoutSyncs(db);
    await migrate(unsynced);
    const triggers = (await db.read(TRIGGERS)).map(({ sql }) => String(sql));
    await unsynced.writeAll([...triggers, ...MAKE].map((sql) => ({ sql })));
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** Saves the event loop some twenty waits for the disk: what is incomplete after a power cut is made anew. */
const withoutSyncs = (db: Database): Database => ({
  ...db,
  write: (statement) => db.write({ ...statement, unsynced: true }),
  writeAll: (statements) => db.writeAll(statements.map((statement) => ({ ...statement, unsynced: true }))),
});
