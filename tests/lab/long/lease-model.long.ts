// The long form of lease-model.test.ts.

import { expect, test } from 'bun:test';
import { simulate } from '../../doors/services/lease-model.ts';

test('2,000 runs, none late or beyond a limit', () => {
  for (let seed = 1000; seed < 3000; seed += 1) {
    const { late, over } = simulate(seed, null);
    expect({ seed, late, over }).toEqual({ seed, late: 0, over: 0 });
  }
}, 600_000);
