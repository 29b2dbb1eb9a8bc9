// What verification asks of the database and what is answered from memory, as the server's own metrics count it.

import { buildDatabase } from '../database.ts';
import { manyKeys } from '../loads.ts';
import { startOurs } from '../ours.ts';
import { atLeast, atMost, type Section } from '../report.ts';
import { drive } from '../wrk.ts';

/** Few, so that reading each for the first time doesn't show even on a slow machine. */
const KEYS = 10;
/** Fewer, on a slow machine, would show the first reads and the polls. */
const REQUESTS_MIN = 10_000;
const METRICS_TOKEN = 'a-token-for-benchmarks';

export const counters: Section = async ({ roundS }) => {
  const { path, keys } = await buildDatabase(KEYS);
  await using ours = await startOurs(path, { METRICS_TOKEN });
  let requests = 0;
  while (requests < REQUESTS_MIN) requests += (await drive(ours, manyKeys(keys), roundS)).requests;
  const metrics = await fetch(`${ours.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  const text = await metrics.text();
  const verified = sumOf(text, 'mcp_keys_verifications_total', 'result', 'memory');
  const questions = sumOf(text, 'mcp_keys_store_duration_seconds_count', 'operation', '.*');
  return {
    rows: [],
    targets: [
      atLeast(`verifications of ${KEYS} keys answered from memory, part of all`, verified / requests, 0.99),
      {
        ...atMost(
          'questions to the database, polls and last uses included, a verification',
          questions / requests,
          0.01,
        ),
        found: `${questions} for ${requests.toLocaleString('en')} verifications`,
      },
    ],
  };
};

/** The sum of a metric's values whose label matches. Throws if there is none. */
function sumOf(metrics: string, name: string, label: string, values: string): number {
  const lines = [...metrics.matchAll(new RegExp(`^${name}\\{${label}="${values}"\\} (\\S+)$`, 'gm'))];
  if (lines.length === 0) throw new Error(`the server has no metric ${name}`);
  return lines.reduce((sum, [, value]) => sum + Number(value), 0);
}
