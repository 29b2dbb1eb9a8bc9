// Lines that callers can cause at will: one a second for each bucket, 100 a second in all.

import { expect, test } from 'bun:test';
import { createThrottle } from '../../src/watch/throttle.ts';
import { testClock } from '../support/clock.ts';

const LINES_PER_S = 100;

test('a flood from many addresses writes 100 lines at once, and 100 more each second', () => {
  const clock = testClock();
  const throttle = createThrottle(clock);
  const written = () => Array.from({ length: 300 }, (_, n) => throttle(`address ${n}`)).filter((line) => line !== null);
  expect(written()).toEqual(Array(LINES_PER_S).fill(0));
  clock.advance(999);
  expect(written()).toHaveLength(99);
  clock.advance(1);
  expect(written()).toHaveLength(1);
});

test('what was left out for the sake of others is counted too', () => {
  const clock = testClock();
  const throttle = createThrottle(clock);
  for (let n = 0; n < LINES_PER_S; n += 1) throttle(`other ${n}`);
  expect([throttle('late'), throttle('late')]).toEqual([null, null]);
  clock.advance(10);
  expect(throttle('late')).toBe(2);
  clock.advance(1000);
  expect(throttle('late')).toBe(0);
});

test('of more than 10,000 buckets, those that were quiet the longest are forgotten', () => {
  const clock = testClock();
  const throttle = createThrottle(clock);
  throttle('first');
  expect(throttle('first')).toBeNull();
  for (let n = 0; n < 10_000; n += 1) throttle(`other ${n}`);
  clock.advance(1000);
  expect(throttle('first')).toBe(0); // and not 1
});
