// Finds the route of a path, and checks the request before its handler runs. Exact paths are in a Map; a route whose
// path ends in `*` takes the other paths with this prefix. A slash at the end of a path is ignored.

import { memoize } from '../ground/cache.ts';
import { isAddress, isLoopback } from '../ground/ip.ts';
import { OVERLOADED, type Problem } from '../ground/problem.ts';
import type { Awaitable } from '../ground/result.ts';
import type { ServerAddress } from '../ground/server-address.ts';
import { anyOrigin } from '../ground/urls.ts';
import type { Log } from '../watch/log.ts';
import type { Body, BodyKind } from './body.ts';
import { carriesCredential, type RequestContext } from './context.ts';
import { preflight } from './headers.ts';

export type Handler = (context: RequestContext) => Awaitable<Response>;

/** Responds to a POST, whose body has been read. */
export type BodyHandler = (context: RequestContext, body: Body) => Awaitable<Response>;

type Refuse = (context: RequestContext, problem: Problem) => Awaitable<Response>;

export interface Handlers {
  readonly get?: Handler;
  readonly post?: BodyHandler;
  /** The type of the body of `post`, if it isn't the table's. */
  readonly takes?: BodyKind;
  /**
   * Handles every method, for proxies that forward what they were asked: OPTIONS is no preflight, Host and Origin are
   * another server's, so CORS and HSTS are too. Excludes `get` and `post`.
   */
  readonly any?: Handler;
  /** Its calls change no key, whatever credential they have, but by the first use of a new secret. */
  readonly changesNoKeys?: boolean;
  /** The problem that the path gets whatever the method: one that says more than `not_found`, or that any page may read. */
  readonly missing?: Problem;
  /** Creates the response to a refusal before the handler; by default problemResponse. */
  readonly refuse?: Refuse;
}

/** What the table of routes (api/table.ts) says of a route, whatever handles it. */
export interface RouteRules {
  readonly path: string;
  /** The type of the body of `post`; by default JSON. */
  readonly takes?: BodyKind;
  /** Every body contains a credential, so production refuses all requests over plain HTTP but preflights. */
  readonly takesSecrets?: boolean;
  /** Any web page may read the response: it is the same for everyone. */
  readonly openToAnyOrigin?: boolean;
  /** Only services call it: no page may read the response, not even one of an allowed origin. */
  readonly withoutCors?: boolean;
  /** Accepts its credential over plain HTTP even in production: it protects no keys. */
  readonly takesPlainHttp?: boolean;
  /** Accepts any Host, because probes use whatever name they know. */
  readonly anyHost?: boolean;
}

export type Route = Handlers & RouteRules;

/** Creates the function that finds the route of a request's URL. */
export function createRouter(routes: readonly Route[]): (url: string) => Route | undefined {
  const exact = new Map(routes.map((route) => [route.path, route]));
  const prefixes = routes
    .filter(({ path }) => path.endsWith('*'))
    .map((route) => ({ route, prefix: route.path.slice(0, -1) }));
  const withoutSlash = (path: string) => (path.endsWith('/') ? exact.get(path.slice(0, -1)) : undefined);
  const elsewhere = (path: string) =>
    exact.get(path) ?? withoutSlash(path) ?? prefixes.find(({ prefix }) => path.startsWith(prefix))?.route;
  return (url) => {
    const path = pathOf(url);
    return exact.get(path) ?? elsewhere(resolved(path));
  };
}

/** Returns the value of `Allow`. It leaves out OPTIONS, which every path answers for CORS. */
const allowedMethods = ({ get, post }: Route): string =>
  [...(get ? ['GET', 'HEAD'] : []), ...(post ? ['POST'] : [])].join(', ');

/** The length of `https://`, before a host of at least one character. */
const SCHEME_CHARS_MAX = 8;

/** Segments `.` and `..`, and backslashes. */
const NOT_RESOLVED = /\/(?:\.|%2e)|\\/i;

/** Returns the path of a request's URL as it was sent, without the query. */
function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', SCHEME_CHARS_MAX); // a URL without Host is its path
  if (start === -1) return '/';
  const query = url.indexOf('?', start);
  return query === -1 ? url.slice(start) : url.slice(start, query);
}

/**
 * Returns a path with its segments `.` and `..` resolved (WHATWG URL, path state): Bun has done that, for Deno it happens
 * here.
 */
const resolved = (path: string): string =>
  NOT_RESOLVED.test(path) ? new URL(`http://localhost${path}`).pathname : path;

export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}

// The checks, in this order: host, origin, route, method, HTTPS. Routes find a key in a body over plain HTTP, and
// refuse it with refuseInClear.

export interface AllowedNames {
  /** Lower-case names without port. Null: loopback, and the host of the server's address. */
  readonly allowedHosts: readonly string[] | null;
  /** Those of loopback if null. The server's own origin, as the request names it, is always allowed. */
  readonly allowedOrigins: readonly string[] | null;
}

