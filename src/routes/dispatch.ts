// Each request on its way through the server: its route found, admitted, answered; how the answer leaves; and the one
// catch-all.

import type { RandomBytes } from '../clock.ts';
import { allowOrigin } from '../http/cors.ts';
import { createDepartures } from '../http/departures.ts';
import type { Exchange, Peer } from '../http/exchange.ts';
import { STRICT_TRANSPORT } from '../http/headers.ts';
import { problemResponse } from '../http/problem-response.ts';
import { createRouter, pathOf, type Route } from '../http/router.ts';
import type { InFlight } from '../in-flight.ts';
import type { Log } from '../log.ts';
import { type Awaitable, chain, isPromise, type Problem } from '../problem.ts';
import { remembering } from '../remembering.ts';
import type { Admit } from './admission.ts';

export interface DispatchOptions {
  readonly routes: readonly Route[];
  readonly admit: Admit;
  readonly isSecure: (headers: Headers) => boolean;
  /** Tell browsers to stay with HTTPS where a request came over it. */
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

  /** `origin` as it was sent; undefined where no page may read the answer. Null: nothing to add. */
  function addedHeaders({ secure }: Exchange, found: Route | undefined, origin?: string | null): AddedHeaders | null {
    const open = found?.openToAnyOrigin === true; // said to everyone: a cache may keep the answer for a page's request
    const allowed = origin === undefined || (origin === null && !open) ? null : (origin ?? '*');
    const strict = strictTransport && secure;
    return allowed === null && !strict ? null : { allowed, open, strict };
  }

  function broken(bug: unknown, exchange: Exchange, found: Route | undefined): Response {
    const { requestId, request } = exchange;
    log.error('internal error', { requestId, error: bug });
    const response = refuse(exchange, found, { code: 'internal' });
    const added = addedHeaders(exchange, found, request.headers.get('origin'));
    return added === null ? response : withHeaders(response, added);
  }

  function leave(response: Response): Response {
    inFlight.leave();
    if (draining) response.headers.set('Connection', 'close');
    return response;
  }

  async function whenReady(answered: Promise<Response>, exchange: Exchange, found: Route | undefined) {
    let response: Response;
    try {
      response = await answered;
    } catch (bug) {
      response = broken(bug, exchange, found);
    }
    // Behind a request of another method a client may send a next one before it has the answer (RFC 9112 §9.3.2).
    if (exchange.request.method === 'POST') await departure();
    return leave(response);
  }

  function find(url: string) {
    const path = pathOf(url);
    return { path, found: route(path) };
  }
  // The same few URLs come with nearly every request; finding the path in each costs more than knowing it. With a query
  // each is another, and would push those out.
  const known = remembering(find);
  const locate = (url: string) => (url.includes('?') ? find(url) : known(url));

  return {
    fetch(request, peer) {
      const { path, found } = locate(request.url);
      const exchange: Exchange = { request, path, requestId: newRequestId(), secure: isSecure(request.headers), peer };
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

/** To the answer to a HEAD too: the runtime keeps the body back, and knows its length. */
function withHeaders(response: Response, { allowed, open, strict }: AddedHeaders): Response {
  if (allowed !== null) allowOrigin(response.headers, allowed, open);
  if (strict) response.headers.set('Strict-Transport-Security', STRICT_TRANSPORT);
  return response;
}

/** Refusals that the page of an unchecked origin may not read. */
const CROSS_SITE: readonly string[] = ['host_denied', 'origin_denied'];

/** Refusals that the operator can end: a host, an origin or a proxy the configuration does not name. */
const BY_SETTING: readonly string[] = [...CROSS_SITE, 'https_required'];

/** Ids that no two requests share, on this process or another, at the cost of a counter. */
function requestIds(random: RandomBytes): () => string {
  const prefix = random(6).toHex();
  let count = 0;
  return () => {
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
