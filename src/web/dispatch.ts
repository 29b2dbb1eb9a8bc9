// Takes each request through the server: finds its route, checks it, calls its handler, and finishes the response.
// Catches what a handler throws; calls/run.ts catches what a tool throws.

import type { Pool } from '../ground/limits/pool.ts';
import type { Problem, ProblemCode } from '../ground/problem.ts';
import { type Awaitable, StoreOutage } from '../ground/result.ts';
import type { Log, LogFields } from '../watch/log.ts';
import { outageProblem } from '../watch/outage.ts';
import { excerptOf } from '../watch/redact.ts';
import { createReadBody, NO_BODY } from './body.ts';
import { type Connections, RequestContext, type ServerFacts } from './context.ts';
import { allowOrigin, STRICT_TRANSPORT } from './headers.ts';
import { problemResponse } from './problem-response.ts';
import { type BodyHandler, type CheckRequest, createRouter, pathOf, type Route } from './router.ts';

export interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly check: CheckRequest;
  readonly server: Omit<ServerFacts, 'newRequestId' | 'begun' | 'over'>;
  /** For bodies on their way, and of requests under way. */
  readonly bodies: Pool;
  /** Identifies the process: every request id begins with it. */
  readonly instance: string;
  readonly log: Log;
}

export interface Dispatch {
  fetch(request: Request, connections: Connections): Awaitable<Response>;
  /** From now on responses say `Connection: close`. */
  beginDrain(): void;
  /** Resolves when no request is under way: each is until its calls have ended, and a large response was read. */
  idle(): Promise<void>;
  /** From now on responses wait, until the returned function is called. */
  pauseResponses(): () => void;
}

