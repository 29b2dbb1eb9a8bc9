// The checks before any handler, in this order: host, origin, route, method, HTTPS. Whether a key came in a body over
// plain HTTP is for the routes to see; its refusal is here.

import type { Log } from '../log/log.ts';
import type { Problem } from '../problem.ts';
import type { RequestContext } from './context.ts';
import { preflight } from './cors.ts';
import { carriesCredential, readCredentials } from './credentials.ts';
import { createHostCheck, createOriginCheck } from './host-origin.ts';
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
  const checkHost = createHostCheck(allowedHosts, () => new URL(publicUrl()).hostname);
  const checkOrigin = createOriginCheck(allowedOrigins, () => new URL(publicUrl()).origin);
  return (context, found) => {
    const { request, origin } = context;
    if (found?.any !== undefined) return isInClear(context, found) ? { code: 'https_required' } : found.any;
    if (found?.anyHost !== true) {
      const host = hostOf(context);
      if (context.lacksHost) return withoutHost;
      const allowed = host === null ? null : checkHost(host);
      if (allowed?.ok === false) return allowed.error;
    }
    if (origin !== null && found?.openToAnyOrigin !== true) {
      const allowed = checkOrigin(origin);
      if (!allowed.ok) return allowed.error;
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
