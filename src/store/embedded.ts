// A libSQL file in this process.
//
// The driver never resets a statement that failed (libsql-client-ts #352): from then on the connection reports success
// and commits nothing. So a client that met any error is closed and replaced before anything else is run; and because
// the driver hands its connection from one waiting call to the next without asking us, nothing ever waits inside it.

import { type Client, createClient, LibsqlError } from '@libsql/client/sqlite3';
import { err, ok } from '../problem.ts';
import {
  type Answered,
  type Database,
  driverStatement,
  errorReason,
  isSchemaMissing,
  unavailable,
} from './database.ts';

/** How long SQLite itself waits for another process's lock. It holds up the event loop, so it is short; */
const LOCK_WAIT_MS = 10;
/** waiting goes on outside the driver, with a new client (0.6 ms) each time, for this long in all, */
const RETRY_FOR_MS = 5000;
/** with a random pause of up to this between the tries. */
const RETRY_PAUSE_MS_MAX = 20;

/** Errors of the environment, after which the same statement may succeed. Every other error is a bug, or damage. */
const UNAVAILABLE = /^SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL|PERM)/;
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/;
const BUSY = /^SQLITE_(BUSY|LOCKED|PROTOCOL)/;

/** For the log: a page is met that a look at the file when it was opened did not come by. */
const DAMAGED_TEXT = 'the database file is damaged; restore it from a backup';

const codeOf = (error: unknown) => (error instanceof LibsqlError ? error.code : '');

const isBusy = (error: unknown): boolean => BUSY.test(codeOf(error));

/** A client on the file, set up for several processes and durable commits. The caller closes it. */
async function openClient(path: string): Promise<Client> {
  const client = connect(path);
  try {
    await client.execute('PRAGMA synchronous = FULL'); // a commit is on the disk before it is acknowledged
    return client;
  } catch (error) {
    client.close();
    throw asOpenError(error);
  }
}

function connect(path: string): Client {
  try {
    return createClient({ url: `file:${encodeURI(path)}`, concurrency: 1, timeout: LOCK_WAIT_MS });
  } catch (error) {
    throw asOpenError(error);
  }
}

/** A file that can't be opened comes as a plain Error from the driver, the code at the end of its message. */
const asOpenError = (error: unknown) =>
  codeOf(error) === '' ? new LibsqlError(String((error as Error).message), 'SQLITE_CANTOPEN') : error;

/** Tries `run` while another process holds the file. */
async function retryBusy<T>(run: () => Promise<T>, forMs: number): Promise<T> {
  const startedAtMs = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isBusy(error) || performance.now() - startedAtMs > forMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RETRY_PAUSE_MS_MAX));
    }
  }
}

export function embeddedDatabase(path: string): Database {
  let client: Client | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let closed = false;

  async function runAlone<T>(run: (client: Client) => Promise<T>): Promise<T> {
    if (closed) throw new LibsqlError('the store is closed', 'SQLITE_CANTOPEN');
    client ??= await openClient(path);
    try {
      return await run(client);
    } catch (error) {
      client.close();
      client = undefined;
      throw error;
    }
  }

  function inTurn<T>(run: (client: Client) => Promise<T>): Promise<T> {
    const mine = turn.then(() => runAlone(run));
    turn = mine.catch(() => {});
    return mine;
  }

  async function guarded<T>(run: (client: Client) => Promise<T>, forMs = RETRY_FOR_MS): Answered<T> {
    try {
      return ok(await retryBusy(() => inTurn(run), forMs));
    } catch (error) {
      if (isSchemaMissing(error)) return err(unavailable('no_schema', errorReason(error)));
      if (!UNAVAILABLE.test(codeOf(error))) throw error;
      const reason = errorReason(error);
      return err(unavailable('unreachable', DAMAGED.test(codeOf(error)) ? `${DAMAGED_TEXT} (${reason})` : reason));
    }
  }

  return {
    read: (statement, withinMs) =>
      guarded(async (client) => (await client.execute(driverStatement(statement))).rows, withinMs),
    write: (statement) =>
      guarded(async (client) => ({ rows: (await client.execute(driverStatement(statement))).rows, repeated: false })),
    writeAll: (statements) =>
      guarded(async (client) => {
        await client.batch(statements.map(driverStatement), 'write');
      }),
    close() {
      closed = true;
      turn = turn.then(() => client?.close());
    },
  };
}
