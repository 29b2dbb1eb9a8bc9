// A connection to a libSQL file. After any error it is closed and opened anew before anything else runs (native.ts says
// why), but not when another process only kept a transaction from beginning: then nothing has run.

import { isDamaged, type NativeConnection, openNative, SqliteError } from '../native.ts';
import { isBusy } from './waiting.ts';

/** How long SQLite itself waits for another process's lock. The wait blocks the event loop, so it is short. */
const LOCK_WAIT_MS = 3;
/**
 * With this many pages (4 KiB) in the write-ahead log, a commit moves them into the file, in 4 ms; at SQLite's default
 * of 1,000, in 9 ms. A creation writes five; at 250 it waits for the disk more often, and takes 2 % longer.
 */
const CHECKPOINT_PAGES = 400;

/** `FULL`: a commit is on the disk before it is acknowledged. `NORMAL`: it survives the process, not a power cut. */
export type Durability = 'FULL' | 'NORMAL';

/** Blocks the event loop while it works. Its functions throw what `run` throws, and the error of opening the file. */
export interface Connection {
  /** Runs `run` outside of any transaction. */
  use<T>(run: (db: NativeConnection) => T): T;
  /** Runs `run` in a transaction, which is committed when this returns. */
  transact<T>(run: (db: NativeConnection) => T): T;
  close(): void;
}

export function createConnection(path: string, durability: Durability): Connection {
  let opened: NativeConnection | undefined;
  let closed = false;

  function current(): NativeConnection {
    if (closed) throw new SqliteError('the store is closed', 'SQLITE_CANTOPEN');
    opened ??= open(path, durability);
    return opened;
  }

  function replace(error: unknown): void {
    const failed = opened;
    opened = undefined;
    if (failed !== undefined) end(failed, error);
  }

  function use<T>(run: (db: NativeConnection) => T): T {
    const db = current();
    try {
      return run(db);
    } catch (error) {
      replace(error);
      throw error;
    }
  }

  /** `IMMEDIATE`: whoever has begun can write. */
  function begin(): void {
    try {
      current().execute('BEGIN IMMEDIATE');
    } catch (error) {
      if (!isBusy(error)) replace(error);
      throw error;
    }
  }

  return {
    use,
    transact(run) {
      begin();
      return use((db) => {
        const result = run(db);
        db.execute('COMMIT');
        return result;
      });
    },
    close() {
      closed = true;
      opened?.close();
      opened = undefined;
    },
  };
}

/** The caller closes it. */
function open(path: string, durability: Durability): NativeConnection {
  const db = openNative(path, { lockWaitMs: LOCK_WAIT_MS });
  try {
    db.execute(`PRAGMA synchronous = ${durability}`);
    db.execute(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    return db;
  } catch (error) {
    end(db, error);
    throw error;
  }
}

/** The write-ahead log of a damaged file stays as it is. */
function end(db: NativeConnection, error: unknown): void {
  if (isDamaged(error)) db.abandon();
  else db.close();
}
