// GET /mcp/health: responds to readiness probes with 200, or with 503 while the store is out of reach.

import type { ReachedPosition } from '../ground/change-feed.ts';
import { RETRY_UNAVAILABLE_S } from '../ground/problem.ts';
import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import type { Feed } from '../keys/feed.ts';
import { ALL_VERSIONS } from '../mcp/era.ts';
import { json } from '../web/headers.ts';
import type { Handler } from '../web/router.ts';

interface HealthOptions {
  /** Random for each process, and the start of its request ids. */
  readonly instance: string;
  readonly store: {
    readonly mode: string;
    /** Returns false if the last write failed for lack of space or rights. Known keys still verify. */
    readonly writable: () => boolean;
    readonly replicaState?: ((reached: ReachedPosition) => Promise<string>) | undefined;
  };
  readonly feed: Pick<Feed, 'probe' | 'lagMs' | 'position'>;
  readonly sessions: () => number;
  readonly uptimeMs: () => number;
}

export function healthRoute(options: HealthOptions): Handler {
  const { store, feed, sessions, instance, uptimeMs } = options;
  return async () => {
    const ok = await feed.probe();
    const replica = await store.replicaState?.(feed.position); // after the poll, whose position it should have reached
    const response = json(ok ? 200 : 503, {
      status: ok ? 'ok' : 'unavailable',
      name: SERVER_NAME,
      version: SERVER_VERSION,
      uptimeSeconds: Math.floor(uptimeMs() / 1000),
      protocolVersions: ALL_VERSIONS,
      store: { mode: store.mode, ok, writable: store.writable(), lagMs: feed.lagMs(), replica },
      sessions: sessions(),
      instance,
    });
    if (!ok) response.headers.set('Retry-After', String(RETRY_UNAVAILABLE_S));
    return response;
  };
}
