// The rules of src/api/README.md in a model: with all of them nobody is let in late or beyond a limit, and without any one
// of them somebody is. What servers and clients do is in changes.test.ts, lease.test.ts and package/verifier.test.ts.

import { expect, test } from 'bun:test';
import { PARTS, simulate } from '../support/lease-model.ts';

test('with all rules, no check from memory or asked is beyond the bound or the limit, in 100 runs', () => {
  let fromMemory = 0;
  for (let seed = 1; seed <= 100; seed += 1) {
    const { late, over, ...checks } = simulate(seed, null);
    expect({ seed, late, over }).toEqual({ seed, late: 0, over: 0 });
    fromMemory += checks.fromMemory;
  }
  expect(fromMemory).toBeGreaterThan(20_000);
}, 180_000);

test.each(PARTS)(
  'without "%s" somebody is',
  (part) => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const { late, over } = simulate(seed, part);
      if (late > 0 || over > 0) return;
    }
    throw new Error('the model found nothing in 300 runs');
  },
  180_000,
);
