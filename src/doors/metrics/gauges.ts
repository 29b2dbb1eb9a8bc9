// Reads the gauges at each scrape: the feed, sessions, keys that expire, the certificate, the process.

import { outageIn } from '../../ground/result.ts';
import { type Clock, MS_PER_DAY, withTimeout } from '../../ground/runtime.ts';
import { SERVER_VERSION } from '../../ground/server-info.ts';
import type { Feed } from '../../keys/feed.ts';
import type { Database, StoreOf } from '../../store/database.ts';
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
  readonly storeOf: StoreOf;
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
  const { config, storeOf, database, feed, sessions, spansDropped, measureProcess, certificateEndsAtMs } = options;
  const expiring = createExpiring(storeOf(expiringStore), clock);
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

/** Every process reads so many rows a minute, and a larger figure would change no decision. */
const COUNTED_MAX = 1000;

/** Selects the soonest expiries, from which the count for each time follows. */
const EXPIRING = `SELECT expires_at_ms FROM api_keys WHERE active = 1 AND expires_at_ms IS NOT NULL
AND expires_at_ms BETWEEN ? AND ? ORDER BY expires_at_ms LIMIT ${COUNTED_MAX}`;

const expiringStore = (db: Database) => ({
  /** Returns how many usable keys expire by each of these times, in their order, each count capped at `COUNTED_MAX`. */
  async countExpiring(nowMs: number, byMs: readonly number[]): Promise<readonly number[]> {
    const soonest = await db.read({ sql: EXPIRING, args: [nowMs, Math.max(...byMs)] });
    return byMs.map((by) => soonest.filter(({ expires_at_ms: at }) => Number(at) <= by).length);
  },
});

/**
 * Creates a function that counts the keys that expire within each of EXPIRING_DAYS. It resolves with the last counts;
 * undefined before the first.
 */
function createExpiring({ countExpiring }: ReturnType<typeof expiringStore>, clock: Clock) {
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
