// HTTP+SSE: GET /sse and POST /messages, the transport of 2024-11-05 (src/mcp/README.md, Transports). A door: the server
// works without it. It is loaded with the first stream. Only what needs a stream waits for that: Bun closes a connection on
// which another request follows one that waits.

import type { DoorRoutes } from '../../api/index.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import { invalidInput } from '../../ground/problem.ts';
import type { Awaitable } from '../../ground/result.ts';
import { postedIn } from '../../mcp/http-replies.ts';
import type { Log } from '../../watch/log.ts';
import type { Body } from '../../web/body.ts';
import type { RequestContext } from '../../web/context.ts';
import { problemResponse } from '../../web/problem-response.ts';
import { queryOf } from '../../web/router.ts';
import { EVENT_STREAM_HEADERS } from '../../web/stream.ts';
import type { SseRouteOptions, SseRoutes } from './sse.ts';

const EXPECTED_ID = 'Expected the session id that the stream began with';
const NO_SESSION_ID = invalidInput('sessionId', EXPECTED_ID, EXPECTED_ID);

export function openSse() {
  const lazily = atFirstUse('doors/sse', import.meta.url);
  let loaded: SseRoutes | undefined;
  let isStopped = false;

  function post(context: RequestContext, body: Body, log: Log): Awaitable<Response> {
    const { request, requestId } = context;
    const sessionId = queryOf(request.url).get('sessionId');
    if (!sessionId) return problemResponse(NO_SESSION_ID, requestId);
    if (!loaded?.sessions.has(sessionId)) return problemResponse({ code: 'session_not_found' }, requestId);
    const posted = postedIn(context, body, log);
    if (!posted.ok) return posted.error;
    context.readAhead(); // 202 leaves while the call runs
    return loaded.post(sessionId, context, posted.value);
  }

  return {
    routes(core: SseRouteOptions): DoorRoutes {
      // Several processes share the port, so a POST might not reach the process with the stream.
      const { reusePort } = core.config;
      const load = lazily(async () => {
        const { sseRoutes } = await import('./sse.ts');
        loaded = sseRoutes(core);
        if (isStopped) loaded.sessions.drain();
        return loaded;
      });

      async function get(context: RequestContext): Promise<Response> {
        if (reusePort) return problemResponse({ code: 'sse_unavailable' }, context.requestId);
        if (context.method === 'HEAD') return new Response(null, { headers: EVENT_STREAM_HEADERS });
        const address = context.clientAddress(); // read now: a client that has left has none
        return (await load()).open(context, address);
      }
      return {
        sse: { get, isUnlisted: reusePort },
        messages: { post: (context, body) => post(context, body, core.log), isUnlisted: reusePort },
      };
    },
    count: (): number => loaded?.sessions.count() ?? 0,
    stop(): void {
      isStopped = true;
      loaded?.sessions.drain();
    },
  };
}
