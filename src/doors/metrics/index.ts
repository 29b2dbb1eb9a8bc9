// Metrics: GET /metrics for Prometheus (src/watch/README.md, Metrics). A door: loaded with METRICS_TOKEN, and the server
// works without it.

import type { Clock, Sha256 } from '../../ground/runtime.ts';

export type { ProcessUsage } from './gauges.ts';

export type MetricsDoor = NonNullable<Awaited<ReturnType<typeof openMetrics>>>;

/** Loads the metrics. Null without a token. */
export async function openMetrics(
  { metricsToken: token }: { readonly metricsToken: string | null },
  { clock, sha256 }: { readonly clock: Clock; readonly sha256: Sha256 },
) {
  if (token === null) return null;
  const [{ createMetrics }, { metricsRoute }] = await Promise.all([import('./measures.ts'), import('./route.ts')]);
  const { run, mcp, text, addGauges, ...watch } = createMetrics(clock);
  return { watch, addGauges, observer: { run, mcp }, route: { get: metricsRoute(token, sha256, text) } };
}
