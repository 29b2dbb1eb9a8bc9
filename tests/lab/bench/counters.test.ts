// The section of the benchmark that reads the server's metrics: what it asks for is there.

import { expect, test } from 'bun:test';
import { QUICK } from './plan.ts';
import { counters } from './sections/counters.ts';
import { isWrkThere } from './wrk.ts';

test.skipIf(!isWrkThere())(
  'nearly all verifications are answered from memory, without a question to the database',
  async () => {
    const { targets } = await counters({ ...QUICK, roundS: 1 });
    expect(targets.map(({ met }) => met)).toEqual([true, true]);
  },
  60_000, // a slow machine takes longer for its requests
);
