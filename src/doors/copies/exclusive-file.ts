// Holds an SQLite file alone: nobody else has it open, nor can open it, until it is closed.
//
// Whoever has a file open in WAL mode holds a shared lock on it, even while idle, so the exclusive lock is refused. Whoever
// opens it later waits for the lock with the file already open. So a restore writes into this very file, in a transaction:
// had it put another file in its place, a server that waited would go on with the old one, and write its log beside the new.

import { realpathSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { makePrivate } from '../../ground/private-files.ts';
import { StoreOutage } from '../../ground/result.ts';
import { embeddedDatabase } from '../../store/embedded/database.ts';
import { copyOntoDisk } from './file-copy.ts';

export type FileAlone = NonNullable<Awaited<ReturnType<typeof holdAlone>>>;

/** Returns whether somebody else's lock kept the file from being used. */
export const isHeld = (error: unknown): boolean => error instanceof StoreOutage && error.code === 'SQLITE_BUSY';

/** Opens the file, and creates a missing one. Returns null if anybody else has it open. Throws a StoreOutage. */
export async function holdAlone(path: string) {
  makePrivate(path);
  const file = realpathSync(path);
  const db = embeddedDatabase(file);
  let source: FileHandle | undefined;
  const journal = (mode: 'DELETE' | 'WAL') => db.read({ sql: `PRAGMA journal_mode = ${mode}` });
  async function close(): Promise<void> {
    await db.close(); // first, because closing `source` releases the locks on the file (POSIX)
    await source?.close();
  }

  try {
    await db.read({ sql: 'PRAGMA main.locking_mode = EXCLUSIVE' }); // every lock taken from here on stays
    // Before a new file's first page; it would write that of another anew, which may be damaged.
    if (statSync(file).size === 0) await db.read({ sql: 'PRAGMA auto_vacuum = INCREMENTAL' }, 0);
    await db.read({ sql: 'BEGIN EXCLUSIVE' }, 0);
    await db.read({ sql: 'COMMIT' });
    rmSync(`${file}-shm`, { force: true }); // the log's index: one that is alone keeps it in memory
    await journal('WAL');
  } catch (error) {
    await close();
    if (isHeld(error)) return null;
    throw error;
  }
  return {
    db,
    /** Copies the file into a new one, in which nothing is left to a log. Only its owner can read it. */
    async copyTo(copy: string): Promise<void> {
      makePrivate(copy);
      source = await open(file);
      await journal('DELETE'); // moves what is in the log to the file
      await copyOntoDisk(source, copy);
      await journal('WAL');
    },
    close,
  };
}
