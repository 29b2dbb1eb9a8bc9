// The tokens of a rule, and their children, end within the bound at every process and in each place of a key, whoever ends
// them, wherever the store is.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { LAG_MAX_MS, ruleEndings, serviceIn } from '../../lab/kills/rule-endings.ts';
import { startCluster } from '../../support/cluster.ts';
import { rows } from '../../support/everything.ts';
import { STORE_MODES } from '../../support/store-mode.ts';

setDefaultTimeout(300_000); // processes are started, on machines that do other things too

const SERVERS = (['bun', 'deno'] as const).flatMap((runtime) => STORE_MODES.map((mode) => [runtime, mode] as const));

test.each(rows(SERVERS, 1))('two servers on %s, of the kind %s: ten endings', async (runtime, mode) => {
  await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
  for (const { how, lastSuccessMs } of await ruleEndings(cluster, await serviceIn(cluster), 1)) {
    expect(lastSuccessMs, how).toBeGreaterThan(-3 * LAG_MAX_MS); // it did not end long before
    expect(lastSuccessMs, how).toBeLessThan(LAG_MAX_MS);
  }
});
