// What the metrics read when their text is made: the feed, sessions, keys that expire, the process.

import type { Feed } from '../keys/feed.ts';
import type { Awaitable } from '../lib/result.ts';
import type { Clock } from '../lib/runtime.ts';
import { SERVER_VERSION } from '../lib/server-info.ts';
import type { Registry } from './prometheus.ts';

const EXPIRING_DAYS = [1, 7, 30];

/** What only the runtime knows of the process. */
export interface ProcessUsage {
  readonly residentBytes: number;
  readonly cpuSeconds: number;
}

export interface GaugeOptions {
  /** How many keys expire within so many days; undefined while that is not known. */
  readonly expiring: (days: number) => Awaitable<number | undefined>;
  readonly feed: Feed;
  readonly lagMaxMs: number;
  /** False while the last write failed for want of space or rights. */
  readonly writable: () => boolean;
  readonly sessions: () => number;
  readonly usage: (() => ProcessUsage) | undefined;
}

export function addGauges(registry: Registry, clock: Clock, options: GaugeOptions): void {
  const { feed, lagMaxMs, writable, sessions, expiring, usage } = options;
  registry.gauge(
    'mcp_keys_feed_lag_seconds',
    'Age of what this process knows of revocations elsewhere; 0 while it is idle, and verifies nothing from memory.',
    [],
    () => [[[], feed.idle ? 0 : (feed.lagMs() ?? Number.POSITIVE_INFINITY) / 1000]],
  );
  registry.gauge('mcp_keys_feed_lag_limit_seconds', 'REVOCATION_LAG_MAX_MS: above it keys are refused.', [], () => [
    [[], lagMaxMs / 1000],
  ]);
  registry.gauge(
    'mcp_keys_store_writable',
    '0 while the last write failed for want of space or rights, else 1.',
    [],
    () => [[[], writable() ? 1 : 0]],
  );
  registry.gauge('mcp_server_sessions', 'Open sessions of /sse.', [], () => [[[], sessions()]]);
  registry.gauge(
    'mcp_keys_expiring',
    'Usable keys that expire within a time, 100000 at most.',
    ['within'],
    async () => {
      const counts = await Promise.all(EXPIRING_DAYS.map(async (days) => [days, await expiring(days)] as const));
      return counts.flatMap(([days, count]) => (count === undefined ? [] : [[[`${days}d`], count] as const]));
    },
  );
  registry.gauge('mcp_server_build_info', 'Always 1; its label is the version.', ['version'], () => [
    [[SERVER_VERSION], 1],
  ]);
  const startedAtS = clock.nowMs() / 1000;
  registry.gauge('process_start_time_seconds', 'When the process started, since the Unix epoch.', [], () => [
    [[], startedAtS],
  ]);
  if (usage === undefined) return;
  registry.gauge('process_resident_memory_bytes', 'Resident memory.', [], () => [[[], usage().residentBytes]]);
  registry.total('process_cpu_seconds_total', 'Processor time, of user and system.', () => usage().cpuSeconds);
}
