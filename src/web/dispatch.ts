// Dispatches each request: finds its route, checks it, calls its handler, and finishes the response. Catches what a
// handler throws; calls/run.ts catches what a tool throws.

import type { Pool } from '../ground/limits/pool.ts';
import type { Problem, ProblemCode } from '../ground/problem.ts';
import { type Awaitable, isPromise } from '../ground/result.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import type { Log, LogFields } from '../watch/log.ts';
import { thrownProblem } from '../watch/outage.ts';
import { excerptOf } from '../watch/redact.ts';
import { createReadBody, dropBody } from './body.ts';
import { type Connections, RequestContext, type RequestServer } from './context.ts';
import { allowOrigin, STRICT_TRANSPORT } from './headers.ts';
import { problemResponse } from './problem-response.ts';
import { type AllowedNames, createRequestChecks, createRouter, type Route } from './router.ts';

interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly config: AllowedNames & Pick<RequestServer, 'production' | 'trustProxy'> & { readonly tls: object | null };
  readonly address: ServerAddress;
  readonly observe: RequestServer['observe'];
  /** The pool for bodies that are being received, and for those of requests in progress. */
  readonly bodies: Pool;
  /** The id of the process, with which every request id begins. */
  readonly instance: string;
  readonly log: Log;
}

export function createDispatch(options: DispatchOptions) {
  const { routes, config, address, observe, bodies, instance, log } = options;
  const { production, trustProxy, tls } = config;
  const route = createRouter(routes);
  const check = createRequestChecks(config, address);
  const readBody = createReadBody(bodies);
  const inProgress = new InProgress();
  let isDraining = false;
  let held: Promise<void> | undefined; // until then, responses are held back
  const endOfTurn = createRequestBatcher();
  const server: RequestServer = {
    trustProxy,
    production,
    ownTls: tls !== null,
    address,
    observe,
    newRequestId: requestIds(instance),
    begun: inProgress.begun,
    over: inProgress.over,
  };

  async function respond(request: Request, connections: Connections): Promise<Response> {
    const found = route(request.url);
    const context = new RequestContext(server, connections, request, found);
    // Only POST waits: after another method a client may pipeline its next request (RFC 9112 §9.3.2).
    const turnEnd = context.method === 'POST' ? endOfTurn() : undefined;
    if (turnEnd !== undefined) await turnEnd;
    // Dropped unhandled: the trail could not say from which address it came.
    if (context.lacksAddress && (await context.hasLeft())) {
      context.endPart();
      return new Response(null); // nobody gets it
    }
    let isReadable = true;
    let response: Response;
    try {
      const checked = check(context, found);
      if (typeof checked === 'function') {
        const body = checked === found?.post ? await readBody(found.takes, context) : dropBody(context);
        const responding = checked(context, body);
        response = isPromise(responding) ? await responding : responding;
      } else {
        isReadable = !HIDDEN_FROM_PAGES.includes(checked.code);
        logRefusal(log, context, checked.code);
        response = await respondRefused(context, found, checked);
      }
    } catch (error) {
      response = await respondRefused(context, found, thrownProblem(error, log, { requestId: context.requestId }));
    }
    if (held !== undefined) await held;
    finish(response, context, found, isReadable);
    return response;
  }

  /**
   * Adds the headers that don't depend on the handler, like CORS and HSTS. A response to HEAD keeps its body: the
   * runtime (for Deno its main) drops it, and sends its length. After CONNECT nobody may use the connection again: Bun may
   * read no more of it, and closes it; Deno takes a body for further requests, and leaves the end to the client.
   */
  function finish(response: Response, context: RequestContext, found: Route | undefined, isReadable: boolean): void {
    const { origin, secure, idIsGiven, requestId, observed } = context;
    context.endPart();
    // A proxy's request has another server's Host and Origin, and its response is not for the browser.
    if (found?.any === undefined) {
      const readers = isReadable ? readersOf(found, origin) : null;
      if (readers !== null) allowOrigin(response.headers, readers);
      if (server.production && secure) response.headers.set('Strict-Transport-Security', STRICT_TRANSPORT);
    }
    if (idIsGiven) response.headers.set('X-Request-Id', requestId);
    try {
      observed?.(response);
    } catch (error) {
      log.error('internal error', { requestId, error }); // the response is there, and must leave
    }
    if (isDraining || context.method === 'CONNECT') response.headers.set('Connection', 'close');
  }

  return {
    fetch: respond,
    /** Adds `Connection: close` to all responses from now on. */
    beginDrain(): void {
      isDraining = true;
    },
    /** Resolves when no request is in progress: all calls have ended, and clients have read large responses. */
    idle: () => inProgress.idle(),
    /** Holds responses back from now on, until the returned function is called. */
    holdResponses(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return () => {
        held = undefined;
        resolve();
      };
    },
  };
}

