// A libSQL file in this process.
//
// The driver never resets a statement that failed (libsql-client-ts #352): from then on the connection reports success
// and commits nothing. So a client that met any error is closed and replaced before anything else is run.

import { type Client, createClient, LibsqlError } from '@libsql/client';
import { err, ok, type Result, type StoreUnavailable } from '../problem.ts';
import { type Database, driverStatement, errorReason } from './database.ts';

/** How long SQLite itself waits for another process's lock. It blocks the event loop, so it is short; */
const LOCK_WAIT_MS = 250;
/** waiting goes on outside the driver, for this long in all, */
const RETRY_FOR_MS = 5000;
/** with a random pause of up to this between the tries. */
const RETRY_PAUSE_MS_MAX = 20;

/** Errors of the environment, after which the same statement may succeed. Every other error is a bug, or damage. */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL)/;
const BUSY = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

const codeOf = (error: unknown) => (error instanceof LibsqlError ? error.code : '');

export const isBusy = (error: unknown): boolean => BUSY.test(codeOf(error));

/** A client on the file, set up for several processes and durable commits. The caller closes it. */
export async function openClient(path: string): Promise<Client> {
  const client = createClient({ url: `file:${encodeURI(path)}`, concurrency: 1, timeout: LOCK_WAIT_MS });
  try {
    await client.execute('PRAGMA synchronous = FULL'); // a commit is on the disk before it is acknowledged
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Tries `run` with a new client each time while another process holds the file, for RETRY_FOR_MS. */
export async function retryBusy<T>(run: () => Promise<T>): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAtMs > RETRY_FOR_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_PAUSE_MS_MAX));
    }
  }
}

export function embeddedDatabase(path: string): Database {
  let opening: Promise<Client> | undefined;
  let closed = false;

  async function attempt<T>(run: (client: Client) => Promise<T>): Promise<T> {
    if (closed) throw new LibsqlError('the store is closed', 'SQLITE_CANTOPEN');
    opening ??= openClient(path);
    const mine = opening;
    try {
      return await run(await mine);
    } catch (error) {
      if (opening === mine) opening = undefined; // others may have replaced it already
      mine.then((client) => client.close()).catch(() => {}); // failed to open: nothing to close
      throw error;
    }
  }

  async function guarded<T>(run: (client: Client) => Promise<T>): Promise<Result<T, StoreUnavailable>> {
    try {
      return ok(await retryBusy(() => attempt(run)));
    } catch (error) {
      if (!UNAVAILABLE.test(codeOf(error))) throw error;
      return err({ code: 'store_unavailable', reason: errorReason(error) });
    }
  }

  const rows: Database['read'] = (statement) =>
    guarded(async (client) => (await client.execute(driverStatement(statement))).rows);

  return {
    read: rows,
    write: rows,
    writeAll: (statements) =>
      guarded(async (client) => {
        await client.batch(statements.map(driverStatement), 'write');
      }),
    close() {
      closed = true;
      opening?.then((client) => client.close()).catch(() => {});
    },
  };
}
