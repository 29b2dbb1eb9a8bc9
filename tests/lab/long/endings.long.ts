// The long forms of doors/children/endings.slow.test.ts and doors/rules/everywhere.slow.test.ts, with their figures on stdout.

import { describe, expect, test } from 'bun:test';
import { startCluster } from '../../support/cluster.ts';
import { STORE_MODES } from '../../support/store-mode.ts';
import { childEndings } from '../kills/child-endings.ts';
import { LAG_MAX_MS, ruleEndings, serviceIn } from '../kills/rule-endings.ts';

const ROUNDS = 20;

interface Ended {
  readonly how: string;
  readonly lastSuccessMs: number;
  readonly odd?: readonly number[];
}

/** Expects each end within the bound in every round. */
async function expectInTime(name: string, endingsOf: (round: number) => Promise<readonly Ended[]>): Promise<void> {
  const longestMs: Record<string, number> = {};
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { how, lastSuccessMs, odd = [] } of await endingsOf(round)) {
      expect({ how, odd }).toEqual({ how, odd: [] });
      longestMs[how] = Math.round(Math.max(longestMs[how] ?? -Infinity, lastSuccessMs));
    }
  }
  console.log(`${name}: last success after the end, ms:`, longestMs);
  expect(Math.max(...Object.values(longestMs))).toBeLessThan(LAG_MAX_MS);
}

describe.each(['bun', 'deno'] as const)('two servers on %s', (runtime) => {
  describe.each(STORE_MODES)(`of the kind %s, ${ROUNDS} times each`, (mode) => {
    const start = () => startCluster([mode, mode], {}, [runtime, runtime]);

    test('eleven endings of a child, each within the bound', async () => {
      await using cluster = await start();
      await expectInTime(`${mode} on ${runtime}, children`, (round) => childEndings(cluster, round));
    }, 600_000);

    test('ten endings of a rule, each within the bound', async () => {
      await using cluster = await start();
      const service = await serviceIn(cluster);
      await expectInTime(`${mode} on ${runtime}, rules`, (round) => ruleEndings(cluster, service, round));
    }, 900_000);
  });
});
