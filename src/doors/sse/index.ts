// HTTP+SSE: GET /sse and POST /messages, the transport of 2024-11-05 (src/mcp/README.md, Transports). A door: the server
// works without it.

import type { DoorRoutes } from '../../api/index.ts';
import { createSessions } from './sessions.ts';
import { type SseRouteOptions, sseRoutes, sseUnavailable } from './sse.ts';

interface SseOptions extends Omit<SseRouteOptions, 'sessions' | 'publicPath'> {
  readonly address: { readonly path: string };
  /** `reusePort`: several processes share the port, so a POST may not reach its stream. */
  readonly config: { readonly reusePort: boolean };
}

export interface SseDoor {
  routes(core: SseOptions): DoorRoutes;
  /** Returns the number of open sessions. */
  count(): number;
  /** Ends each session as soon as it has no calls in progress, and opens no more. */
  stop(): void;
}

export function openSse(): SseDoor {
  const sessions = createSessions();
  return {
    routes(core) {
      const { open, post } = sseRoutes({ ...core, publicPath: core.address.path, sessions });
      const sse = core.config.reusePort ? { get: sseUnavailable, isUnlisted: true } : { get: open };
      return { sse, messages: { post } };
    },
    count: () => sessions.count,
    stop: sessions.drain,
  };
}
