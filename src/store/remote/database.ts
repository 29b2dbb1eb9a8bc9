// A libSQL database over HTTP: Turso, or your own sqld.
//
// The driver has no deadlines and runs at most twenty calls at once, so a primary that hangs would hang everything.
// Each try therefore has its own client (which holds no connection and costs microseconds to make) with its own fetch,
// which gives up in time, and which alone knows what happened on the wire.

import type { Client, InStatement } from '@libsql/client/web';
import type { RemoteConfig } from '../../config/database.ts';
import { expected } from '../../config/expected.ts';
import { shownUrl } from '../../config/urls.ts';
import { err, ok } from '../../lib/result.ts';
import { systemClock } from '../../lib/runtime.ts';
import { sleep } from '../../lib/timeout.ts';
import { createWaitingShare, type WaitingShare } from '../../limits/share.ts';
import {
  type Database,
  type DbResult,
  errorReason,
  isSchemaMissing,
  type Outage,
  type Statement,
  type Unavailable,
  unavailable,
  type Written,
} from '../database.ts';

/** Tries of one statement. */
const TRIES_MAX = 3;
/** Before the second try there is a random pause of up to this, before the third of up to twice this. */
const PAUSE_MS_MAX = 150;
/** When there is little time in all, the pauses are shorter: up to this part of it, then up to twice that. */
const PAUSE_PART_MAX = 0.1;
/**
 * How long one try may take, and all tries together. A second try helps when a connection died silently, or when this
 * process was too busy to read the response in time. When only the primary is busy, it makes more work for it, so
 * writes, which a primary runs one after the other, get more time.
 */
interface Timeouts {
  readonly attemptMs: number;
  readonly totalMs: number;
}
const READ: Timeouts = { attemptMs: 1500, totalMs: 3000 };
// A try of several statements must end before `sqld` takes the file away from them, after 5 s: each of those that are
// left then fails, and the driver leaves all but the first failure unhandled, which ends the process.
const WRITE: Timeouts = { attemptMs: 4000, totalMs: 6000 };
/**
 * The primary has one writer: one statement runs while the next is on its way. With four, one write in some thousand
 * waited 5 s, until `sqld` took the writer away from its holder.
 */
const WRITES_AT_ONCE = 2;
/**
 * Far below the 256 requests that the runtime sends at once: beyond those even the polls of the change feed would wait. A
 * primary 100 ms away still responds to 640 reads a second.
 */
const READS_AT_ONCE = 64;
/** Statements that may wait for a turn, a kilobyte each. An owner's are served as they came, owners in turn. */
const WAITING = { total: 4000, each: 500 };
/** A read that waits for its turn leaves this part of its time for the read itself. */
const TURN_PART_OF_TIME = 0.6;

const driverStatement = ({ sql, args = [] }: Statement): InStatement => ({ sql, args: [...args] });

export async function remoteDatabase({ url, authToken }: RemoteConfig): Promise<Database> {
  // Imported here, so that an embedded start loads no HTTP client, and a remote one no native driver.
  const { createClient } = await import('@libsql/client/web');
  try {
    createClient({ url }).close();
  } catch {
    // In our own words: the driver's message quotes the query, which may hold a token.
    const what = 'a URL without fragment, and in its query only authToken, or a tls that fits the rest';
    throw new Error(expected('DATABASE_URL', what, shownUrl(url)));
  }
  let closed = false;

  async function attempt<T>(
    run: (client: Client) => Promise<T>,
    withinMs: number,
    again: boolean,
  ): Promise<Attempt<T>> {
    const wire: Wire = { status: null, failure: null };
    const client = createClient({
      url,
      ...(authToken !== null && { authToken }),
      fetch: (request: Request) => fetchWithin(request, withinMs, again, wire),
    });
    try {
      return { ok: true, value: await run(client) };
    } catch (error) {
      return { ok: false, ...classifyError(error, wire) };
    } finally {
      client.close();
    }
  }

  async function call<T>(
    run: (client: Client) => Promise<T>,
    { attemptMs, totalMs }: Timeouts,
  ): DbResult<{ value: T; repeated: boolean }> {
    const startedAtMs = performance.now();
    let repeated = false;
    for (let tries = 1; ; tries += 1) {
      if (closed) return err(unavailable('unreachable', 'the store is closed'));
      const leftMs = totalMs - (performance.now() - startedAtMs);
      const attempted = await attempt(run, Math.max(1, Math.min(attemptMs, leftMs)), tries > 1);
      if (attempted.ok) return ok({ value: attempted.value, repeated });
      repeated ||= attempted.outcomeUnknown;
      const pauseMs = Math.random() * Math.min(PAUSE_MS_MAX, totalMs * PAUSE_PART_MAX) * tries;
      const inTime = performance.now() - startedAtMs + pauseMs < totalMs;
      if (!attempted.again || tries === TRIES_MAX || !inTime) return err(attempted.failure);
      await sleep(pauseMs);
    }
  }

  const writers = createWaitingShare({ total: WRITES_AT_ONCE, each: WRITES_AT_ONCE }, WAITING, systemClock);
  const readers = createWaitingShare({ total: READS_AT_ONCE, each: READS_AT_ONCE }, WAITING, systemClock);

  /** `call` when it is its owner's turn. */
  async function inTurn<T>(
    turns: WaitingShare,
    { whose = '' }: Pick<Statement, 'whose'>,
    run: (client: Client) => Promise<T>,
    { attemptMs, totalMs }: Timeouts,
  ): DbResult<{ value: T; repeated: boolean }> {
    const startedAtMs = performance.now();
    const release = await turns.wait(whose, totalMs * TURN_PART_OF_TIME);
    if (release === null) return err(unavailable('unreachable', 'the primary is behind'));
    try {
      return await call(run, { attemptMs, totalMs: totalMs - (performance.now() - startedAtMs) });
    } finally {
      release();
    }
  }

  const execute = (statement: Statement) => (client: Client) => client.execute(driverStatement(statement));

  async function writeOne(statement: Statement, withinMs?: number): DbResult<Written> {
    const timeouts = withinMs === undefined ? WRITE : { attemptMs: withinMs, totalMs: withinMs };
    const result = await inTurn(writers, statement, execute(statement), timeouts);
    if (!result.ok) return result;
    const { value, repeated } = result.value;
    return ok({ rows: value.rows, changed: value.rowsAffected, repeated });
  }

  return {
    async read(statement, withinMs) {
      const timeouts = withinMs === undefined ? READ : { attemptMs: withinMs / 2, totalMs: withinMs };
      const result = await (statement.urgent
        ? call(execute(statement), timeouts)
        : inTurn(readers, statement, execute(statement), timeouts));
      return result.ok ? ok(result.value.value.rows) : result;
    },
    write: writeOne,
    writeUnsynced: (statement) => writeOne(statement), // the primary decides when it waits for its disk
    async writeAll(statements) {
      const result = await inTurn(
        writers,
        statements[0] ?? {},
        (client) => client.batch(statements.map(driverStatement), 'write'),
        WRITE,
      );
      return result.ok ? ok(undefined) : result;
    },
    close() {
      closed = true;
    },
  };
}

