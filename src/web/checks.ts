// The checks before any handler, in this order: host, origin, route, method, HTTPS. A key in a body over plain HTTP is
// found by the routes, and refused with refuseInClear.

import { isAddress, isLoopback } from '../ground/ip.ts';
import { memoize } from '../ground/memoize.ts';
import type { Problem } from '../ground/problem.ts';
import type { Log } from '../watch/log.ts';
import type { RequestContext } from './context.ts';
import { preflight } from './cors.ts';
import { carriesCredential } from './credentials.ts';
import { allowedMethods, type BodyHandler, type Handler, type Route } from './router.ts';

export interface RequestChecksOptions {
  /** Lower-case names without port. Null: loopback, and the host of the public URL. */
  readonly allowedHosts: readonly string[] | null;
  /** Null: those of loopback. The public URL's is always allowed. */
  readonly allowedOrigins: readonly string[] | null;
  /** Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
}

/** The handler of the route (a BodyHandler if the method is POST), or the first problem. */
export type CheckRequest = (context: RequestContext, found: Route | undefined) => BodyHandler | Problem;

export function createRequestChecks(options: RequestChecksOptions): CheckRequest {
  const { allowedHosts, allowedOrigins, publicUrl } = options;
  const isAllowedHost = createHostCheck(allowedHosts, () => new URL(publicUrl()).hostname);
  const isAllowedOrigin = createOriginCheck(allowedOrigins, () => new URL(publicUrl()).origin);
  return (context, found) => {
    const { request, origin } = context;
    if (found?.any !== undefined) return isInClear(context, found) ? { code: 'https_required' } : found.any;
    if (found?.anyHost !== true) {
      const host = hostOf(context);
      if (context.lacksHost) return withoutHost;
      if (host !== null && !isAllowedHost(host)) return { code: 'host_denied' };
    }
    if (origin !== null && found?.openToAnyOrigin !== true && !isAllowedOrigin(origin)) {
      return { code: 'origin_denied' };
    }
    if (found === undefined) return { code: 'not_found' };
    if (found.missing !== undefined) return found.missing;
    const { method } = request;
    if (method === 'OPTIONS') return preflightOf(found);
    const handler = method === 'POST' ? found.post : isRead(method) ? found.get : undefined;
    if (handler === undefined) return { code: 'method_not_allowed', allow: allowedMethods(found) };
    return isInClear(context, found) ? { code: 'https_required' } : handler;
  };
}

/** DNS rebinding needs a name that an attacker controls and points at this server, so IP literals pass. */
function createHostCheck(allowed: readonly string[] | null, publicHost: () => string): (host: string) => boolean {
  // Requests repeat a few hosts, and parsing the URL costs more than the rest of the decision.
  return memoize((host) => {
    const url = NOT_IN_HOST.test(host) ? null : URL.parse(`http://${host}`);
    if (url === null) return false;
    const name = url.hostname.toLowerCase();
    if (isAddress(name)) return true;
    return allowed === null ? isLoopback(name) || name === publicHost() : allowed.includes(name);
  });
}

/** Characters that end the host in a URL: what follows would not be checked. */
const NOT_IN_HOST = /[/\\?#@]/;

/** `null` (sandboxed pages, files) is never allowed. */
function createOriginCheck(allowed: readonly string[] | null, publicOrigin: () => string): (origin: string) => boolean {
  return memoize((origin) => {
    const url = URL.parse(origin);
    if (url === null || !WEB.has(url.protocol) || url.origin !== origin.toLowerCase()) return false;
    if (url.origin === publicOrigin()) return true;
    return allowed === null ? isLoopback(url.hostname) : allowed.includes(url.origin);
  });
}

const WEB = new Set(['http:', 'https:']);

/** True when a credential came over plain HTTP to a route that takes it over HTTPS only. */
const isInClear = (context: RequestContext, { takesPlainHttp, takesSecrets }: Route): boolean =>
  !context.acceptsCredentials &&
  takesPlainHttp !== true &&
  (takesSecrets === true || carriesCredential(context.credentials));

/** Refuses a key that a route found in a body over plain HTTP, and logs it. */
export function refuseInClear(log: Log, { requestId }: RequestContext): Problem {
  log.warn('request refused', { requestId, code: 'https_required' });
  return { code: 'https_required' };
}

/** The host a client named. Null if it sent none over HTTP/1.0: no browser does that, so no page is behind it. */
export const hostOf = ({ headers, request }: RequestContext): string | null =>
  headers.get('host') ?? URL.parse(request.url)?.host ?? null;

/** An HTTP/1.1 request must name its host (RFC 9112 §3.2). The same bare response as Bun's own. */
const withoutHost: Handler = () => new Response(null, { status: 400, headers: { Connection: 'close' } });

const preflightOf =
  (found: Route): Handler =>
  ({ request }) =>
    preflight(request, allowedMethods(found));

const isRead = (method: string) => method === 'GET' || method === 'HEAD';
