// Idle connections and streams cost the busy ones nothing but memory. A tenth of idle.long.ts.

import { expect, test } from 'bun:test';
import { FETCH_POOL, idleLoad, openFilesMax } from './idle.ts';

const CONNECTIONS = 1000;
const STREAMS = 100;
const enough = openFilesMax() > 1.2 * (CONNECTIONS + STREAMS);
if (!enough) console.warn(`idle.test.ts is skipped: a process may open ${openFilesMax()} files here`);

test.skipIf(!enough)(
  `${CONNECTIONS} idle connections and ${STREAMS} streams beside the hot path`,
  async () => {
    const { latencies, openFiles } = await idleLoad({ connections: CONNECTIONS, streams: STREAMS, busyMs: 1000 });
    const [before, during, after] = openFiles;
    expect(latencies.count).toBeGreaterThan(100);
    expect(during).toBeGreaterThanOrEqual(before + CONNECTIONS + STREAMS);
    expect(after).toBeLessThanOrEqual(before + FETCH_POOL);
  },
  180_000,
);
