// Token buckets: what each may take at once and later, and what is given back.

import { expect, test } from 'bun:test';
import { createTokenBuckets } from '../../../src/ground/limits/rates.ts';
import { testClock } from '../../../src/start/package/testing/clock.ts';

const RATE = { burst: 3, perS: 2 };

test('takes the burst at once, then what comes in, and says how long the rest takes', () => {
  const clock = testClock();
  const buckets = createTokenBuckets(RATE, clock);
  expect([1, 2, 3].map(() => buckets.take('alice'))).toEqual([0, 0, 0]);
  expect(buckets.take('alice')).toBe(0.5);
  expect(buckets.take('alice', 2)).toBe(1);
  expect(buckets.take('bob', 3)).toBe(0);
  clock.advance(499);
  expect(buckets.take('alice')).toBeGreaterThan(0);
  clock.advance(1);
  expect(buckets.take('alice')).toBe(0);
});

test('saves up no more than the burst, also of what is given back', () => {
  const clock = testClock();
  const buckets = createTokenBuckets(RATE, clock);
  expect(buckets.take('alice', 2)).toBe(0);
  buckets.give('alice', 100);
  clock.advance(100_000);
  expect(buckets.take('alice', 4)).toBe(0.5);
  expect(buckets.take('alice', 3)).toBe(0);
  buckets.give('alice', 2);
  expect(buckets.take('alice', 2)).toBe(0);
});