/** What one try saw on the wire. */
interface Wire {
  status: number | null;
  failure: unknown;
}

type Attempt<T> = { readonly ok: true; readonly value: T } | ({ readonly ok: false } & Failure);

interface Failure {
  readonly failure: Unavailable;
  /** Another try may do better. */
  readonly again: boolean;
  /** The statement may have been carried out nevertheless. */
  readonly outcomeUnknown: boolean;
}

/**
 * `again`: on a new connection. When one died silently, those that were opened with it and wait in the pool did too.
 */
async function fetchWithin(request: Request, withinMs: number, again: boolean, wire: Wire): Promise<Response> {
  try {
    const signal = AbortSignal.timeout(withinMs);
    const response = await fetch(request, { signal, ...(again && { keepalive: false }) });
    const body = await response.arrayBuffer(); // within the deadline too
    wire.status = response.status;
    return new Response(body, { status: response.status, headers: response.headers });
  } catch (error) {
    wire.failure = error;
    throw error;
  }
}

/**
 * Classifies a failed try. Throws if it is a bug of this program: a statement that the database can't make sense of.
 */
function classifyError(error: unknown, { status, failure }: Wire): Failure {
  if (failure !== null) {
    const outcomeUnknown = !NOT_SENT.test(codeOf(failure));
    return { failure: unavailable('unreachable', errorReason(failure)), again: true, outcomeUnknown };
  }
  if (status === null) throw error; // nothing was sent: an argument the driver refuses
  if (status !== 200) return classifyStatus(status);
  const reason = errorReason(error);
  const code = codeOf(error);
  if (isSchemaMissing(error)) return permanent('no_schema', reason);
  if (BUSY.test(code)) return { ...permanent('unreachable', reason), again: true };
  if (/^SQL/.test(code) && !OUT_OF_ORDER.test(code)) throw error;
  return permanent('unreachable', reason); // out of order; or no libSQL at all: a proxy's page, another version's protocol
}

function classifyStatus(status: number): Failure {
  if (status === 400) throw new Error('the database could not read a statement'); // text that text.ts should refuse
  if (status === 401 || status === 403) {
    const what = status === 401 ? 'a token that this database accepts' : 'a token that may read and write';
    return permanent('refused', expected('DATABASE_AUTH_TOKEN', `${what}, but it answered ${status}`));
  }
  if (status === 429 || status >= 500) {
    const failure = unavailable('unreachable', `the database answered ${status}`);
    return { failure, again: true, outcomeUnknown: status !== 429 };
  }
  return permanent('refused', expected('DATABASE_URL', `a libSQL server, but it answered ${status}`));
}

/** The database did nothing, and would do nothing at another try. */
const permanent = (outage: Outage, reason: string): Failure => ({
  failure: unavailable(outage, reason),
  again: false,
  outcomeUnknown: false,
});

/** No connection came about, so nothing was carried out. */
const NOT_SENT = /ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPROTO|CERT/i;
/**
 * Something else holds the server's file for a moment, or all its responses together have no room for this one. (Each of
 * ours alone is far below what a response may have.)
 */
const BUSY = /^(SQLITE_(BUSY|LOCKED)|RESPONSE_TOO_LARGE)/;
/** The server responds, but can't do it: blocked by its operator, full, damaged. */
const OUT_OF_ORDER = /^(BLOCKED|SQLITE_(FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL|AUTH|PERM))/;

const codeOf = (error: unknown): string => {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === 'string' ? code : String(name);
};
