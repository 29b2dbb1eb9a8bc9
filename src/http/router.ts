// Finds the route of a path. Exact paths are in a Map; a route whose path ends in `*` takes every other path that begins
// with it. A slash at the end of a path is ignored.

import type { Awaitable } from '../lib/result.ts';
import type { Problem } from '../problem.ts';
import type { Body, BodyKind } from './body.ts';
import type { RequestContext } from './context.ts';

export type Handler = (context: RequestContext) => Awaitable<Response>;

/** Of a POST, whose body was read before. */
export type BodyHandler = (context: RequestContext, body: Body) => Awaitable<Response>;

/** Turns a refusal into a response. */
export type Refuse = (context: RequestContext, problem: Problem) => Response;

export interface Route {
  readonly path: string;
  readonly get?: Handler;
  readonly post?: BodyHandler;
  /** What `post` takes; JSON unless given. */
  readonly takes?: BodyKind;
  /** Every body holds a credential: none is read over plain HTTP in production. */
  readonly takesSecrets?: boolean;
  /**
   * Takes every method, from proxies that send on what they were asked: OPTIONS is not a preflight, Host and Origin are
   * another server's, and so are the pages that may read the response. Alone, without `get` and `post`.
   */
  readonly any?: Handler;
  /** There is nothing at these paths, and this says so better than `not_found`. */
  readonly missing?: Problem;
  /** The response to what is refused before the handler; problemResponse unless given. */
  readonly refuse?: Refuse;
  /** Any web page may read it: it says the same to everyone. */
  readonly openToAnyOrigin?: boolean;
  /** Takes its credential over plain HTTP, in production too: it guards no keys. */
  readonly takesPlainHttp?: boolean;
  /** Responds to any Host: probes use whatever name they know. */
  readonly anyHost?: boolean;
}

export function createRouter(routes: readonly Route[]): (path: string) => Route | undefined {
  const exact = new Map(routes.map((route) => [route.path, route]));
  const prefixes = routes
    .filter(({ path }) => path.endsWith('*'))
    .map((route) => ({ route, prefix: route.path.slice(0, -1) }));
  const withoutSlash = (path: string) => (path.endsWith('/') ? exact.get(path.slice(0, -1)) : undefined);
  return (path) =>
    exact.get(path) ?? withoutSlash(path) ?? prefixes.find(({ prefix }) => path.startsWith(prefix))?.route;
}

/** The methods of a route, for `Allow`. OPTIONS is not named: every path responds to it, for CORS. */
export const allowedMethods = ({ get, post }: Route): string =>
  [...(get ? ['GET', 'HEAD'] : []), ...(post ? ['POST'] : [])].join(', ');

/** `https://`: what stands before a host, which has at least one character. */
const SCHEME_CHARS_MAX = 8;

/** The path of a request's URL as it was sent: no decoding, no normalizing, no query. */
export function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', SCHEME_CHARS_MAX); // a URL without Host is its path
  if (start === -1) return '/';
  const query = url.indexOf('?', start);
  return query === -1 ? url.slice(start) : url.slice(start, query);
}

/** The query of a request's URL. */
export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}
