// HTTP+SSE: GET /sse and POST /messages, the transport of 2024-11-05 (src/mcp/README.md, Transports). A door: the server
// works without it. It is loaded at its first use.

import type { DoorRoutes } from '../../api/index.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import type { Sessions } from './sessions.ts';
import type { SseRouteOptions } from './sse.ts';

export interface SseDoor {
  routes(core: SseRouteOptions): DoorRoutes;
  /** Returns the number of open sessions. */
  count(): number;
  /** Ends each session as soon as it has no calls in progress, and opens no more. */
  stop(): void;
}

export function openSse(): SseDoor {
  const lazily = atFirstUse('doors/sse', import.meta.url);
  let sessions: Sessions | undefined;
  let isStopped = false;
  return {
    routes(core) {
      const load = lazily(async () => {
        const [{ createSessions }, { sseRoutes }] = await Promise.all([import('./sessions.ts'), import('./sse.ts')]);
        sessions = createSessions();
        if (isStopped) sessions.drain();
        return sseRoutes(sessions, core);
      });
      return {
        sse: { get: async (context) => (await load()).open(context), isUnlisted: core.config.reusePort },
        messages: { post: async (context, body) => (await load()).post(context, body) },
      };
    },
    count: () => sessions?.count ?? 0,
    stop() {
      isStopped = true;
      sessions?.drain();
    },
  };
}
