// Finds the route of a path. Exact paths are in a Map; a route whose path ends in `*` takes the other paths with this
// prefix. A slash at the end of a path is ignored.

import type { Problem } from '../ground/problem.ts';
import type { Awaitable } from '../ground/result.ts';
import type { Body, BodyKind } from './body.ts';
import type { RequestContext } from './context.ts';

export type Handler = (context: RequestContext) => Awaitable<Response>;

/** For a POST, whose body has been read. */
export type BodyHandler = (context: RequestContext, body: Body) => Awaitable<Response>;

export type Refuse = (context: RequestContext, problem: Problem) => Awaitable<Response>;

export interface Route {
  readonly path: string;
  readonly get?: Handler;
  readonly post?: BodyHandler;
  /** The body of `post`; JSON unless given. */
  readonly takes?: BodyKind;
  /** Every body holds a credential, so POST is refused over plain HTTP in production. */
  readonly takesSecrets?: boolean;
  /**
   * Takes every method, for proxies that forward what they were asked: OPTIONS is no preflight, Host and Origin are
   * another server's, and CORS and HSTS are not ours to answer. Excludes `get` and `post`.
   */
  readonly any?: Handler;
  /** The problem for paths where nothing is, more precise than `not_found`. */
  readonly missing?: Problem;
  /** The response to a refusal before the handler; problemResponse unless given. */
  readonly refuse?: Refuse;
  /** Any web page may read it: it says the same to everyone. */
  readonly openToAnyOrigin?: boolean;
  /** Takes its credential over plain HTTP in production too: it guards no keys. */
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

/** For `Allow`. OPTIONS is not named: every path responds to it, for CORS. */
export const allowedMethods = ({ get, post }: Route): string =>
  [...(get ? ['GET', 'HEAD'] : []), ...(post ? ['POST'] : [])].join(', ');

/** `https://`, before a host of at least one character. */
const SCHEME_CHARS_MAX = 8;

/** The path of a request's URL as sent: not decoded, not normalized, without the query. */
export function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', SCHEME_CHARS_MAX); // a URL without Host is its path
  if (start === -1) return '/';
  const query = url.indexOf('?', start);
  return query === -1 ? url.slice(start) : url.slice(start, query);
}

export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}
