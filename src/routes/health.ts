// GET /mcp/health: whether this process can do its work (readiness), 200 or 503.

import { UNCACHED_JSON_HEADERS } from '../http/headers.ts';
import type { Handler } from '../http/router.ts';
import type { Awaitable } from '../lib/result.ts';
import { SERVER_NAME, SERVER_VERSION } from '../lib/server-info.ts';
import { ALL_VERSIONS } from '../mcp/era.ts';
import { RETRY_UNAVAILABLE_S } from '../problem.ts';

export interface HealthOptions {
  /** Random for each process; its request ids begin with it. */
  readonly instance: string;
  readonly storeMode: string;
  /** Whether the store responds, as of a moment ago: anybody may ask, as often as they like. */
  readonly storeOk: () => Awaitable<boolean>;
  /** False while the last write failed for want of space or rights; known keys verify nevertheless. */
  readonly writable: () => boolean;
  readonly lagMs: () => number | null;
  /** What a replica does, if there is one. */
  readonly replicaState: (() => Promise<string>) | undefined;
  readonly sessions: () => number;
  readonly uptimeMs: () => number;
}

export function healthRoute(options: HealthOptions): Handler {
  return async () => {
    const storeOk = await options.storeOk();
    const replica = await options.replicaState?.(); // after the poll: it says what the replica should have
    const body = {
      status: storeOk ? 'ok' : 'unavailable',
      name: SERVER_NAME,
      version: SERVER_VERSION,
      uptimeSeconds: Math.floor(options.uptimeMs() / 1000),
      protocolVersions: ALL_VERSIONS,
      store: { mode: options.storeMode, ok: storeOk, writable: options.writable(), lagMs: options.lagMs(), replica },
      sessions: options.sessions(),
      instance: options.instance,
    };
    return new Response(JSON.stringify(body), {
      status: storeOk ? 200 : 503,
      headers: storeOk
        ? UNCACHED_JSON_HEADERS
        : { ...UNCACHED_JSON_HEADERS, 'Retry-After': String(RETRY_UNAVAILABLE_S) },
    });
  };
}
