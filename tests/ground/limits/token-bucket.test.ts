// Token buckets: what each may take at once and later, and what is given back.

import { expect, test } from 'bun:test';
import { createTokenBuckets } from '../../../src/ground/limits/rates.ts';
import { testClock } from '../../support/clock.ts';

const RATE = { burst: 3, perS: 2 };

test('takes the burst at once, then what comes in, and says how long the rest takes', () => {
  const clock = testClock();
  const buckets = createTokenBuckets(RATE, clock);
  expect([1, 2, 3].map(() => buckets.take('alice'))).toEqual([0, 0, 0]);
  expect(buckets.take('alice')).toBe(0.5);
  expect(buckets.waitS('alice')).toBe(0.5);
  expect(buckets.take('bob')).toBe(0);
  clock.advance(499);
  expect(buckets.take('alice')).toBeGreaterThan(0);
  clock.advance(1);
  expect(buckets.take('alice')).toBe(0);
});

test('saves up no more than the burst, also of what is given back', () => {
  const clock = testClock();
  const buckets = createTokenBuckets(RATE, clock);
  const takeAll = (count: number) => Array.from({ length: count }, () => buckets.take('alice'));
  expect(takeAll(2)).toEqual([0, 0]);
  buckets.give('alice', 100);
  clock.advance(100_000);
  expect(takeAll(4)).toEqual([0, 0, 0, 0.5]);
  buckets.give('alice', 2);
  expect(takeAll(3)).toEqual([0, 0, 0.5]);
});
