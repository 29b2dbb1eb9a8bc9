// What the metrics read when their text is made: the feed, sessions, keys that expire, the process.

import type { AdminStore } from '../keys/admin.ts';
import type { Feed } from '../keys/feed.ts';
import { MS_PER_DAY } from '../lib/duration.ts';
import type { Clock } from '../lib/runtime.ts';
import { SERVER_VERSION } from '../lib/server-info.ts';
import { withTimeout } from '../lib/timeout.ts';
import type { GaugeValue, Registry } from './prometheus.ts';

const EXPIRING_DAYS = [1, 7, 30];
const COUNT_EVERY_MS = 60_000;
/** A scrape waits this long for a count, to succeed while the database is away. Its own timeout is 10 s by default. */
const COUNT_WAIT_MS_MAX = 500;

export interface ProcessUsage {
  readonly residentBytes: number;
  readonly cpuSeconds: number;
}

export interface GaugeOptions {
  readonly adminStore: AdminStore;
  readonly feed: Feed;
  readonly lagMaxMs: number;
  /** False while the last write failed for want of space or rights. */
  readonly writable: () => boolean;
  readonly sessions: () => number;
  readonly usage: (() => ProcessUsage) | undefined;
  /** Of the server's own TLS. */
  readonly certificateEndsAtMs: number | undefined;
}

export function addGauges(registry: Registry, clock: Clock, options: GaugeOptions): void {
  const { adminStore, feed, lagMaxMs, writable, sessions, usage, certificateEndsAtMs: endMs } = options;
  registry.single(
    'mcp_keys_feed_lag_seconds',
    'Age of what this process knows of revocations elsewhere; 0 while it is idle, and verifies nothing from memory.',
    () => (feed.idle ? 0 : (feed.lagMs() ?? Number.POSITIVE_INFINITY) / 1000),
  );
  const lagMaxS = lagMaxMs / 1000;
  registry.single(
    'mcp_keys_feed_lag_limit_seconds',
    'REVOCATION_LAG_MAX_MS: above it keys are refused.',
    () => lagMaxS,
  );
  registry.single('mcp_keys_store_writable', '0 while the last write failed for want of space or rights, else 1.', () =>
    Number(writable()),
  );
  registry.single('mcp_server_sessions', 'Open sessions of /sse.', sessions);
  const expiring = EXPIRING_DAYS.map((days) => createExpiring(adminStore, days, clock));
  registry.gauge('mcp_keys_expiring', 'Usable keys that expire within a time, 100000 at most.', ['within'], async () =>
    (await Promise.all(expiring.map((read) => read()))).flat(),
  );
  registry.gauge('mcp_server_build_info', 'Always 1; its label is the version.', ['version'], () => [
    [[SERVER_VERSION], 1],
  ]);
  const startedAtS = clock.nowMs() / 1000;
  registry.single('process_start_time_seconds', 'When the process started, since the Unix epoch.', () => startedAtS);
  if (endMs !== undefined) {
    const help = 'When the certificate ends, since the Unix epoch; with TLS_CERT_FILE.';
    registry.single('mcp_server_certificate_end_time_seconds', help, () => endMs / 1000);
  }
  if (usage === undefined) return;
  registry.single('process_resident_memory_bytes', 'Resident memory.', () => usage().residentBytes);
  const cpuSeconds = () => usage().cpuSeconds;
  registry.single('process_cpu_seconds_total', 'Processor time, of user and system.', cpuSeconds, 'counter');
}

/** Keys that expire within so many days, as last counted; nothing before the first count. */
function createExpiring({ countExpiring }: AdminStore, days: number, clock: Clock) {
  let last: readonly GaugeValue[] = [];
  let asking: Promise<readonly GaugeValue[]> | undefined;
  let askedAtMs = 0;

  async function ask(): Promise<readonly GaugeValue[]> {
    const nowMs = clock.nowMs();
    const counted = await countExpiring(nowMs, nowMs + days * MS_PER_DAY);
    if (counted.ok) last = [[[`${days}d`], counted.value]];
    return last;
  }

  return () => {
    const nowMs = clock.monotonicMs();
    if (asking === undefined || nowMs - askedAtMs >= COUNT_EVERY_MS) {
      askedAtMs = nowMs;
      asking = ask();
    }
    return withTimeout(asking, COUNT_WAIT_MS_MAX, last);
  };
}
