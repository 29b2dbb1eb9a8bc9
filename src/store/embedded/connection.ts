// The connection of an embedded database: opened by the first statement, closed for good. Another process may lock the
// file for a moment; callers then pause and try again.

import { sleep } from '../../ground/runtime.ts';
import type { Statement } from '../database.ts';
import { openSqlite, type SqliteConnection } from './sqlite.ts';

/** How long SQLite itself waits for another process's lock. The wait blocks the event loop, so it is short. */
const LOCK_WAIT_MS = 3;
/** While the file is locked, a statement is retried until this long after it was requested. */
export const RETRY_MS_MAX = 5000;
const RETRY_PAUSE_MS_MAX = 20;
/**
 * The length in pages (4 KiB) from which a commit checkpoints the write-ahead log, in 4 ms; at SQLite's default of 1,000,
 * in 9 ms. A creation writes five. At 250 it waits for the disk more often, and takes 2 % longer.
 */
export const LOG_PAGES_MAX = 400;
/** `IMMEDIATE` takes the write lock at once. */
const BEGIN: Statement = { sql: 'BEGIN IMMEDIATE' };
const COMMIT: Statement = { sql: 'COMMIT' };

/** `FULL`: a commit is on the disk before it is acknowledged. `NORMAL`: it survives the process, but not a power cut. */
export type Durability = 'FULL' | 'NORMAL';

/** `durability` is that of the last transaction; null before the first. */
type State =
  | { readonly is: 'not_open' }
  | { readonly is: 'open'; readonly sqlite: SqliteConnection; readonly durability: Durability | null }
  | { readonly is: 'closed' };

export class Connection {
  readonly #path: string;
  readonly #readOnly: boolean;
  #state: State = { is: 'not_open' };

  constructor(path: string, readOnly: boolean) {
    this.#path = path;
    this.#readOnly = readOnly;
  }

  /** Returns SQLite's connection, opened if need be. Throws an Error once it is closed. */
  sqlite(): SqliteConnection {
    return this.#opened().sqlite;
  }

  /** Runs `work` in one transaction. Throws what `work` or SQLite throws, and then writes nothing. */
  transaction<T>(durability: Durability, work: (sqlite: SqliteConnection) => T): T {
    const sqlite = this.#withDurability(durability);
    sqlite.all(BEGIN);
    try {
      const result = work(sqlite);
      sqlite.all(COMMIT);
      return result;
    } catch (error) {
      sqlite.rollback();
      throw error;
    }
  }

  close(): void {
    if (this.#state.is === 'open') this.#state.sqlite.close();
    this.#state = { is: 'closed' };
  }

  #opened() {
    if (this.#state.is === 'open') return this.#state;
    if (this.#state.is === 'closed') throw Object.assign(new Error('the store is closed'), { code: 'SQLITE_CANTOPEN' });
    const sqlite = openSqlite(this.#path, { lockWaitMs: LOCK_WAIT_MS, readOnly: this.#readOnly });
    sqlite.exec(`PRAGMA wal_autocheckpoint = ${LOG_PAGES_MAX}`);
    const opened = { is: 'open', sqlite, durability: null } as const;
    this.#state = opened;
    return opened;
  }

  #withDurability(durability: Durability): SqliteConnection {
    const { sqlite, durability: before } = this.#opened();
    if (before === durability) return sqlite;
    sqlite.exec(`PRAGMA synchronous = ${durability}`);
    this.#state = { is: 'open', sqlite, durability };
    return sqlite;
  }
}

/** Waits for a random time, in which the process that holds the lock may finish. */
export const pauseWhileLocked = (): Promise<void> => sleep(Math.random() * RETRY_PAUSE_MS_MAX);
