// A child ends with its parent in every process within the bound, however the parent ends, wherever the store is.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { childEndings } from '../lab/kills/child-endings.ts';
import { startCluster } from '../support/cluster.ts';
import { STORE_MODES } from '../support/store-mode.ts';

setDefaultTimeout(120_000); // processes are started, on machines that do other things too

const LAG_MAX_MS = 1000; // the default

describe.each(['bun', 'deno'] as const)('two servers on %s', (runtime) => {
  test.each(STORE_MODES)('of the kind %s: eleven endings', async (mode) => {
    await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
    for (const { how, lastSuccessMs, odd } of await childEndings(cluster, 1)) {
      expect({ how, odd }).toEqual({ how, odd: [] });
      expect(lastSuccessMs, how).toBeGreaterThan(-LAG_MAX_MS); // it did not end before
      expect(lastSuccessMs, how).toBeLessThan(LAG_MAX_MS);
    }
  });
});
