// Takes each request through the server: finds its route, admits it, has it answered, lets the answer leave. The one
// catch-all is here.

import type { InFlight } from '../lib/in-flight.ts';
import { type Awaitable, chain, isPromise } from '../lib/result.ts';
import type { RandomBytes } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { CheckRequest } from './checks.ts';
import { type Connections, RequestContext, type ServerFacts } from './context.ts';
import { allowOrigin } from './cors.ts';
import { STRICT_TRANSPORT } from './headers.ts';
import { problemResponse } from './problem-response.ts';
import { createResponseBatcher } from './response-batching.ts';
import { createRouter, pathOf, type Route } from './router.ts';

export interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly admit: CheckRequest;
  readonly isSecure: (headers: Headers) => boolean;
  readonly server: ServerFacts;
  readonly inFlight: InFlight;
  readonly random: RandomBytes;
  readonly log: Log;
}

export interface Dispatch {
  fetch(request: Request, connections: Connections): Awaitable<Response>;
  /** From now on answers ask clients to close their connections. */
  beginDrain(): void;
}

export function createDispatch(options: DispatchOptions): Dispatch {
  const { server, admit, isSecure, inFlight, random, log } = options;
  const route = createRouter(options.routes);
  const newRequestId = requestIds(random);
  const departure = createResponseBatcher();
  let draining = false;

  const refuse = (context: RequestContext, found: Route | undefined, problem: Problem) =>
    found?.refuse?.(context, problem) ?? problemResponse(problem, context.requestId);

  function turnAway(context: RequestContext, found: Route | undefined, problem: Problem): Response {
    const { requestId } = context;
    if (BY_SETTING.includes(problem.code)) log.warn('request refused', { requestId, code: problem.code });
    return refuse(context, found, problem);
  }

  function answer(context: RequestContext, found: Route | undefined): Awaitable<Response> {
    const origin = context.request.headers.get('origin');
    const admitted = admit(context, found, origin);
    const response = typeof admitted === 'function' ? admitted(context) : turnAway(context, found, admitted);
    const readable = typeof admitted === 'function' || !CROSS_SITE.includes(admitted.code);
    const added = addedHeaders(context, found, readable ? origin : undefined);
    return added === null ? response : chain(response, withHeaders, added);
  }

  /**
   * `origin` is as it was sent, or undefined if no page may read the answer. Returns null if there is nothing to add.
   */
  function addedHeaders(
    { secure }: RequestContext,
    found: Route | undefined,
    origin?: string | null,
  ): AddedHeaders | null {
    const open = found?.openToAnyOrigin === true; // added for everyone: a cache may give the answer to a page
    const allowed = origin === undefined || (origin === null && !open) ? null : (origin ?? '*');
    const strict = server.production && secure; // browsers shall stay with HTTPS
    return allowed === null && !strict ? null : { allowed, open, strict };
  }

  function broken(bug: unknown, context: RequestContext, found: Route | undefined): Response {
    const { requestId } = context;
    log.error('internal error', { requestId, error: bug });
    return withAdded(refuse(context, found, { code: 'internal' }), context, found);
  }

  function withAdded(response: Response, context: RequestContext, found: Route | undefined): Response {
    const added = addedHeaders(context, found, context.request.headers.get('origin'));
    return added === null ? response : withHeaders(response, added);
  }

  function leave(response: Response): Response {
    inFlight.leave();
    if (draining) response.headers.set('Connection', 'close');
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
      return broken(bug, context, found);
    }
  }

  async function whenReady(answered: Promise<Response>, context: RequestContext, found: Route | undefined) {
    let response: Response;
    try {
      response = await answered;
    } catch (bug) {
      response = broken(bug, context, found);
    }
    // After any other method a client may send its next request before it has this answer (RFC 9112 §9.3.2).
    if (context.request.method === 'POST') await departure();
    const renewing = context.perishable?.renew();
    if (renewing !== undefined) response = await renewed(response, renewing, context, found);
    return leave(response);
  }

  return {
    fetch(request, connections) {
      const found = route(pathOf(request.url));
      const context = new RequestContext(server, connections, request, newRequestId(), isSecure(request.headers));
      inFlight.enter();
      try {
        const answered = answer(context, found);
        return isPromise(answered) ? whenReady(answered, context, found) : leave(answered);
      } catch (bug) {
        return leave(broken(bug, context, found));
      }
    },
    beginDrain() {
      draining = true;
    },
  };
}

interface AddedHeaders {
  /** The origin whose pages may read the answer; null: none. */
  readonly allowed: string | null;
  readonly open: boolean;
  readonly strict: boolean;
}

/** An answer to HEAD still has its body here: the runtime drops it, and sends its length. */
function withHeaders(response: Response, { allowed, open, strict }: AddedHeaders): Response {
  if (allowed !== null) allowOrigin(response.headers, allowed, open);
  if (strict) response.headers.set('Strict-Transport-Security', STRICT_TRANSPORT);
  return response;
}

/** Refusals that no page may read: its origin was refused, or not checked yet. */
const CROSS_SITE: readonly string[] = ['host_denied', 'origin_denied'];

/** Refusals worth a line in the log, because the operator may want to change the configuration. */
const BY_SETTING: readonly string[] = [...CROSS_SITE, 'https_required'];

/** Ids that no two requests share, in this process or another, at the price of counting. */
function requestIds(random: RandomBytes): () => string {
  const prefix = random(6).toHex();
  let count = 0;
  return () => {
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
