// Traces: calls as OpenTelemetry spans, sent by OTLP over HTTP (README.md). A door: loaded where an endpoint is set, and the
// server works without it.

import type { TracesOptions } from './tracer.ts';

/** Loads the traces. Null without an endpoint that can be used; says why. */
export async function openTraces(core: TracesOptions) {
  const { config, env, log } = core;
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracesEndpoint } = env;
  if (!endpoint && !tracesEndpoint) return null;
  const { settingsIn } = await import('./settings.ts');
  const { settings, warnings } = settingsIn(env, config.production);
  for (const { event, variable, reason } of warnings) log.warn(event, { variable, reason });
  if (settings === null) return null;
  const [{ createExporter }, { createSpans }] = await Promise.all([import('./exporter.ts'), import('./spans.ts')]);
  const { add, dropped, stop } = createExporter(settings, core);
  return { observer: createSpans(settings, core, add), dropped, stop };
}
