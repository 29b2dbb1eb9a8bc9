// The checks before any handler, in this order: host, origin, route, method, HTTPS. Whether a key came in a body over
// plain HTTP is for the routes to see; its refusal is here.

import { isAddress, isLoopback } from '../lib/ip.ts';
import { memoize } from '../lib/memoize.ts';
import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { RequestContext } from './context.ts';
import { preflight } from './cors.ts';
import { carriesCredential, readCredentials } from './credentials.ts';
import { allowedMethods, type BodyHandler, type Handler, type Route } from './router.ts';

export interface RequestChecksOptions {
  /** Null: loopback, and the host of the public URL. */
  readonly allowedHosts: readonly string[] | null;
  /** Null: those of loopback. That of the public URL always may. */
  readonly allowedOrigins: readonly string[] | null;
  /** Read at each use, because the system may choose the port. */
  readonly publicUrl: () => string;
}

/** What handles a request: a handler of its route, which takes its body if it is a POST, or the first problem. */
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

/**
 * `Host` names this server responds to. DNS rebinding needs a name that an attacker controls and points at us, so IP
 * literals pass. `allowed` are lower-case names without port; null: loopback and the public host.
 */
function createHostCheck(allowed: readonly string[] | null, publicHost: () => string): (host: string) => boolean {
  // Requests repeat the same few hosts, and parsing a URL each time would cost more than the rest of the decision.
  return memoize((host) => {
    const url = NOT_IN_HOST.test(host) ? null : URL.parse(`http://${host}`);
    if (url === null) return false;
    const name = url.hostname.toLowerCase();
    if (isAddress(name)) return true;
    return allowed === null ? isLoopback(name) || name === publicHost() : allowed.includes(name);
  });
}

/** Characters that end the host in a URL, and would leave the rest of the header unread. */
const NOT_IN_HOST = /[/\\?#@]/;

/** Origins whose pages may call; the server's own always may. `null` (sandboxed pages, files) never may. */
function createOriginCheck(allowed: readonly string[] | null, publicOrigin: () => string): (origin: string) => boolean {
  return memoize((origin) => {
    const url = URL.parse(origin);
    if (url === null || !WEB.has(url.protocol) || url.origin !== origin.toLowerCase()) return false;
    if (url.origin === publicOrigin()) return true;
    return allowed === null ? isLoopback(url.hostname) : allowed.includes(url.origin);
  });
}

const WEB = new Set(['http:', 'https:']);

/** True when a credential that the route takes over HTTPS alone came without. */
const isInClear = (context: RequestContext, { takesPlainHttp, takesSecrets }: Route): boolean =>
  !context.acceptsCredentials &&
  takesPlainHttp !== true &&
  (takesSecrets === true || carriesCredential(readCredentials(context.headers, null)));

/** The refusal of a key in a body that came over plain HTTP, which only the route can see, and the line that says so. */
export function refuseInClear(log: Log, { requestId }: RequestContext): Problem {
  log.warn('request refused', { requestId, code: 'https_required' });
  return { code: 'https_required' };
}

/**
 * The host name a client used. Null if it sent none over HTTP/1.0: no browser does that, so no page can be behind it.
 */
export const hostOf = ({ headers, request }: RequestContext): string | null =>
  headers.get('host') ?? URL.parse(request.url)?.host ?? null;

/** An HTTP/1.1 request must name its host (RFC 9112 §3.2). The same bare response as Bun's own. */
const withoutHost: Handler = () => new Response(null, { status: 400, headers: { Connection: 'close' } });

const preflightOf =
  (found: Route): Handler =>
  ({ request }) =>
    preflight(request, allowedMethods(found));

const isRead = (method: string) => method === 'GET' || method === 'HEAD';
