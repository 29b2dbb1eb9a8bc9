// The long form of doors/rules/endings.slow.test.ts, with its figures on stdout.

import { describe, expect, test } from 'bun:test';
import { startCluster } from '../../support/cluster.ts';
import { STORE_MODES } from '../../support/store-mode.ts';
import { LAG_MAX_MS, ruleEndings, serviceIn } from '../kills/rule-endings.ts';

const ROUNDS = 20;

describe.each(['bun', 'deno'] as const)('two servers on %s', (runtime) => {
  test.each(STORE_MODES)(
    `of the kind %s: ten endings, ${ROUNDS} times each`,
    async (mode) => {
      await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
      const service = await serviceIn(cluster);
      const longestMs: Record<string, number> = {};
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const { how, lastSuccessMs } of await ruleEndings(cluster, service, round)) {
          longestMs[how] = Math.round(Math.max(longestMs[how] ?? -Infinity, lastSuccessMs));
        }
      }
      console.log(`${mode} on ${runtime}: last success after the end, ms:`, longestMs);
      expect(Math.max(...Object.values(longestMs))).toBeLessThan(LAG_MAX_MS);
    },
    900_000,
  );
});
