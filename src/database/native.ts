// libsql, the native driver: one connection, whose statements are prepared once and whose rows are read to their end,
// so that no read transaction stays open. Every call blocks the thread. The driver can't reset a statement that failed
// (libsql-client-ts #352): from then on its connection may report success and commit nothing. Whoever gets an error has
// to close the connection, but for an error of `execute`, whose statement the driver doesn't keep.

import Libsql from 'libsql';
import type { Row, Statement, Written } from './database.ts';

/** Prepared statements kept for each connection. Only composed ones, such as operators' filters, could be more. */
const STATEMENTS_MAX = 200;

export interface NativeOptions {
  /** How long SQLite waits for another connection's lock. */
  readonly lockWaitMs?: number;
  /** The file is a replica of this database, and what can't be read from it is asked there. */
  readonly primary?: { readonly url: string; readonly authToken: string | null };
}

export interface NativeConnection {
  all(statement: Statement): readonly Row[];
  run(statement: Statement): Written;
  /** Runs SQL without arguments and without rows. */
  execute(sql: string): void;
  /** Of a replica: pulls what is new. */
  pull(): void;
  /** Undoes a transaction that is open. SQLite closes the file only when the statements have been collected. */
  close(): void;
  /** Undoes a transaction that is open, and leaves the rest to the collector, or the end of the process. */
  abandon(): void;
}

export const { SqliteError } = Libsql;

/** SQLite's name of the error, such as SQLITE_FULL or, more exactly, SQLITE_IOERR_WRITE; empty if it isn't SQLite's. */
export const codeOf = (error: unknown): string => (error instanceof SqliteError ? error.code : '');

export const isDamaged = (error: unknown): boolean => /^SQLITE_(CORRUPT|NOTADB)/.test(codeOf(error));

/** Throws a SqliteError, also where the driver throws a plain one with the code at the end of its message. */
export function openNative(path: string, { lockWaitMs = 0, primary }: NativeOptions = {}): NativeConnection {
  const db = open(path, {
    timeout: lockWaitMs,
    ...(primary && { syncUrl: primary.url, ...(primary.authToken !== null && { authToken: primary.authToken }) }),
  });
  const prepared = new Map<string, Prepared>();

  function prepare(sql: string): Prepared {
    const known = prepared.get(sql);
    if (known !== undefined) return known;
    const made = db.prepare(sql);
    // On a replica a statement that is run again takes the arguments of its first run.
    if (primary === undefined && prepared.size < STATEMENTS_MAX) prepared.set(sql, made);
    return made;
  }

  function abandon(): void {
    prepared.clear();
    // Until the driver's last statement is collected the connection stays open, and so would the transaction.
    if (db.inTransaction) db.exec('ROLLBACK');
  }

  return {
    all: ({ sql, args = [] }) => rowsOf(prepare(sql), args),
    run({ sql, args = [] }) {
      const statement = prepare(sql);
      if (statement.reader) return { rows: rowsOf(statement, args), changed: 0, repeated: false };
      return { rows: [], changed: statement.run(args).changes, repeated: false };
    },
    execute: (sql) => void db.exec(sql),
    pull: () => db.sync(),
    close() {
      abandon();
      db.close();
    },
    abandon,
  };
}

type Prepared = ReturnType<InstanceType<typeof Libsql>['prepare']>;

function rowsOf(statement: Prepared, args: NonNullable<Statement['args']>): readonly Row[] {
  const rows = statement.all(args) as Row[];
  rows.forEach(refuseRounded);
  return rows;
}

/** As a remote database's driver does. */
function refuseRounded(row: Row): void {
  for (const name in row) {
    const value = row[name];
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
      throw new RangeError(`${name}: an integer beyond 2^53`);
    }
  }
}

function open(path: string, options: object): InstanceType<typeof Libsql> {
  try {
    return new Libsql(path, options);
  } catch (error) {
    throw error instanceof SqliteError ? error : new SqliteError(String((error as Error).message), 'SQLITE_CANTOPEN');
  }
}
