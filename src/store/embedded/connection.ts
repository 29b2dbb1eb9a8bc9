// A connection to a libSQL file that runs one piece of work at a time.
//
// The driver never resets a failed statement (libsql-client-ts #352): from then on the connection reports success and
// commits nothing. So after any error the client is closed and replaced before anything else runs. And nothing ever
// waits inside the driver, because it hands its connection from one waiting call to the next without asking us.

import { type Client, createClient, LibsqlError } from '@libsql/client/sqlite3';
import { fileUrl } from '../database.ts';

/** How long SQLite itself waits for another process's lock. The wait blocks the event loop, so it is short. */
const LOCK_WAIT_MS = 3;
/**
 * With this many pages (4 KiB) in the write-ahead log, a commit moves them into the file. That blocks the event loop
 * for 4 ms; SQLite's default of 1,000 pages takes 9 ms. A creation writes five pages: with fewer in the log it waits for
 * the disk more often, with 250 it takes 2 % longer.
 */
const CHECKPOINT_PAGES = 400;
/**
 * The driver blocks the event loop while it works; after this much work in a row, the loop runs what else is waiting.
 */
const BLOCKING_MS_MAX = 3;

/**
 * `FULL`: a commit is on the disk before it is acknowledged. `NORMAL`: it outlives the process, but not a power cut.
 */
export type Durability = 'FULL' | 'NORMAL';

export interface Connection {
  /** Runs `run` exclusively. Rethrows its error, or the error of opening the file. */
  runExclusive<T>(run: (client: Client) => Promise<T>): Promise<T>;
  close(): void;
}

export function createConnection(path: string, durability: Durability): Connection {
  let client: Client | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let yieldedAtMs = 0;
  let closed = false;

  async function runAlone<T>(run: (client: Client) => Promise<T>): Promise<T> {
    if (closed) throw new LibsqlError('the store is closed', 'SQLITE_CANTOPEN');
    client ??= await openClient(path, durability);
    try {
      return await run(client);
    } catch (error) {
      client.close();
      client = undefined;
      throw error;
    }
  }

  async function yieldToEventLoop(): Promise<void> {
    if (performance.now() - yieldedAtMs < BLOCKING_MS_MAX) return;
    await new Promise((resolve) => setImmediate(resolve));
    yieldedAtMs = performance.now();
  }

  return {
    runExclusive(run) {
      const mine = turn.then(() => runAlone(run));
      turn = mine.catch(() => {}).then(yieldToEventLoop);
      return mine;
    },
    close() {
      closed = true;
      turn = turn.then(() => client?.close());
    },
  };
}

/** The caller closes it. */
async function openClient(path: string, durability: Durability): Promise<Client> {
  const client = connect(path);
  try {
    await client.execute(`PRAGMA synchronous = ${durability}`);
    await client.execute(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    return client;
  } catch (error) {
    client.close();
    throw asOpenError(error);
  }
}

function connect(path: string): Client {
  try {
    return createClient({ url: fileUrl(path), concurrency: 1, timeout: LOCK_WAIT_MS });
  } catch (error) {
    throw asOpenError(error);
  }
}

/** For a file that can't be opened, the driver throws a plain Error with the code at the end of its message. */
const asOpenError = (error: unknown) =>
  error instanceof LibsqlError ? error : new LibsqlError(String((error as Error).message), 'SQLITE_CANTOPEN');
