// Connects to an SQLite file through the runtime's own SQLite, `node:sqlite` in Bun and in Deno. Caches prepared
// statements, and says which errors are outages. Every call blocks the thread.

import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { createLruCache } from '../../ground/cache.ts';
import { StoreOutage } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { errorReason, isSchemaMissing, isTextDamaged, type Row, type Statement, type Written } from '../database.ts';

/** Prepared statements cached, twice those of a day. Each day has some of its own (store/counts.ts). */
const STATEMENTS_MAX = 200;

export type SqliteConnection = ReturnType<typeof openSqlite>;

interface SqliteOptions {
  /** How long SQLite waits for another connection's lock. */
  readonly lockWaitMs: number;
  /** Leaves the file and its write-ahead log as they are, even when it is closed. */
  readonly readOnly?: boolean;
}

/** Opens the file, and creates it if it doesn't exist. */
export function openSqlite(path: string, { lockWaitMs, readOnly = false }: SqliteOptions) {
  const db = opened(path, { timeout: lockWaitMs, readOnly });
  const prepared = createLruCache<Prepared>({ entries: STATEMENTS_MAX });

  function prepare(sql: string): Prepared {
    const known = prepared.get(sql);
    if (known !== undefined) return known;
    const statement = db.prepare(sql);
    const made = { statement, hasRows: statement.columns().length > 0 };
    prepared.set(sql, made);
    return made;
  }

  return {
    all: ({ sql, args = [] }: Statement): readonly Row[] => rowsOf(prepare(sql).statement, args),
    run({ sql, args = [] }: Statement): Written {
      const { statement, hasRows } = prepare(sql);
      if (hasRows) return { rows: rowsOf(statement, args), changed: 0, repeated: false };
      return { rows: [], changed: Number(statement.run(...inputsOf(args)).changes), repeated: false };
    },
    /**
     * Runs a statement without caching it: some PRAGMA take effect when SQLite prepares them, and would have none again. The
     * module's own `exec` won't do: on Deno its errors have no code.
     */
    exec: (sql: string): void => void db.prepare(sql).all(),
    /** Rolls back an open transaction, if there is one. */
    rollback: (): void => void (db.isTransaction && db.prepare('ROLLBACK').run()),
    close: (): void => db.close(),
  };
}

interface Prepared {
  readonly statement: StatementSync;
  readonly hasRows: boolean;
}

type Args = NonNullable<Statement['args']>;

// The module's types want views of bytes, but it accepts buffers, too; no statement of ours has any.
const inputsOf = (args: Args) => args as readonly SQLInputValue[];

/** Throws a RangeError if a number can't represent an integer. */
const rowsOf = (statement: StatementSync, args: Args) => statement.all(...inputsOf(args)) as Row[];

// The connection of an embedded database: opened by the first statement, closed for good. Another process may lock the file
// for a moment; callers then pause and try again.

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

/** Checkpoints nothing, and returns the length of the log. SQLite before 3.51 does checkpoint, and fails if it is cut. */
const LOG_FRAMES: Statement = { sql: 'PRAGMA wal_checkpoint(NOOP)' };
const PAGE_SIZE: Statement = { sql: 'PRAGMA page_size' };
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** `FULL`: a commit is on the disk before it is acknowledged. `NORMAL`: it survives the process, but not a power cut. */
export type Durability = 'FULL' | 'NORMAL';

export class Connection {
  #sqlite: SqliteConnection | undefined;
  /** That of the last transaction; null before the first. */
  #durability: Durability | null = null;
  #isClosed = false;
  #pageBytes: number | undefined;

  constructor(
    readonly path: string,
    readonly readOnly: boolean,
  ) {}

