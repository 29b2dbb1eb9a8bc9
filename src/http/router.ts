// Which route a path belongs to. Exact paths in a Map; a route whose path ends in `*` takes what begins like it.

import type { Awaitable, Problem } from '../problem.ts';
import type { Exchange } from './exchange.ts';

export type Handler = (exchange: Exchange) => Awaitable<Response>;

/** How a route says no. */
export type Refuse = (exchange: Exchange, problem: Problem) => Response;

export interface Route {
  readonly path: string;
  readonly get?: Handler;
  readonly post?: Handler;
  /** For a route of many paths: why there is nothing at this one, or null. Without it every such path is there. */
  readonly absent?: (exchange: Exchange) => Problem | null;
  /** For refusals before the handler; problemResponse unless given. */
  readonly refuse?: Refuse;
  /** Any web page may read it: it says the same to everyone. */
  readonly openToAnyOrigin?: boolean;
  /** Probes reach it by whatever name they know. */
  readonly anyHost?: boolean;
}

export function createRouter(routes: readonly Route[]): (path: string) => Route | undefined {
  const exact = new Map(routes.map((route) => [route.path, route]));
  const prefixes = routes
    .filter(({ path }) => path.endsWith('*'))
    .map((route) => ({ route, prefix: route.path.slice(0, -1) }));
  return (path) => exact.get(path) ?? prefixes.find(({ prefix }) => path.startsWith(prefix))?.route;
}

/** The methods of a route, for `Allow`. OPTIONS is not named: every path answers it, for CORS. */
export const allowedMethods = ({ get, post }: Route): string =>
  [...(get ? ['GET', 'HEAD'] : []), ...(post ? ['POST'] : [])].join(', ');

/** The path of a request's URL as it was sent: no decoding, no normalizing, no query. */
export function pathOf(url: string): string {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('//') + 2); // a URL without Host is its path
  if (start === -1) return '/';
  const query = url.indexOf('?', start);
  return query === -1 ? url.slice(start) : url.slice(start, query);
}

/** The query of a request's URL. */
export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}
