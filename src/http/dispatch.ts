// Takes each request through the server: finds its route, admits it, has it answered, lets the answer leave. The one
// catch-all is here.

import type { InFlight } from '../lib/in-flight.ts';
import { remembering } from '../lib/memoize.ts';
import { type Awaitable, chain, isPromise } from '../lib/result.ts';
import type { RandomBytes } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { Admit } from './checks.ts';
import type { Exchange, Peer } from './context.ts';
import { allowOrigin } from './cors.ts';
import { STRICT_TRANSPORT } from './headers.ts';
import { problemResponse } from './problem-response.ts';
import { createDepartures } from './response-batching.ts';
import { createRouter, pathOf, type Route } from './router.ts';

export interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly admit: Admit;
  readonly isSecure: (headers: Headers) => boolean;
  /** Tell browsers to stay with HTTPS when a request came over it. */
  readonly strictTransport: boolean;
  readonly inFlight: InFlight;
  readonly random: RandomBytes;
  readonly log: Log;
}

export interface Dispatch {
  fetch(request: Request, peer: Peer): Awaitable<Response>;
  /** From now on answers ask clients to close their connections. */
  beginDrain(): void;
}

export function createDispatch(options: DispatchOptions): Dispatch {
  const { admit, isSecure, strictTransport, inFlight, random, log } = options;
  const route = createRouter(options.routes);
  const newRequestId = requestIds(random);
  const departure = createDepartures();
  let draining = false;

  const refuse = (exchange: Exchange, found: Route | undefined, problem: Problem) =>
    found?.refuse?.(exchange, problem) ?? problemResponse(problem, exchange.requestId);

  function turnAway(exchange: Exchange, found: Route | undefined, problem: Problem): Response {
    const { requestId } = exchange;
    if (BY_SETTING.includes(problem.code)) log.warn('request refused', { requestId, code: problem.code });
    return refuse(exchange, found, problem);
  }

  function answer(exchange: Exchange, found: Route | undefined): Awaitable<Response> {
    const origin = exchange.request.headers.get('origin');
    const admitted = admit(exchange, found, origin);
    const response = typeof admitted === 'function' ? admitted(exchange) : turnAway(exchange, found, admitted);
    const readable = typeof admitted === 'function' || !CROSS_SITE.includes(admitted.code);
    const added = addedHeaders(exchange, found, readable ? origin : undefined);
    return added === null ? response : chain(response, withHeaders, added);
  }

  /**
   * `origin` is as it was sent, or undefined if no page may read the answer. Returns null if there is nothing to add.
   */
  function addedHeaders({ secure }: Exchange, found: Route | undefined, origin?: string | null): AddedHeaders | null {
    const open = found?.openToAnyOrigin === true; // added for everyone: a cache may give the answer to a page
    const allowed = origin === undefined || (origin === null && !open) ? null : (origin ?? '*');
    const strict = strictTransport && secure;
    return allowed === null && !strict ? null : { allowed, open, strict };
  }

  function broken(bug: unknown, exchange: Exchange, found: Route | undefined): Response {
    const { requestId } = exchange;
    log.error('internal error', { requestId, error: bug });
    return withAdded(refuse(exchange, found, { code: 'internal' }), exchange, found);
  }

  function withAdded(response: Response, exchange: Exchange, found: Route | undefined): Response {
    const added = addedHeaders(exchange, found, exchange.request.headers.get('origin'));
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
    exchange: Exchange,
    found: Route | undefined,
  ): Promise<Response> {
    try {
      const other = await renewing;
      if (other === undefined) return response;
      void response.body?.cancel(); // gives back what is held for it
      return withAdded(other, exchange, found);
    } catch (bug) {
      return broken(bug, exchange, found);
    }
  }

  async function whenReady(answered: Promise<Response>, exchange: Exchange, found: Route | undefined) {
    let response: Response;
    try {
      response = await answered;
    } catch (bug) {
      response = broken(bug, exchange, found);
    }
    // After any other method a client may send its next request before it has this answer (RFC 9112 §9.3.2).
    if (exchange.request.method === 'POST') await departure();
    const renewing = exchange.perishable?.renew();
    if (renewing !== undefined) response = await renewed(response, renewing, exchange, found);
    return leave(response);
  }

  function find(url: string) {
    const path = pathOf(url);
    return { path, found: route(path) };
  }
  // Nearly all requests are for the same few URLs, and remembering those is quicker than taking them apart. URLs with a
  // query differ each time and would push them out.
  const known = remembering(find);
  const locate = (url: string) => (url.includes('?') ? find(url) : known(url));

  return {
    fetch(request, peer) {
      const { path, found } = locate(request.url);
      const exchange: Exchange = {
        request,
        path,
        requestId: newRequestId(),
        secure: isSecure(request.headers),
        peer,
        perishable: undefined,
      };
      inFlight.enter();
      try {
        const answered = answer(exchange, found);
        return isPromise(answered) ? whenReady(answered, exchange, found) : leave(answered);
      } catch (bug) {
        return leave(broken(bug, exchange, found));
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