/** Returns the origin whose pages may read a route's responses; `*`: any, null: none. */
function readersOf(found: Route | undefined, origin: string | null): string | null {
  if (found?.withoutCors) return null;
  return found?.openToAnyOrigin ? '*' : origin; // even without Origin: a cache may serve the response to a page
}

const respondRefused = (context: RequestContext, found: Route | undefined, problem: Problem): Awaitable<Response> =>
  found?.refuse?.(context, problem) ?? problemResponse(problem, context.requestId);

function logRefusal(log: Log, context: RequestContext, code: ProblemCode): void {
  const { requestId } = context;
  if (LOGGED_REFUSALS.includes(code)) log.warn('request refused', { requestId, code, ...refusedPart(context, code) });
}

class InProgress {
  #count = 0;
  #waiting: (() => void)[] = [];

  readonly begun = (): void => {
    this.#count += 1;
  };

  readonly over = (): void => {
    this.#count -= 1;
    if (this.#count > 0 || this.#waiting.length === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting = [];
  };

  /** Resolves when there is none. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#count === 0) resolve();
      else this.#waiting.push(resolve);
    });
  }
}

/** Returns undefined to handle a request now. Otherwise it resolves at the end of this turn of the event loop. */
type EndOfTurn = () => Promise<void> | undefined;

/**
 * The first requests of a turn are handled at once: if no more follow, waiting gains nothing. It also helps clients
 * that pipeline: the runtime closes a connection if a second request comes before the first response.
 */
const AT_ONCE_PER_TURN = 2;
/** After a turn with more requests than this, more are expected, and none is handled at once. */
const QUIET_TURN_MAX = 4;

/**
 * Creates the batcher of requests under load: those that arrive within one turn of the event loop are handled together at
 * its end. The code that handles them then stays in the processor's caches, and a client with many connections wakes once
 * for all responses.
 */
export function createRequestBatcher(): EndOfTurn {
  let begun = 0;
  let atOnce = AT_ONCE_PER_TURN;
  let turnEnd: Promise<void> | undefined;
  let release = () => {};

  function endTurn(): void {
    atOnce = begun > QUIET_TURN_MAX ? 0 : AT_ONCE_PER_TURN;
    begun = 0;
    turnEnd = undefined;
    release();
  }

  return () => {
    if (begun === 0) setImmediate(endTurn);
    begun += 1;
    if (begun <= atOnce) return undefined;
    turnEnd ??= new Promise((resolve) => {
      release = resolve;
    });
    return turnEnd;
  };
}

/** Refusals that no page may read, because its origin was refused or not checked yet. */
const HIDDEN_FROM_PAGES: readonly string[] = ['host_denied', 'origin_denied'];

/** Refusals worth a log line, because the operator may want to change the configuration. */
const LOGGED_REFUSALS: readonly string[] = [...HIDDEN_FROM_PAGES, 'https_required'];

function refusedPart(context: RequestContext, code: ProblemCode): LogFields | undefined {
  if (code === 'host_denied') return { host: excerptOf(context.host ?? '') };
  if (code === 'origin_denied') return { origin: excerptOf(context.origin ?? '') };
  return undefined;
}

/** Creates a generator of request ids that are unique across processes. It only counts, so ids are cheap. */
function requestIds(instance: string): () => string {
  let count = 0;
  return () => {
    count += 1;
    return `${instance}-${count.toString(36)}`;
  };
}
