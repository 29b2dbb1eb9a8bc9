// Reads the gauges at each scrape: the feed, sessions, keys that expire, the certificate, the process.

import { outageIn } from '../../ground/result.ts';
import { type Clock, MS_PER_DAY, withTimeout } from '../../ground/runtime.ts';
import { SERVER_VERSION } from '../../ground/server-info.ts';
import type { Feed } from '../../keys/feed.ts';
import type { KeyStore } from '../../keys/store.ts';
import type { Sample } from './series.ts';

const EXPIRING_DAYS = [1, 7, 30];
const COUNT_EVERY_MS = 60_000;
/**
 * A scrape waits this long for a count, so that it succeeds during an outage. Prometheus's own timeout is 10 s by
 * default.
 */
const COUNT_WAIT_MS_MAX = 500;

export interface ProcessUsage {
  readonly residentBytes: number;
  readonly cpuSeconds: number;
}

export interface GaugeOptions {
  readonly store: KeyStore;
  readonly feed: Feed;
  readonly config: { readonly revocationLagMaxMs: number };
  /** `writable`: returns false if the last write failed for lack of space or rights. */
  readonly database: { readonly writable: () => boolean };
  readonly sessions: () => number;
  /** Returns how many spans were dropped; undefined where none are sent. */
  readonly spansDropped: (() => number) | undefined;
  readonly measureProcess: (() => ProcessUsage) | undefined;
  /** When the certificate of the server's own TLS ends, in milliseconds since 1970; undefined without TLS. */
  readonly certificateEndsAtMs: number | undefined;
}

export function createGauges(clock: Clock, options: GaugeOptions): () => Promise<readonly Sample[]> {
  const { config, store, database, feed, sessions, spansDropped, measureProcess, certificateEndsAtMs } = options;
  const expiring = createExpiring(store, clock);
  const startedAtMs = clock.nowMs();
  return async () => {
    const { residentBytes, cpuSeconds } = measureProcess?.() ?? {};
    const counted = await expiring();
    const samples: readonly (readonly [Sample[0], number | undefined, Sample[2]?])[] = [
      ['mcp_keys_feed_lag_seconds', feed.idle ? 0 : (feed.lagMs() ?? Number.POSITIVE_INFINITY) / 1000],
      ['mcp_keys_feed_lag_limit_seconds', config.revocationLagMaxMs / 1000],
      ['mcp_keys_store_writable', Number(database.writable())],
      ['mcp_server_sessions', sessions()],
      ['mcp_keys_spans_dropped_total', spansDropped?.()],
      ...EXPIRING_DAYS.map((days, at) => ['mcp_keys_expiring', counted?.[at], { within: `${days}d` }] as const),
      ['mcp_server_certificate_end_time_seconds', certificateEndsAtMs && certificateEndsAtMs / 1000],
      ['mcp_server_build_info', 1, { version: SERVER_VERSION }],
      ['process_start_time_seconds', startedAtMs / 1000],
      ['process_resident_memory_bytes', residentBytes],
      ['process_cpu_seconds_total', cpuSeconds],
    ];
    return samples.flatMap(([metric, value, labels]) => (value === undefined ? [] : [[metric, value, labels ?? {}]]));
  };
}

/**
 * Creates a function that counts the keys that expire within each of EXPIRING_DAYS. It resolves with the last counts;
 * undefined before the first.
 */
function createExpiring({ countExpiring }: KeyStore, clock: Clock) {
  let last: readonly number[] | undefined;
  let asking: Promise<readonly number[] | undefined> | undefined;
  let askedAtMs = 0;

  async function ask(): Promise<readonly number[] | undefined> {
    const nowMs = clock.nowMs();
    const times = EXPIRING_DAYS.map((days) => nowMs + days * MS_PER_DAY);
    const counts = await countExpiring(nowMs, times).catch(outageIn);
    if (Array.isArray(counts)) last = counts;
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
