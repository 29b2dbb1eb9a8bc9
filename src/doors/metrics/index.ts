// Metrics: GET /metrics for Prometheus (src/watch/README.md, Metrics). A door: loaded with METRICS_TOKEN, and the server
// works without it.

import type { Observer } from '../../api/observer.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import type { Route } from '../../web/router.ts';
import type { Metrics } from './measures.ts';

export type { ProcessUsage } from './gauges.ts';

export interface MetricsDoor extends Pick<Metrics, 'guard' | 'verify' | 'token' | 'store' | 'addGauges'> {
  readonly observer: Observer;
  readonly route: Pick<Route, 'get'>;
}

/** Loads the metrics. Null without a token. */
export async function openMetrics(
  token: string | null,
  { clock, sha256 }: { readonly clock: Clock; readonly sha256: Sha256 },
): Promise<MetricsDoor | null> {
  if (token === null) return null;
  const [{ createMetrics }, { metricsRoute }] = await Promise.all([import('./measures.ts'), import('./route.ts')]);
  const { run, mcp, text, ...wraps } = createMetrics(clock);
  return { ...wraps, observer: { run, mcp }, route: { get: metricsRoute({ token, sha256, text }) } };
}