export function createDispatch(options: DispatchOptions): Dispatch {
  const { check, instance, log } = options;
  const route = createRouter(options.routes);
  const readBody = createReadBody(options.bodies);
  const endOfTurn = createResponseBatcher();
  let draining = false;
  let paused: Promise<void> | null = null;
  const untilResumed = () => paused ?? undefined;
  let underWay = 0;
  let waiting: (() => void)[] = [];
  const server: ServerFacts = {
    ...options.server,
    newRequestId: requestIds(instance),
    begun() {
      underWay += 1;
    },
    over() {
      underWay -= 1;
      if (underWay > 0 || waiting.length === 0) return;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
  };

  /**
   * Resolves when a response may leave; undefined: now. They are batched for POST alone: after another method a client
   * may pipeline its next request (RFC 9112 §9.3.2).
   */
  function turn({ method }: Request): Promise<void> | undefined {
    const turnEnd = method === 'POST' ? endOfTurn() : undefined;
    return turnEnd === undefined ? untilResumed() : turnEnd.then(untilResumed);
  }

  const refuse = (context: RequestContext, found: Route | undefined, problem: Problem) =>
    found?.refuse?.(context, problem) ?? problemResponse(problem, context.requestId);

  function refuseAndLog(context: RequestContext, found: Route | undefined, problem: Problem): Awaitable<Response> {
    const { requestId } = context;
    const { code } = problem;
    if (LOGGED_REFUSALS.includes(code)) log.warn('request refused', { requestId, code, ...refusedPart(context, code) });
    return refuse(context, found, problem);
  }

  function failed(error: unknown, context: RequestContext, found: Route | undefined): Awaitable<Response> {
    const { requestId } = context;
    if (error instanceof StoreOutage) return refuse(context, found, outageProblem(error, log, { requestId }));
    log.error('internal error', { requestId, error });
    return refuse(context, found, { code: 'internal' });
  }

  /**
   * Adds the headers that don't depend on the handler, like CORS and HSTS. A response to HEAD still has its body: the
   * runtime drops it, and sends its length.
   */
  function finish(
    response: Response,
    context: RequestContext,
    found: Route | undefined,
    isReadable: boolean,
  ): Response {
    const { origin, secure, idIsGiven, requestId, observed } = context;
    context.endPart();
    // The response to a proxy is not for the browser: Host and Origin are another server's.
    if (found?.any === undefined) {
      const open = found?.openToAnyOrigin === true; // also without Origin: a cache may give the response to a page
      if (isReadable && (origin !== null || open)) allowOrigin(response.headers, origin ?? '*', open);
      if (server.production && secure) response.headers.set('Strict-Transport-Security', STRICT_TRANSPORT);
    }
    if (idIsGiven) response.headers.set('X-Request-Id', requestId);
    observed?.(response);
    if (draining) response.headers.set('Connection', 'close');
    return response;
  }

  /** `handled`: what a handler has returned; or the handler of a POST, whose body is to be read first. */
  async function settle(
    handled: Awaitable<Response> | BodyHandler,
    context: RequestContext,
    found: Route | undefined,
    isReadable: boolean,
  ): Promise<Response> {
    let response: Response;
    try {
      response = await (typeof handled === 'function'
        ? handled(context, await readBody(found?.takes, context))
        : handled);
    } catch (error) {
      response = await failed(error, context, found);
    }
    await turn(context.request);
    return finish(response, context, found, isReadable);
  }

  return {
    fetch(request, connections) {
      const found = route(pathOf(request.url));
      const context = new RequestContext(server, connections, request, found?.path ?? null, found?.any !== undefined);
      let isReadable = true;
      let handled: Awaitable<Response> | BodyHandler;
      try {
        const handler = check(context, found);
        if (typeof handler !== 'function') {
          isReadable = !HIDDEN_FROM_PAGES.includes(handler.code);
          handled = refuseAndLog(context, found, handler);
        } else if (handler === found?.post) handled = handler;
        else handled = handler(context, NO_BODY);
      } catch (error) {
        handled = failed(error, context, found);
      }
      return handled instanceof Response && paused === null
        ? finish(handled, context, found, isReadable)
        : settle(handled, context, found, isReadable);
    },
    beginDrain() {
      draining = true;
    },
    idle: () =>
      new Promise((resolve) => {
        if (underWay === 0) resolve();
        else waiting.push(resolve);
      }),
    pauseResponses() {
      const { promise, resolve } = Promise.withResolvers<void>();
      paused = promise;
      return () => {
        paused = null;
        resolve();
      };
    },
  };
}

/** Refusals that no page may read: its origin was refused, or not checked yet. */
const HIDDEN_FROM_PAGES: readonly string[] = ['host_denied', 'origin_denied'];

/** Refusals worth a log line, because the operator may want to change the configuration. */
const LOGGED_REFUSALS: readonly string[] = [...HIDDEN_FROM_PAGES, 'https_required'];

function refusedPart(context: RequestContext, code: ProblemCode): LogFields | undefined {
  if (code === 'host_denied') return { host: excerptOf(context.host ?? '') };
  if (code === 'origin_denied') return { origin: excerptOf(context.origin ?? '') };
  return undefined;
}

/** Unique in all processes, for the cost of counting. */
function requestIds(instance: string): () => string {
  let count = 0;
  return () => {
    count += 1;
    return `${instance}-${count.toString(36)}`;
  };
}

// Under load, responses that become ready within one turn of the event loop are sent together at its end. A client with
// many connections is then woken once for all; waking it for each costs more than most of the work on a request.

/** `undefined`: send now. Else resolves at the end of this turn of the event loop. */
type EndOfTurn = () => Promise<void> | undefined;

/**
 * The first responses of a turn are sent at once: if no more follow, waiting gains nothing. It also helps clients that
 * pipeline: the runtime ends a connection on which a second request comes before the response to the first.
 */
const AT_ONCE_PER_TURN = 2;
/** After a turn with more responses than this, more are expected, and none is sent at once. */
const QUIET_TURN_MAX = 4;

export function createResponseBatcher(): EndOfTurn {
  let sent = 0;
  let atOnce = AT_ONCE_PER_TURN;
  let turnEnd: Promise<void> | undefined;
  let release = () => {};

  function endTurn(): void {
    atOnce = sent > QUIET_TURN_MAX ? 0 : AT_ONCE_PER_TURN;
    sent = 0;
    turnEnd = undefined;
    release();
  }

  return () => {
    if (sent === 0) setImmediate(endTurn);
    sent += 1;
    if (sent <= atOnce) return undefined;
    turnEnd ??= new Promise((resolve) => {
      release = resolve;
    });
    return turnEnd;
  };
}
