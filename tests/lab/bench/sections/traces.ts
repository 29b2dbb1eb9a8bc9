// What traces cost a call, in processor time of the server: no traces, one call in ten, and all. The receiver, which takes
// everything and reads nothing of it, is this process.

import { buildDatabase } from '../database.ts';
import { getDataLoads } from '../loads.ts';
import { cpuUs, measure, ratio } from '../measure.ts';
import { startOurs } from '../ours.ts';
import { atMost, type Section, type Target } from '../report.ts';

const TENTH_MAX = 1.03;
const ALL_MAX = 1.25;

export const traces: Section = async (plan) => {
  const { path, keys } = await buildDatabase(1000);
  const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({}) });
  const traced = (share: string) => ({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.origin,
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: share,
  });
  await using none = await startOurs(path);
  await using tenth = await startOurs(path, traced('0.1'));
  await using all = await startOurs(path, traced('1'));
  const targets: Target[] = [];
  for (const [name, load] of Object.entries(getDataLoads(keys[0] ?? ''))) {
    const subjects = { none: { server: none, load }, tenth: { server: tenth, load }, all: { server: all, load } };
    const found = await measure(subjects, plan);
    const cost = (of: 'tenth' | 'all') => ratio(found[of], found.none, cpuUs);
    targets.push(atMost(`processor time of ${name} with one trace in ten`, cost('tenth'), TENTH_MAX));
    targets.push(atMost(`processor time of ${name} with all traces`, cost('all'), ALL_MAX));
  }
  await receiver.stop(true);
  return { rows: [], targets };
};
