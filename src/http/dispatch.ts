// Takes each request through the server: finds its route, checks it, has it answered, and finishes the response. What its
// handler throws is caught here; what a tool throws, in tools/core/run.ts.

import type { InFlight } from '../lib/in-flight.ts';
import { type Awaitable, chain, isPromise } from '../lib/result.ts';
import type { Log, LogFields } from '../log/log.ts';
import { excerptOf } from '../log/redact.ts';
import type { Problem, ProblemCode } from '../problem.ts';
import { type CheckRequest, hostOf } from './checks.ts';
import { type Connections, type ObserveRequest, RequestContext, type ServerFacts } from './context.ts';
import { allowOrigin } from './cors.ts';
import { forwardedRequestId } from './forwarded.ts';
import { STRICT_TRANSPORT } from './headers.ts';
import { problemResponse } from './problem-response.ts';
import { createResponseBatcher } from './response-batching.ts';
import { createRouter, pathOf, type Route } from './router.ts';

export interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly check: CheckRequest;
  readonly isSecure: (headers: Headers) => boolean;
  readonly server: ServerFacts;
  readonly inFlight: InFlight;
  /** The process: every request id begins with it. */
  readonly instance: string;
  readonly log: Log;
  readonly observe?: ObserveRequest | undefined;
}

export interface Dispatch {
  fetch(request: Request, connections: Connections): Awaitable<Response>;
  /** From now on answers ask clients to close their connections. */
  beginDrain(): void;
}

export function createDispatch(options: DispatchOptions): Dispatch {
  const { server, check, isSecure, inFlight, instance, log, observe } = options;
  const route = createRouter(options.routes);
  const newRequestId = requestIds(instance);
  const endOfTurn = createResponseBatcher();
  let draining = false;

  const refuse = (context: RequestContext, found: Route | undefined, problem: Problem) =>
    found?.refuse?.(context, problem) ?? problemResponse(problem, context.requestId);

  function refuseAndLog(context: RequestContext, found: Route | undefined, problem: Problem): Response {
    const { requestId, request } = context;
    const { code } = problem;
    if (LOGGED_REFUSALS.includes(code)) log.warn('request refused', { requestId, code, ...refusedPart(request, code) });
    return refuse(context, found, problem);
  }

  function answer(context: RequestContext, found: Route | undefined): Awaitable<Response> {
    const origin = context.request.headers.get('origin');
    const checked = check(context, found, origin);
    const response = typeof checked === 'function' ? checked(context) : refuseAndLog(context, found, checked);
    const readable = typeof checked === 'function' || !HIDDEN_FROM_PAGES.includes(checked.code);
    const added = addedHeaders(context, found, readable ? origin : undefined);
    return added === null ? response : chain(response, withHeaders, added);
  }

  /**
   * `origin` is as it was sent, or undefined if no page may read the response. Returns null if there is nothing to add.
   */
  function addedHeaders(
    { secure }: RequestContext,
    found: Route | undefined,
    origin?: string | null,
  ): AddedHeaders | null {
    if (found?.any !== undefined) return null; // what a proxy passes on speaks for another host
    const open = found?.openToAnyOrigin === true; // added for everyone: a cache may give the response to a page
    const allowed = origin === undefined || (origin === null && !open) ? null : (origin ?? '*');
    const strict = server.production && secure; // browsers shall stay with HTTPS
    return allowed === null && !strict ? null : { allowed, open, strict };
  }

  function internalError(bug: unknown, context: RequestContext, found: Route | undefined): Response {
    const { requestId } = context;
    log.error('internal error', { requestId, error: bug });
    return withAdded(refuse(context, found, { code: 'internal' }), context, found);
  }

  function withAdded(response: Response, context: RequestContext, found: Route | undefined): Response {
    const added = addedHeaders(context, found, context.request.headers.get('origin'));
    return added === null ? response : withHeaders(response, added);
  }

  function finish(response: Response, { observed, requestId, idIsGiven, connectionEnds }: RequestContext): Response {
    inFlight.leave();
    if (idIsGiven) response.headers.set('X-Request-Id', requestId);
    observed?.(response);
    if (draining || connectionEnds) response.headers.set('Connection', 'close');
    return response;
  }

  /** `response`, or what `renewing` puts in its place. */
  async function renewed(
    response: Response,
    renewing: Promise<Response | undefined>,
    context: RequestContext,
    found: Route | undefined,
  ): Promise<Response> {
    try {
      const other = await renewing;
      if (other === undefined) return response;
      void response.body?.cancel(); // gives back what is held for it
      return withAdded(other, context, found);
    } catch (bug) {
      return internalError(bug, context, found);
    }
  }

  async function settle(answered: Promise<Response>, context: RequestContext, found: Route | undefined) {
    let response: Response;
    try {
      response = await answered;
    } catch (bug) {
      response = internalError(bug, context, found);
    }
    // After any other method a client may send its next request before it has this response (RFC 9112 §9.3.2).
    if (context.request.method === 'POST') await endOfTurn();
    const renewing = context.perishable?.renew();
    if (renewing !== undefined) response = await renewed(response, renewing, context, found);
    return finish(response, context);
  }

  return {
    fetch(request, connections) {
      const found = route(pathOf(request.url));
      const { headers } = request;
      const given = server.trustProxy > 0 ? forwardedRequestId(headers) : null;
      const context = new RequestContext(server, connections, request, given ?? newRequestId(), isSecure(headers));
      context.idIsGiven = given !== null;
      inFlight.enter();
      context.observed = observe?.(context, found?.path ?? null);
      try {
        const answered = answer(context, found);
        return isPromise(answered) ? settle(answered, context, found) : finish(answered, context);
      } catch (bug) {
        return finish(internalError(bug, context, found), context);
      }
    },
    beginDrain() {
      draining = true;
    },
  };
}

interface AddedHeaders {
  /** The origin whose pages may read the response; null: none. */
  readonly allowed: string | null;
  readonly open: boolean;
  readonly strict: boolean;
}

/** A response to HEAD still has its body here: the runtime drops it, and sends its length. */
function withHeaders(response: Response, { allowed, open, strict }: AddedHeaders): Response {
  if (allowed !== null) allowOrigin(response.headers, allowed, open);
  if (strict) response.headers.set('Strict-Transport-Security', STRICT_TRANSPORT);
  return response;
}

/** Refusals that no page may read: its origin was refused, or not checked yet. */
const HIDDEN_FROM_PAGES: readonly string[] = ['host_denied', 'origin_denied'];

/** Refusals worth a line in the log, because the operator may want to change the configuration. */
const LOGGED_REFUSALS: readonly string[] = [...HIDDEN_FROM_PAGES, 'https_required'];

/** What an operator may have to allow. */
function refusedPart(request: Request, code: ProblemCode): LogFields | undefined {
  if (code === 'host_denied') return { host: excerptOf(hostOf(request) ?? '') };
  if (code === 'origin_denied') return { origin: excerptOf(request.headers.get('origin') ?? '') };
  return undefined;
}

/** Ids that no two requests share, in this process or another, at the price of counting. */
function requestIds(instance: string): () => string {
  let count = 0;
  return () => {
    count += 1;
    return `${instance}-${count.toString(36)}`;
  };
}
