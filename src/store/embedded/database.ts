// A Database over a libSQL file, which other processes may have open too.

import { type Client, LibsqlError } from '@libsql/client/sqlite3';
import { err, ok } from '../../lib/result.ts';
import { sleep } from '../../lib/timeout.ts';
import {
  type Database,
  type DbResult,
  driverStatement,
  errorReason,
  isSchemaMissing,
  type Statement,
  unavailable,
} from '../database.ts';
import { type Connection, createConnection } from './connection.ts';

/**
 * While another process holds the file, a statement is retried until this long after it was asked for, each time with a
 * new client (0.6 ms). What it waited for its turn counts.
 */
const RETRY_MS_MAX = 5000;
/** The random pause between two tries is up to this long. */
const RETRY_PAUSE_MS_MAX = 20;

/** Errors of the environment or of a damaged file, not of the statement. Every other error is a bug. */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL|PERM)/;
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/;
const BUSY = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

/** For the log: the check at the start does not read every page of a large file. */
const DAMAGED_TEXT = 'the database file is damaged; restore it from a backup';

const codeOf = (error: unknown) => (error instanceof LibsqlError ? error.code : '');

const isBusy = (error: unknown): boolean => BUSY.test(codeOf(error));

/** Retries `run` while another process holds the file. */
async function retryBusy<T>(run: () => Promise<T>, forMs: number): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAtMs > forMs) throw error;
      await sleep(Math.random() * RETRY_PAUSE_MS_MAX);
    }
  }
}

async function guarded<T>(
  connection: Connection,
  run: (client: Client) => Promise<T>,
  forMs = RETRY_MS_MAX,
): DbResult<T> {
  try {
    return ok(await retryBusy(() => connection.runExclusive(run), forMs));
  } catch (error) {
    if (isSchemaMissing(error)) return err(unavailable('no_schema', errorReason(error)));
    if (!UNAVAILABLE.test(codeOf(error))) throw error;
    const reason = errorReason(error);
    return err(unavailable('unreachable', DAMAGED.test(codeOf(error)) ? `${DAMAGED_TEXT} (${reason})` : reason));
  }
}

const rowsOf = (statement: Statement) => async (client: Client) =>
  (await client.execute(driverStatement(statement))).rows;

const written = (statement: Statement) => async (client: Client) => {
  const { rows, rowsAffected } = await client.execute(driverStatement(statement));
  return { rows, changed: rowsAffected, repeated: false };
};

export function embeddedDatabase(path: string): Database {
  const synced = createConnection(path, 'FULL');
  const unsynced = createConnection(path, 'NORMAL');
  return {
    read: (statement, withinMs) => guarded(synced, rowsOf(statement), withinMs),
    write: (statement) => guarded(synced, written(statement)),
    writeUnsynced: (statement) => guarded(unsynced, written(statement)),
    writeAll: (statements) =>
      guarded(synced, async (client) => {
        await client.batch(statements.map(driverStatement), 'write');
      }),
    close() {
      synced.close();
      unsynced.close();
    },
  };
}
