// One try of a statement on a remote database, with a timeout, and what its failure means. The driver has no deadlines and
// runs at most twenty calls at once, so a primary that hangs would hang everything. Each try therefore has its own client
// (no connection, microseconds to make), whose fetch times out and sees the responses.
//
// Each request opens its own stream at the primary, which costs `sqld` 2.2 ms; in a stream that stays open a statement
// takes 0.5. But the driver keeps a stream open only for a transaction, and `sqld` ends one that is idle for 10 s.

import type { Client } from '@libsql/client/web';
import { type OutageKind, StoreOutage } from '../../ground/result.ts';
import type { CreateHttpClient } from '../../ground/runtime.ts';
import { expected } from '../../ground/text.ts';
import { shownUrl } from '../../ground/urls.ts';
import { errorReason, isSchemaMissing, isTextDamaged, type RemoteConfig } from '../database.ts';

/** Creates the function that runs one try. `again`: it is not the first. */
export async function createAttempt({ url, authToken }: RemoteConfig, createHttpClient?: CreateHttpClient) {
  const fetchWithin = createFetchWithin(createHttpClient);
  // Imported lazily, so that a server with a file loads no HTTP client.
  const { createClient } = await import('@libsql/client/web');
  try {
    createClient({ url }).close();
  } catch {
    // In our own words, because the driver's message quotes the query, which may hold a token.
    const what = 'a URL without fragment, and in its query only authToken, or a tls that fits the rest';
    throw new Error(expected('DATABASE_URL', what, shownUrl(url)));
  }
  return async function attempt<T>(
    run: (client: Client) => Promise<T>,
    withinMs: number,
    again: boolean,
  ): Promise<Attempted<T>> {
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
  };
}

interface Wire {
  status: number | null;
  failure: unknown;
}

type Attempted<T> = { readonly ok: true; readonly value: T } | ({ readonly ok: false } & Failure);

interface Failure {
  readonly failure: StoreOutage;
  /** Whether another try may succeed. */
  readonly again: boolean;
  /** Whether the statement may have run nevertheless. */
  readonly outcomeUnknown: boolean;
}

/**
 * Creates the function that fetches with a timeout. Redirects count as responses: they could lead statements to another
 * server, or past TLS. `again`: uses a new connection, because when one dies silently, those opened with it have died, too.
 */
function createFetchWithin(createHttpClient: CreateHttpClient = () => undefined) {
  const kept = createHttpClient();
  return async (request: Request, withinMs: number, again: boolean, wire: Wire): Promise<Response> => {
    const newClient = again ? createHttpClient() : undefined;
    const client = newClient ?? kept;
    try {
      const signal = AbortSignal.timeout(withinMs);
      const own = { ...(again && { keepalive: false }), ...(client && { client }) };
      const response = await fetch(request, { signal, redirect: 'manual', ...own });
      const body = await response.arrayBuffer(); // also within the timeout
      wire.status = response.status;
      return new Response(body, { status: response.status, headers: response.headers });
    } catch (error) {
      wire.failure = error;
      throw error;
    } finally {
      newClient?.close();
    }
  };
}

/** Classifies an error. Throws it if it is our bug: a statement that the database can't parse. */
function classifyError(error: unknown, { status, failure }: Wire): Failure {
  if (failure !== null) {
    const outcomeUnknown = !NOT_SENT.test(codeOf(failure));
    return { failure: new StoreOutage(errorReason(failure)), again: true, outcomeUnknown };
  }
  if (status === null) throw error; // nothing was sent: the driver refuses an argument
  if (status !== 200) return classifyStatus(status);
  const reason = errorReason(error);
  const code = codeOf(error);
  if (isSchemaMissing(error)) return permanent('no_schema', reason);
  if (isTextDamaged(error)) return permanent('damaged', reason);
  if (error instanceof SyntaxError) {
    return permanent('unreachable', expected('DATABASE_URL', 'a libSQL server, but it answered with no JSON'));
  }
  if (BUSY.test(code)) return { ...permanent('unreachable', reason, code), again: true };
  if (/^SQL/.test(code) && !OUT_OF_ORDER.test(code)) throw error;
  return permanent('unreachable', reason, code); // out of order; or not libSQL: another protocol version
}

function classifyStatus(status: number): Failure {
  if (status === 401 || status === 403) {
    const what = status === 401 ? 'a token that this database accepts' : 'a token that may read and write';
    return permanent('refused', expected('DATABASE_AUTH_TOKEN', `${what}, but it answered ${status}`));
  }
  if (status === 429 || status >= 500) {
    const failure = new StoreOutage(`the database answered ${status}`);
    return { failure, again: true, outcomeUnknown: status !== 429 };
  }
  return permanent('refused', expected('DATABASE_URL', `a libSQL server, but it answered ${status}`));
}

/** Returns a failure in which the database did nothing, and a retry would not help. */
const permanent = (kind: OutageKind, reason: string, code?: string): Failure => ({
  failure: new StoreOutage(reason, kind, code),
  again: false,
  outcomeUnknown: false,
});

/** There was no connection, so nothing has run. */
const NOT_SENT = /ECONNREFUSED|ConnectionRefused|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPROTO|CERT/i;
/** The server's file is locked for a moment, it aborted the statement, or its other responses leave no room for this one. */
const BUSY = /^(SQLITE_(BUSY|LOCKED|INTERRUPT|SCHEMA)|RESPONSE_TOO_LARGE)/;
/** The server responds, but can't do it: blocked by its operator, full, damaged. */
const OUT_OF_ORDER = /^(BLOCKED|SQLITE_(FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|NOMEM|PROTOCOL|AUTH|PERM))/;

const codeOf = (error: unknown): string => {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === 'string' ? code : String(name);
};
