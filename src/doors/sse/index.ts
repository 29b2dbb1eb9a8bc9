// HTTP+SSE: GET /sse and POST /messages, the transport of 2024-11-05 (src/mcp/README.md, Transports). A door: the server
// works without it. It isn't loaded later: Bun closes a connection on which another request follows one that waits.

import type { DoorRoutes } from '../../api/index.ts';
import { createSessions } from './sessions.ts';
import { type SseRouteOptions, sseRoutes } from './sse.ts';

export function openSse() {
  const sessions = createSessions();
  return {
    routes(core: SseRouteOptions): DoorRoutes {
      const { open, post } = sseRoutes(sessions, core);
      return { sse: { get: open, isUnlisted: core.config.reusePort }, messages: { post } };
    },
    count: sessions.count,
    stop: sessions.drain,
  };
}