  /** Returns SQLite's connection, opened if need be. Throws a StoreOutage once it is closed. */
  sqlite(): SqliteConnection {
    if (this.#isClosed) throw new StoreOutage('the store is closed');
    if (this.#sqlite !== undefined) return this.#sqlite;
    this.#sqlite = openSqlite(this.path, { lockWaitMs: LOCK_WAIT_MS, readOnly: this.readOnly });
    this.#sqlite.exec(`PRAGMA wal_autocheckpoint = ${LOG_PAGES_MAX}`);
    if (!this.readOnly) keepTemporaryIn(dirname(this.path), this.#sqlite);
    return this.#sqlite;
  }

  /** Runs `work` in one transaction. Throws what `work` or SQLite throws, and then writes nothing. */
  transaction<T>(durability: Durability, work: (sqlite: SqliteConnection) => T): T {
    const sqlite = this.sqlite();
    if (this.#durability !== durability) sqlite.exec(`PRAGMA synchronous = ${durability}`);
    this.#durability = durability;
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

  /** Returns how long the write-ahead log must be for all that its index names (sqlite.org/walformat.html). */
  logBytes(): number {
    const sqlite = this.sqlite();
    this.#pageBytes ??= Number(sqlite.all(PAGE_SIZE)[0]?.page_size);
    const frames = Number(sqlite.all(LOG_FRAMES)[0]?.log);
    return frames === 0 ? 0 : LOG_HEADER_BYTES + frames * (FRAME_HEADER_BYTES + this.#pageBytes);
  }

  close(): void {
    if (!this.#isClosed) this.#sqlite?.close();
    this.#isClosed = true;
  }
}

/**
 * Has SQLite, in the whole process, keep temporary files in the database's folder: a change of many rows takes one, and must
 * not depend on another disk.
 */
function keepTemporaryIn(folder: string, { exec }: SqliteConnection): void {
  try {
    exec(`PRAGMA temp_store_directory = '${folder.replaceAll("'", "''")}'`);
  } catch {
    // The folder is not writable, so nothing in it will be changed.
  }
}

/** Waits for a random time, in which the process that holds the lock may finish. */
export const pauseWhileLocked = (): Promise<void> => sleep(Math.random() * RETRY_PAUSE_MS_MAX);

/** SQLite's result codes (sqlite.org/rescode.html) about the environment or a damaged file, not about a statement. */
const OUTAGES: Readonly<Record<number, string>> = {
  3: 'SQLITE_PERM',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  7: 'SQLITE_NOMEM',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  26: 'SQLITE_NOTADB',
  4874: 'SQLITE_FULL', // IOERR_SHMSIZE: no space for the index of the log
};
/** Deno gives no code when it can't open a file. */
export const CANTOPEN = 14;

function opened(path: string, options: { readonly timeout: number; readonly readOnly: boolean }): DatabaseSync {
  try {
    return new DatabaseSync(path, options);
  } catch (error) {
    const { errcode = CANTOPEN } = error as { readonly errcode?: number };
    throw Object.assign(error as Error, { errcode });
  }
}

/** Returns SQLite's name of an outage, such as SQLITE_FULL; empty for any other error. */
function nameOf(error: unknown): string {
  const { errcode = 0 } = error as { readonly errcode?: number };
  return OUTAGES[errcode] ?? OUTAGES[errcode & 0xff] ?? '';
}

export const isBusy = (error: unknown): boolean => /BUSY|LOCKED|PROTOCOL/.test(nameOf(error));

/** Logged for damage that the check at the start missed, since it does not read every page of a large file. */
const DAMAGED_TEXT = 'the database file is damaged; restore it from a backup';

/** Returns an SQLite error as an outage; null: it is a bug. */
export function outageOf(error: unknown): StoreOutage | null {
  if (isSchemaMissing(error)) return new StoreOutage(errorReason(error), 'no_schema');
  const name = nameOf(error);
  const reason = errorReason(name === '' ? error : Object.assign(error as Error, { code: name }));
  if (/CORRUPT|NOTADB/.test(name) || isTextDamaged(error)) return damageOf(reason);
  return name === '' ? null : new StoreOutage(reason, 'unreachable', name);
}

/** Returns the outage of a damaged file. */
export const damageOf = (reason: string) => new StoreOutage(`${DAMAGED_TEXT} (${reason})`, 'damaged');
