// Checks that the database's files are still where they were opened. When they are moved, removed or replaced, SQLite
// goes on using the opened ones, which no other process can open any more: creations would be acknowledged and lost,
// revocations by other processes would go unseen, and two processes with different logs would damage the file.
//
// SQLite removes the log (-wal) and its index (-shm) when the last connection of all processes is closed. One
// connection is opened here and stays idle, so whoever removes or replaces them is not SQLite:
//
// | The file       | -wal and -shm           | Statements                           |
// |----------------|-------------------------|--------------------------------------|
// | as opened      | as opened               | run                                  |
// | gone, or other | any                     | fail until it is back                |
// | as opened      | one is gone, or another | fail until the process starts again  |
//
// The log can't be opened anew: closed connections stay open until they are collected, and the process shares one index
// among all, which would not fit the new log. Moving what it held into the file could overwrite others' later writes.

import { lstatSync, realpathSync, statSync } from 'node:fs';
import { err, type Result } from '../../lib/result.ts';
import { type Database, type Statement, type Unavailable, unavailable, unwrap } from '../database.ts';
import { embeddedDatabase } from './database.ts';

const ELSEWHERE = err(
  unavailable('unreachable', 'the database file was moved, removed or replaced; start the server anew'),
);
const LOG_GONE = err(
  unavailable(
    'unreachable',
    "the database's write-ahead log (-wal, -shm) was removed or replaced; start the server anew. What it held may be lost: look at the latest creations and revocations",
  ),
);

const ANY: Statement = { sql: 'SELECT count(*) FROM sqlite_master' };
/** Moves the write-ahead log into the file. The driver's close doesn't, so a copy of the file alone would lack it. */
const CHECKPOINT: Statement = { sql: 'PRAGMA wal_checkpoint(TRUNCATE)' };
/** A process that keeps the file busy for longer does this itself when it stops. */
const CHECKPOINT_MS_MAX = 500;

export interface Place {
  /** Why no statement may run; null while everything is in its place. */
  misplaced(): Result<never, Unavailable> | null;
  /** Moves the log into the file and closes `db`, the database at this place. */
  close(db: Database): Promise<void>;
}

/** The place of a file that is in use. */
export async function placeOf(path: string): Promise<Place> {
  const unused = embeddedDatabase(path);
  unwrap(await unused.read(ANY)); // opens the log
  const file = lstatSync(path).isSymbolicLink() ? realpathSync(path) : path; // the log is beside the file itself
  const [wal, shm] = [`${file}-wal`, `${file}-shm`];
  const [fileThen, walThen, shmThen] = [fileAt(path), fileAt(wal), fileAt(shm)];
  let lost = false;

  function misplaced(): Result<never, Unavailable> | null {
    if (lost) return LOG_GONE;
    if (fileAt(path) !== fileThen) return ELSEWHERE;
    lost = fileAt(wal) !== walThen || fileAt(shm) !== shmThen;
    return lost ? LOG_GONE : null;
  }

  return {
    misplaced,
    async close(db) {
      // Closing would write the lost log over what others have written since, and remove theirs. The system closes it.
      if (misplaced() === LOG_GONE) return;
      await db.read(CHECKPOINT, CHECKPOINT_MS_MAX);
      db.close();
      unused.close();
    },
  };
}

/** Identifies the file at `path`; null: none. Takes 1.5 µs (on Deno 7), where the quickest statement takes 40. */
function fileAt(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev} ${ino}`;
  } catch {
    return null; // whatever the reason, it is not there
  }
}
