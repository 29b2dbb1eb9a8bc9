// The long form of doors/children/endings.slow.test.ts, with its figures on stdout.

import { describe, expect, test } from 'bun:test';
import { startCluster } from '../../support/cluster.ts';
import { STORE_MODES } from '../../support/store-mode.ts';
import { childEndings } from '../kills/child-endings.ts';

const ROUNDS = 20;

describe.each(['bun', 'deno'] as const)('two servers on %s', (runtime) => {
  test.each(STORE_MODES)(
    `of the kind %s: eleven endings, ${ROUNDS} times each`,
    async (mode) => {
      await using cluster = await startCluster([mode, mode], {}, [runtime, runtime]);
      const longestMs: Record<string, number> = {};
      const odd: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        for (const ended of await childEndings(cluster, round)) {
          longestMs[ended.how] = Math.round(Math.max(longestMs[ended.how] ?? -Infinity, ended.lastSuccessMs));
          odd.push(...ended.odd);
        }
      }
      console.log(`${mode} on ${runtime}: last success after the end, ms:`, longestMs);
      expect(odd).toEqual([]);
      expect(Math.max(...Object.values(longestMs))).toBeLessThan(1000);
    },
    600_000,
  );
});
