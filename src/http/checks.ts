// The checks before any handler, in this order: host, origin, route, method, HTTPS.

import type { Problem } from '../problem.ts';
import type { RequestContext } from './context.ts';
import { preflight } from './cors.ts';
import { carriesCredential, readCredentials } from './credentials.ts';
import type { createHostCheck, createOriginCheck } from './host-origin.ts';
import { allowedMethods, type Handler, type Route } from './router.ts';

export interface RequestChecksOptions {
  readonly checkHost: ReturnType<typeof createHostCheck>;
  readonly checkOrigin: ReturnType<typeof createOriginCheck>;
}

/** What answers a request: the handler of its route, or the first problem. `origin` is its Origin header. */
export type CheckRequest = (
  context: RequestContext,
  found: Route | undefined,
  origin: string | null,
) => Handler | Problem;

export function createRequestChecks({ checkHost, checkOrigin }: RequestChecksOptions): CheckRequest {
  return (context, found, origin) => {
    const { request } = context;
    if (found?.any !== undefined) return isInClear(context) ? { code: 'https_required' } : found.any;
    if (found?.anyHost !== true) {
      const host = hostOf(request);
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
    if (request.method === 'OPTIONS') return preflightOf(found);
    const handler = request.method === 'POST' ? found.post : isRead(request.method) ? found.get : undefined;
    if (handler === undefined) return { code: 'method_not_allowed', allow: allowedMethods(found) };
    return isInClear(context) && found.takesPlainHttp !== true ? { code: 'https_required' } : handler;
  };
}

const isInClear = (context: RequestContext): boolean =>
  !context.acceptsCredentials && carriesCredential(readCredentials(context.request.headers, null));

/**
 * The host name a client used. Null if it sent none over HTTP/1.0: no browser does that, so no page can be behind it.
 */
export const hostOf = ({ headers, url }: Request): string | null =>
  headers.get('host') ?? (URL.canParse(url) ? new URL(url).host : null);

/** An HTTP/1.1 request must name its host (RFC 9112 §3.2). The same bare response as Bun's own. */
const withoutHost: Handler = () => new Response(null, { status: 400, headers: { Connection: 'close' } });

const preflightOf =
  (found: Route): Handler =>
  ({ request }) =>
    preflight(request, allowedMethods(found));

const isRead = (method: string) => method === 'GET' || method === 'HEAD';
