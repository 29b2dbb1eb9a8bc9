// 10,000 idle connections and 1,000 streams, as many as the server takes, beside the hot path.

import { expect, test } from 'bun:test';
import { FETCH_POOL, idleLoad, openFilesMax } from './idle.ts';

const CONNECTIONS = 10_000;
const STREAMS = 1000;
const enough = openFilesMax() > 1.2 * (CONNECTIONS + STREAMS);
if (!enough)
  console.warn(`idle.long.ts is skipped: a process may open ${openFilesMax()} files here; try ulimit -n 16384`);

test.skipIf(!enough)(
  `${CONNECTIONS} idle connections and ${STREAMS} streams beside the hot path`,
  async () => {
    const report = await idleLoad({ connections: CONNECTIONS, streams: STREAMS, busyMs: 10_000 });
    const [before, during, after] = report.openFiles;
    const { latencies } = report;
    console.log(
      `${latencies.count} calls, p50 ${latencies.quantileMs(0.5).toFixed(1)} ms, p99 ${latencies.quantileMs(0.99).toFixed(1)} ms,`,
      `${report.residentMb.toFixed(0)} MB resident; open files ${before}, ${during}, ${after}`,
    );
    expect(during).toBeGreaterThanOrEqual(before + CONNECTIONS + STREAMS);
    expect(after).toBeLessThanOrEqual(before + FETCH_POOL);
  },
  300_000,
);
