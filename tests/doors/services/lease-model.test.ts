// The rules of src/api/README.md in a model: with all of them nobody is let in late or beyond a limit, and without any one
// of them somebody is. What servers and clients do is in changes.test.ts, lease.test.ts and verifier.test.ts.

import { expect, test } from 'bun:test';
import { PARTS, type Part, simulate } from './lease-model.ts';

test('with all rules, no check from memory or asked is beyond the bound or the limit, in 50 runs', () => {
  let fromMemory = 0;
  for (let seed = 1; seed <= 50; seed += 1) {
    const { late, over, ...checks } = simulate(seed, null);
    expect({ seed, late, over }).toEqual({ seed, late: 0, over: 0 });
    fromMemory += checks.fromMemory;
  }
  expect(fromMemory).toBeGreaterThan(10_000);
}, 180_000);

/** The first run in which the model finds what a part is for. */
const RUNS: Readonly<Record<Part, number>> = {
  'a lease only if the process has seen all of the cursor': 1,
  'the age of what a response knows': 25,
  'forgetting what is told': 1,
  'known from when the request was sent': 25,
  'the cursor is still the one sent': 30,
  'a late yes says nothing': 85,
  'less what is not told yet': 8,
  'less what another request told meanwhile': 1462,
  'answer and age of one read': 1,
};
test.each(PARTS)('without "%s" somebody is', (part) => {
  const { late, over } = simulate(RUNS[part], part);
  expect(late + over).toBeGreaterThan(0);
});
