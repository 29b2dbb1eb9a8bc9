// Opens a SQLite file: checks that it is ours and undamaged, switches to WAL, migrates. Each step waits for locks. Later
// checks that the file is still in its place.

import { existsSync, lstatSync, realpathSync, type Stats, statSync } from 'node:fs';
import { makePrivate } from '../../ground/private-files.ts';
import { isOutage, StoreOutage } from '../../ground/result.ts';
import { nextTurn } from '../../ground/runtime.ts';
import { expected } from '../../ground/text.ts';
import { type Database, errorReason, type Statement, UnusableDatabase } from '../database.ts';
import { inspect, migrate } from '../schema.ts';
import { embeddedDatabase } from './database.ts';
import { damageOf } from './sqlite.ts';

/**
 * Holders per exchange. A creation may wait for it: 6 ms with 10^6 keys, some 150 µs per key. With fewer, commits would
 * cost more than the keys.
 */
const USES_PER_WRITE = 40;

/** A file up to this size is read whole at the start: some 200,000 keys, 0.1 s from memory, 0.5 s from a slow disk. */
const READ_WHOLE_BYTES_MAX = 64 * 1024 * 1024;

const SIZE: Statement = { sql: 'SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size' };
/** Selects a statement for each table and index that reads a page per level. A partial index would be scanned. */
const NEWEST_ENDS: Statement = {
  sql: `SELECT format('SELECT max("%w") FROM "%w"', coalesce((SELECT name FROM pragma_index_info(m.name)), 'rowid'), m.tbl_name)
AS newest_end FROM sqlite_master m WHERE m.type = 'table' OR (m.type = 'index' AND coalesce(m.sql, '') NOT LIKE '% WHERE %')`,
};

/** Fails without the right to write, where a transaction alone begins as one that reads. It needs no room. */
const NO_ROWS: Statement = { sql: 'DELETE FROM schema_migrations WHERE 0' };

const DAMAGED_TEXT =
  'DATABASE_URL: the file is damaged or no database; nothing was changed. Restore it from a backup, or move it away to start empty';

/**
 * Creates the database of the file, and the function that opens it; until then every statement fails. A server is refused a
 * file that it may not write; commands read it.
 *
 * SQLite checkpoints the log when the last connection is closed, which the runtime does at the latest when the process
 * ends. A read-only connection can't, and while it is open no other does: it is closed first, or, if the log was lost,
 * left open for the system to close.
 */
export function embeddedStore(path: string, isServer: boolean) {
  const idle = embeddedDatabase(path, { readOnly: true });
  let state: 'not open' | 'opening' | FilePlace | 'closed' = 'not open';
  let isChecked = false; // in this turn of the event loop
  const db = embeddedDatabase(path, {
    check(now: boolean) {
      if (state === 'not open') throw new StoreOutage('the database is not open yet');
      if (typeof state !== 'object' || (isChecked && !now)) return;
      const displaced = state.displaced();
      if (displaced !== null) throw new StoreOutage(displaced === 'log' ? LOG_GONE : ELSEWHERE);
      if (isChecked) return;
      isChecked = true;
      void nextTurn().then(() => {
        isChecked = false;
      });
    },
  });
  return {
    db,
    usesPerWrite: USES_PER_WRITE,
    replica: null,
    async open() {
      state = 'opening';
      await openFile(db, path, isServer);
      await idle.read(SIZE); // opens the log
      state = placeOf(path, db.logBytes);
    },
    async close() {
      // A lost log must not be checkpointed: others have written to the file since.
      if (typeof state !== 'object' || state.displaced() !== 'log') await idle.close();
      await db.close();
      state = 'closed';
    },
  };
}

/** Returns the error for a file that can't be opened. SQLite also names the file if it can't write beside it, or its log. */
export const openError = (path: string, error: unknown) =>
  new Error(
    expected(
      'DATABASE_URL',
      `a file that can be written, with its -wal and -shm, in a folder that can be written, but ${errorReason(error)}`,
      path,
    ),
  );

/**
 * Returns what the system knows of the file; undefined: there is none. Throws an Error for what can be no file (SQLite says
 * of a folder that the disk fails, and waits at a pipe for ever), and where the system doesn't tell.
 */
export function mustBeFile(path: string): Stats | undefined {
  const there = statsOf(path);
  if (there === undefined || there.isFile()) return there;
  const what = there.isDirectory() ? 'a folder' : 'a device or pipe';
  throw new Error(expected('DATABASE_URL', `a file, but this is ${what}`, path));
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw openError(path, error);
  }
}

async function openFile(db: Database, path: string, isServer: boolean): Promise<void> {
  const isNew = !mustBeFile(path)?.size;
  try {
    makePrivate(path);
    if (existsSync(path)) await checkFile(path); // a link may lead to a file that doesn't exist yet
    // Only before the first page: later it would write that one again, for which a full disk has no room.
    if (isNew) await db.read({ sql: 'PRAGMA auto_vacuum = INCREMENTAL' });
    await db.read({ sql: 'PRAGMA journal_mode = WAL' }); // SQLite refuses it in a transaction
    await migrate(db);
    if (isServer) await db.write(NO_ROWS);
  } catch (error) {
    await db.close();
    if (isOutage(error, 'damaged')) throw new UnusableDatabase(DAMAGED_TEXT);
    if (error instanceof UnusableDatabase) throw error;
    throw openError(path, error);
  }
}