/** Creates the checks. They return the handler of the route (a BodyHandler if the method is POST), or the first problem. */
export function createRequestChecks({ allowedHosts, allowedOrigins }: AllowedNames, address: ServerAddress) {
  const { hostname } = new URL(address.url);
  const isAllowedHost = createHostCheck(allowedHosts, hostname);
  const isAllowedOrigin = createOriginCheck(allowedOrigins);

  /** Returns the refusal of a host that isn't allowed; undefined if it is. */
  function refusalOfHost(context: RequestContext, found: Route | undefined): Handler | Problem | undefined {
    const { host } = context;
    if (found?.anyHost === true || found?.any !== undefined) return isMisleading(context) ? HOST_DENIED : undefined;
    if (context.lacksHost) return withoutHost;
    return host === null || isAllowedHost(host) ? undefined : HOST_DENIED;
  }

  function refusalOfOrigin(context: RequestContext, found: Route | undefined): Problem | undefined {
    const { origin } = context;
    const isOpen = origin === null || found?.openToAnyOrigin === true || found?.any !== undefined;
    return isOpen || isAllowedOrigin(origin) || isOwn(origin, context) ? undefined : { code: 'origin_denied' };
  }

  return (context: RequestContext, found: Route | undefined): BodyHandler | Problem => {
    const refusal = refusalOfHost(context, found) ?? refusalOfOrigin(context, found);
    if (refusal !== undefined) return refusal;
    if (context.isTooLate) return OVERLOADED;
    if (found?.any !== undefined) return unlessInClear(context, found, found.any);
    if (found === undefined) return { code: 'not_found' };
    if (found.missing !== undefined) return found.missing;
    const { method } = context;
    if (method === 'OPTIONS') return preflightOf(found);
    const handler = handlerOf(found, method);
    if (handler === undefined) return { code: 'method_not_allowed', allow: allowedMethods(found) };
    return unlessInClear(context, found, handler);
  };
}

const handlerOf = ({ get, post }: Route, method: string): BodyHandler | undefined =>
  method === 'POST' ? post : isRead(method) ? get : undefined;

const unlessInClear = (context: RequestContext, found: Route, handler: BodyHandler): BodyHandler | Problem =>
  isInClear(context, found) ? { code: 'https_required' } : handler;

/** Creates the check of Host against DNS rebinding. That needs a name that points at this server, so IP literals pass. */
function createHostCheck(allowed: readonly string[] | null, publicHost: string): (host: string) => boolean {
  // Memoized: requests repeat a few hosts, and parsing the URL costs more than the rest of the decision.
  return memoize((host) => {
    const url = NOT_IN_HOST.test(host) ? null : URL.parse(`http://${host}`);
    if (url === null) return false;
    const { hostname: name } = url;
    if (isAddress(name)) return true;
    return allowed === null ? isLoopback(name) || name === publicHost : allowed.includes(name);
  });
}

/** Characters that end the host in a URL, so that what follows would not be checked. */
const NOT_IN_HOST = /[/\\?#@]/;

/**
 * Returns whether the URL continues what begins in Host. Deno writes Host into it as it came: after `a/mcp/health?` the
 * path that was sent is a query, and after `a?b` its query, with the demands of a proxy, is another's. Bun leaves out such
 * a Host.
 */
const isMisleading = ({ request, host }: RequestContext): boolean =>
  host !== null && NOT_IN_HOST.test(host) && !request.url.startsWith('/');

const HOST_DENIED: Problem = { code: 'host_denied' };

/** Creates the check of Origin. `null` (sandboxed pages, files) is never allowed. */
function createOriginCheck(allowed: readonly string[] | null): (origin: string) => boolean {
  return memoize((origin) => {
    const known = anyOrigin(origin);
    if (known === null) return false;
    return allowed === null ? isLoopbackPage(known) : allowed.includes(known);
  });
}

/** Returns whether this server served the page that sent the request, under the name that the request used. */
const isOwn = (origin: string, { publicUrl }: RequestContext): boolean =>
  origin.toLowerCase() === new URL(publicUrl).origin;

const isLoopbackPage = (origin: string): boolean => /^https?:/.test(origin) && isLoopback(new URL(origin).hostname);

/** Returns whether a credential came over plain HTTP to a route that accepts it only over HTTPS. */
const isInClear = (context: RequestContext, { takesPlainHttp, takesSecrets }: Route): boolean =>
  !context.acceptsCredentials &&
  takesPlainHttp !== true &&
  (takesSecrets === true || carriesCredential(context.credentials));

/** Refuses a key that a route found in a body over plain HTTP, and logs the refusal. */
export function refuseInClear(log: Log, { requestId }: RequestContext): Problem {
  log.warn('request refused', { requestId, code: 'https_required' });
  return { code: 'https_required' };
}

/** Refuses an HTTP/1.1 request that does not name its host (RFC 9112 §3.2), with the bare response of Bun itself. */
const withoutHost: Handler = () => new Response(null, { status: 400, headers: { Connection: 'close' } });

const preflightOf =
  (found: Route): Handler =>
  ({ request }) =>
    preflight(request, allowedMethods(found), found.withoutCors !== true);

const isRead = (method: string) => method === 'GET' || method === 'HEAD';
