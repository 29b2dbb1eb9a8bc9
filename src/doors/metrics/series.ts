// Defines all metrics in one table, keeps their series, and writes them as text for scrapers (Prometheus exposition
// format 0.0.4). Names follow Prometheus, and OpenTelemetry's conventions for MCP servers.

interface Family {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** The upper bounds of a histogram's buckets, in seconds. */
  readonly bounds?: readonly number[];
}

export const METRICS = {
  mcp_server_operation_duration_seconds: {
    type: 'histogram',
    help: 'Tool calls over REST, and MCP requests, by how they ended.',
    // Calls decided in memory take some 20 µs; a tool may take a minute.
    bounds: [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60],
  },
  mcp_keys_verifications_total: {
    type: 'counter',
    help: 'API keys verified: from memory, after a look into the store, refused, or not decided.',
  },
  mcp_keys_tokens_total: {
    type: 'counter',
    help: 'Tokens of workloads: remembered, verified, refused, or not decided since an issuer was away.',
  },
  mcp_keys_refused_total: { type: 'counter', help: 'Calls that guards refused.' },
  mcp_keys_store_duration_seconds: {
    type: 'histogram',
    help: 'Questions to the store, by operation.',
    bounds: [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
  },
  mcp_keys_feed_lag_seconds: {
    type: 'gauge',
    help: 'Age of what this process knows of revocations elsewhere; 0 while it is idle, and verifies nothing from memory.',
  },
  mcp_keys_feed_lag_limit_seconds: { type: 'gauge', help: 'REVOCATION_LAG_MAX_MS: above it keys are refused.' },
  mcp_keys_store_writable: {
    type: 'gauge',
    help: '0 while the last write failed for want of space or rights, else 1.',
  },
  mcp_keys_expiring: { type: 'gauge', help: 'Usable keys that expire within a time, 1000 at most.' },
  mcp_keys_spans_dropped_total: { type: 'counter', help: 'Spans that could not be sent.' },
  mcp_server_sessions: { type: 'gauge', help: 'Open sessions of /sse.' },
  mcp_server_certificate_end_time_seconds: {
    type: 'gauge',
    help: 'When the certificate of TLS_CERT_FILE ends, since the Unix epoch.',
  },
  mcp_server_build_info: { type: 'gauge', help: 'Always 1; its label is the version.' },
  process_start_time_seconds: { type: 'gauge', help: 'When the process started, since the Unix epoch.' },
  process_resident_memory_bytes: { type: 'gauge', help: 'Resident memory.' },
  process_cpu_seconds_total: { type: 'counter', help: 'Processor time, of user and system.' },
} as const satisfies Readonly<Record<string, Family>>;

type Metric = keyof typeof METRICS;

/** All values come from bounded sets of names: no caller can add series, and none needs an escape. An empty one is left out. */
type Labels = Readonly<Record<string, string>>;

export class Series {
  /** The count, or for a histogram the sum of the observations. */
  value = 0;
  /** Observations in each bucket, not cumulative; the last one has no upper bound. */
  readonly #counts: number[];
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[] = []) {
    this.#bounds = bounds;
    this.#counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    (this.#counts[bucket] as number) += 1;
    this.value += value;
  }

  linesOfHistogram(name: string, labels: string): string[] {
    const and = labels === '' ? '' : `${labels},`;
    let count = 0;
    const buckets = this.#counts.map((observed, at) => {
      count += observed;
      return line(`${name}_bucket`, `${and}le="${this.#bounds[at] ?? '+Inf'}"`, count);
    });
    return [...buckets, line(`${name}_sum`, labels, this.value), line(`${name}_count`, labels, count)];
  }
}

/** A value that is read at each scrape. */
export type Sample = readonly [metric: Metric, value: number, labels: Labels];

export function createSeries() {
  const all = new Map<Metric, Map<string, Series>>();
  return {
    /** Returns the series of a label set, and creates it on first use. */
    of(metric: Metric, labels: Labels): Series {
      const { bounds }: Family = METRICS[metric];
      const series = all.getOrInsertComputed(metric, () => new Map());
      return series.getOrInsertComputed(textOf(labels), () => new Series(bounds));
    },

    text(samples: readonly Sample[]): string {
      const lines = Object.entries<Family>(METRICS).flatMap(([name, { type, help }]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        ...[...(all.get(name as Metric) ?? [])].flatMap(([labels, series]) =>
          type === 'histogram' ? series.linesOfHistogram(name, labels) : [line(name, labels, series.value)],
        ),
        ...samples.flatMap(([metric, value, labels]) => (metric === name ? [line(name, textOf(labels), value)] : [])),
      ]);
      return `${lines.join('\n')}\n`;
    },
  };
}

/** Returns labels like `a="1",b="2"`. */
const textOf = (labels: Labels): string =>
  Object.entries(labels)
    .flatMap(([name, value]) => (value === '' ? [] : [`${name}="${value}"`]))
    .join(',');

const line = (name: string, labels: string, value: number) => `${name}${labels === '' ? '' : `{${labels}}`} ${value}`;