/** Checks before any write that the file is ours and undamaged. */
export const checkFile = (path: string): Promise<void> => unwritten(path, check);

async function check(db: Database): Promise<void> {
  await inspect(db);
  await checkPages(db);
}

/** Inspects the file (store/schema.ts), and leaves it as it is. */
export const inspectFile = (path: string): Promise<number> => unwritten(path, inspect);

/** Returns whether the file is at rest, as backups are: servers switch theirs to WAL. False for a file that fails `check`. */
export const isAtRest = (path: string): Promise<boolean> =>
  unwritten(path, async (db) => {
    const [row] = await db.read({ sql: 'PRAGMA journal_mode' });
    if (row?.journal_mode !== 'delete') return false;
    await check(db);
    return true;
  }).catch(() => false);

/** Reads with a connection that can't write: closing another would checkpoint the log into the file. */
async function unwritten<T>(path: string, use: (db: Database) => Promise<T>): Promise<T> {
  const db = embeddedDatabase(path, { readOnly: true });
  try {
    return await use(db);
  } finally {
    await db.close();
  }
}

/**
 * Checks the pages. Damage only shows when its page is read, so that some keys would work and others not. So the whole
 * file is read, unless that would delay the start. In a larger one SQLite checks header and length, and NEWEST_ENDS each
 * table and index.
 */
async function checkPages(db: Database): Promise<void> {
  const [size] = await db.read(SIZE);
  if (Number(size?.bytes) > READ_WHOLE_BYTES_MAX) {
    for (const row of await db.read(NEWEST_ENDS)) await db.read({ sql: String(row.newest_end) });
    return;
  }
  await checkAllPages(db);
}

/** Reads the whole file. Throws a StoreOutage if it is damaged. */
export async function checkAllPages(db: Database): Promise<void> {
  const [row] = await db.read({ sql: 'PRAGMA quick_check(1)' });
  if (row?.quick_check !== 'ok') throw damageOf(String(row?.quick_check).split('\n').at(-1) ?? '');
}

// When the database's files are moved, removed or replaced, SQLite goes on with the opened ones, which no other process
// can open any more: creations would be acknowledged and lost, revocations by other processes would go unseen, and two
// processes with different logs would damage the file.
//
// SQLite removes the log (-wal) and its index (-shm) when the last connection of all processes is closed, and the one
// here stays open, so only somebody else can remove or replace them. It shortens the log only to what its index says is
// left to checkpoint: one that is shorter was cut, and the next commit would leave a hole, which ends up in the file.
//
// | The file       | -wal and -shm                    | Statements                           |
// |----------------|----------------------------------|--------------------------------------|
// | as opened      | as opened                        | run                                  |
// | gone, or other | any                              | fail until it is back                |
// | as opened      | one is gone, or another, or cut  | fail until the process starts again  |
//
// The log isn't opened again: a checkpoint of its contents could overwrite others' later writes.

const ELSEWHERE = 'the database file was moved, removed or replaced; start the server anew';
const LOG_GONE =
  "the database's write-ahead log (-wal, -shm) was removed, replaced or cut; start the server anew. What it held may be lost: look at the latest creations and revocations";

export type FilePlace = ReturnType<typeof placeOf>;

/**
 * Remembers the place of the file at `path`, and of its log, which must be open. `logBytes` returns how long the log is by
 * its index.
 */
export function placeOf(path: string, logBytes: () => number) {
  const file = lstatSync(path).isSymbolicLink() ? realpathSync(path) : path; // the log is beside the file itself
  const [wal, shm] = [`${file}-wal`, `${file}-shm`];
  const [fileThen, walThen, shmThen] = [idAt(path), idAt(wal), idAt(shm)];
  let lost = false;

  /** Returns whether the log is shorter than its index says. */
  function isShort(): boolean {
    const bytes = logBytes(); // first: the log grows before its index
    return bytes > sizeOf(statAt(wal));
  }

  return {
    /** Returns what was moved, removed, replaced or cut since; null: nothing. A log that was lost once is lost for good. */
    displaced(): 'file' | 'log' | null {
      if (lost) return 'log';
      if (idAt(path) !== fileThen) return 'file';
      const log = statAt(wal);
      const isOther = idOf(log) !== walThen || idAt(shm) !== shmThen;
      // What seems short may have grown since, or a checkpoint emptied it in between: it is looked at twice more.
      lost = isOther || (logBytes() > sizeOf(log) && isShort() && isShort());
      return lost ? 'log' : null;
    },
  };
}

/** Identifies a file; null: none. */
const idOf = (stat: Stats | null) => stat && `${stat.dev} ${stat.ino}`;

const idAt = (path: string) => idOf(statAt(path));

const sizeOf = (stat: Stats | null) => stat?.size ?? 0;

/** Returns what is at `path`; null: it can't be found, for whatever reason. Takes 1.5 µs (7 on Deno). */
function statAt(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}
