// The app: every route with its handler, one line a route, how each answer leaves, and the one catch-all.

import type { Clock, RandomBytes } from './clock.ts';
import type { Config } from './config.ts';
import type { Principals } from './guards/principal.ts';
import { hostGuard, originGuard } from './guards/web.ts';
import { allowOrigin } from './http/cors.ts';
import { createDepartures } from './http/departures.ts';
import { createEventStreams } from './http/event-streams.ts';
import type { Exchange, Peer } from './http/exchange.ts';
import { forwardedFor, forwardedProto } from './http/forwarded.ts';
import { STRICT_TRANSPORT } from './http/headers.ts';
import { problemResponse } from './http/problem-response.ts';
import { createRouter, pathOf, type Route } from './http/router.ts';
import { createInFlight } from './in-flight.ts';
import type { KeyDomain } from './keys/index.ts';
import type { Log } from './log.ts';
import { ALL_VERSIONS } from './mcp/era.ts';
import { createMethods } from './mcp/methods.ts';
import type { Resource, ResourceTemplate } from './mcp/resource.ts';
import { type Awaitable, chain, isPromise, type Problem } from './problem.ts';
import { remembering } from './remembering.ts';
import { aboutRoute } from './routes/about.ts';
import { createAdmission } from './routes/admission.ts';
import { createCallMaker, type NeedsHttps } from './routes/call.ts';
import { healthRoute } from './routes/health.ts';
import { mcpRoute } from './routes/mcp.ts';
import { metadataRoutes, metadataUrl, type ProtectedPath } from './routes/metadata.ts';
import { openapiRoute } from './routes/openapi.ts';
import { createSessions } from './routes/sessions.ts';
import { sseRoutes } from './routes/sse.ts';
import { createToolRunner } from './routes/tool-call.ts';
import { toolsRoute } from './routes/tools.ts';
import { previewRoute } from './routes/widgets.ts';
import { toolsByName } from './tools/by-name.ts';
import type { Tool } from './tools/tool.ts';

export interface AppDeps {
  readonly config: Config;
  /** What clients see, without slash at the end; asked at each use, because the port may be chosen by the system. */
  readonly publicUrl: () => string;
  readonly keyDomain: KeyDomain;
  readonly storeMode: string;
  readonly tools: readonly Tool[];
  readonly resources: readonly Resource[];
  readonly resourceTemplates: readonly ResourceTemplate[];
  readonly principals: Principals;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
}

export interface App {
  fetch(request: Request, peer: Peer): Awaitable<Response>;
  /** From now on answers ask clients to close their connections. */
  beginDrain(): void;
  /** From now on event streams end as soon as their calls are done: the runtime's own stop would wait for them. */
  endStreams(): void;
  /** Resolves when no request is being handled and no tool runs. */
  idle(): Promise<void>;
}

export function createApp(deps: AppDeps): App {
  const { config, publicUrl, keyDomain, log, clock } = deps;
  const { basePath } = config;
  const startedAtMs = clock.monotonicMs();
  const publicPart = (part: 'origin' | 'hostname') => () => new URL(publicUrl())[part];
  const tools = toolsByName(deps.tools);

  const needsHttps: NeedsHttps = ({ secure }) => config.production && !secure;
  const admit = createAdmission({
    checkHost: hostGuard(config.allowedHosts, publicPart('hostname')),
    checkOrigin: originGuard(config.allowedOrigins, publicPart('origin')),
    needsHttps,
  });
  const clientAddress = ({ request, peer }: Exchange): string =>
    (config.trustProxy && forwardedFor(request.headers)) || (peer.address(request) ?? 'unknown');
  const newCall = createCallMaker(clientAddress);
  const about = aboutRoute(publicUrl);
  const health = healthRoute({
    storeMode: deps.storeMode,
    storeOk: keyDomain.verifier.feed.probe,
    lagMs: keyDomain.verifier.feed.lagMs,
    sessions: () => sessions.count,
    protocolVersions: ALL_VERSIONS,
    uptimeMs: () => clock.monotonicMs() - startedAtMs,
  });
  const inFlight = createInFlight();
  const { authorizationServer } = config;
  const publicPath = config.publicUrl === null ? basePath : new URL(config.publicUrl).pathname.replace(/^\/$/, '');
  // Without an authorization server nobody is challenged: OAuth clients would go looking for one here.
  const signInAt = (path: ProtectedPath) => () =>
    authorizationServer === null ? null : metadataUrl(publicUrl(), path);
  const callTools = toolsRoute({ tools, prefix: `${basePath}/tools/`, newCall, needsHttps, metadataUrl: signInAt('') });
  const mcp = {
    methods: createMethods({ ...deps, tools }),
    newCall,
    needsHttps,
    runTool: createToolRunner(log, inFlight),
    streams: createEventStreams(clock),
  };
  const callMcp = mcpRoute({ ...mcp, metadataUrl: signInAt('/mcp'), eager: config.mcpAuth === 'eager' });
  const sessions = createSessions(deps.random);
  const { principals } = deps;
  const sse = sseRoutes({ ...mcp, sessions, principals, publicPath, metadataUrl: signInAt('/sse') });

  const route = createRouter([
    { path: `${basePath}/`, get: about, openToAnyOrigin: true },
    { path: basePath, get: about, openToAnyOrigin: true },
    { path: `${basePath}/tools/*`, ...callTools },
    { path: `${basePath}/mcp`, post: callMcp },
    { path: `${basePath}/sse`, get: sse.open },
    { path: `${basePath}/messages`, post: sse.post },
    { path: `${basePath}/mcp/health`, get: health, openToAnyOrigin: true, anyHost: true },
    { path: `${basePath}/widgets/preview`, get: previewRoute(clock) },
    { path: `${basePath}/openapi.json`, get: openapiRoute(deps.tools, publicUrl), openToAnyOrigin: true },
    ...metadataRoutes({ publicUrl, publicPath, authorizationServer }),
  ]);

  const isSecure = (headers: Headers) =>
    config.tls !== null || (config.trustProxy && forwardedProto(headers) === 'https');

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
    const open = found?.openToAnyOrigin === true; // said to everyone: a cache may keep the answer for a page's request
    const allowed = (origin !== null || open) && readable ? (origin ?? '*') : null;
    const strict = config.production && exchange.secure;
    return allowed === null && !strict ? response : chain(response, withHeaders, { allowed, open, strict });
  }

  function broken(bug: unknown, exchange: Exchange, found: Route | undefined): Response {
    log.error('internal error', { requestId: exchange.requestId, error: bug });
    return refuse(exchange, found, { code: 'internal' });
  }

  const newRequestId = requestIds(deps.random);
  let draining = false;

  function leave(response: Response): Response {
    inFlight.leave();
    if (draining) response.headers.set('Connection', 'close');
    return response;
  }

  const departure = createDepartures();
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
    endStreams: sessions.drain,
    idle: inFlight.idle,
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
