// Implements Database over an SQLite file, which other processes may have open, too.

import type { Database, Row, Statement, Written } from '../database.ts';
import { createTurns, GroupCommit, type TakeTurn } from './group-commit.ts';
import { Connection, isBusy, outageOf, pauseWhileLocked, RETRY_MS_MAX } from './sqlite.ts';
import { createFileThread } from './thread.ts';

export interface FileOptions {
  /** Leaves the file and its write-ahead log as they are. */
  readonly readOnly?: boolean;
  /**
   * Checks before each read and transaction, and throws a StoreOutage if it must not run. `now`: before a transaction and a
   * poll of the feed, whose result is a proof; otherwise a check in the same turn of the event loop is enough.
   */
  readonly check?: (now: boolean) => void;
}

export interface EmbeddedDatabase extends Database {
  /** Closes the file, and ends the threads, too. */
  close(): Promise<void>;
}

/** Creates a database that opens the file at its first statement. */
export function embeddedDatabase(path: string, { readOnly = false, check }: FileOptions = {}): EmbeddedDatabase {
  const connection = new Connection(path, readOnly);
  const takeTurn = createTurns();
  const thread = createFileThread(path);
  const reader = createFileThread(path); // another, because a long read would hold up commits
  const commits = new GroupCommit({ connection, thread, takeTurn, check: () => check?.(true) });

  async function named<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      throw outageOf(error) ?? error;
    }
  }

  return {
    read: (statement, withinMs = RETRY_MS_MAX) =>
      named(() => {
        check?.(statement.urgent === true);
        return statement.background ? reader.read(statement) : readWithin(connection, takeTurn, statement, withinMs);
      }),
    write: (statement) => named(async () => (await commits.commit([statement], false))[0] as Written), // one for each statement
    writeAll: (statements) => named(() => commits.commit(statements, true)),
    async close() {
      connection.close();
      await Promise.all([thread.end(), reader.end()]);
    },
  };
}

/** Reads, and retries for `withinMs` while the file is locked. */
async function readWithin(
  connection: Connection,
  takeTurn: TakeTurn,
  statement: Statement,
  withinMs: number,
): Promise<readonly Row[]> {
  const untilMs = performance.now() + withinMs;
  for (;;) {
    try {
      return await takeTurn(() => connection.sqlite().all(statement));
    } catch (error) {
      if (!isBusy(error) || performance.now() > untilMs) throw error;
      await pauseWhileLocked();
    }
  }
}
