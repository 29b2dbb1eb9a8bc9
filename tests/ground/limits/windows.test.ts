// The calendar of limits and quotas: UTC, leap days, and where the months end.

import { expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  createCalendar,
  createWindowCounter,
  lengthS,
  type Window,
  windowAt,
} from '../../../src/ground/limits/rates.ts';
import { testClock } from '../../support/clock.ts';

const at = (text: string) => createCalendar(testClock(Date.parse(text)));
const starts = (window: Window) => new Date(window.startsAtMs).toISOString();

test('a day begins at midnight UTC, at that very millisecond', () => {
  expect(starts(at('2026-11-23T23:59:59.999Z')(86_400))).toBe('2026-11-23T00:00:00.000Z');
  expect(starts(at('2026-11-24T00:00:00.000Z')(86_400))).toBe('2026-11-24T00:00:00.000Z');
});

test('a month has its days, February in leap years too', () => {
  const days = (text: string) => lengthS(at(text)('month')) / 86_400;
  expect(['2026-02-10', '2028-02-29', '2100-02-28', '2000-02-29', '2026-12-31'].map(days)).toEqual([
    28, 29, 28, 29, 31,
  ]);
  expect(at('2028-02-29')('month').endsAtMs).toBe(Date.UTC(2028, 2, 1));
  expect(starts(at('2026-12-31')('month'))).toBe('2026-12-01T00:00:00.000Z');
});

test('a wall clock that is set back reopens no window, and keeps none for longer than it is', () => {
  const clock = testClock(Date.UTC(2026, 10, 24, 0, 0, 30));
  const calendar = createCalendar(clock);
  const minute = calendar(60);
  clock.setNow(Date.UTC(2026, 10, 23));
  expect(calendar(60)).toBe(minute);
  clock.advance(29_999);
  expect(calendar(60)).toBe(minute);
  clock.advance(1);
  expect(starts(calendar(60))).toBe('2026-11-23T00:00:00.000Z');
});

test('windows are aligned to the Unix epoch and have no gaps', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), fc.integer({ min: 1, max: 31_622_400 }), (ms, windowS) => {
      const number = windowAt(ms, windowS);
      expect(number * windowS * 1000).toBeLessThanOrEqual(ms);
      expect((number + 1) * windowS * 1000).toBeGreaterThan(ms);
    }),
  );
});

test('of more than 100,000 buckets, those that were quiet the longest begin again, and a busy one does not', async () => {
  const count = createWindowCounter({ requests: 1, windowS: 60 }, testClock());
  const isAdmitted = (name: string) => count(name).isAdmitted;
  expect([isAdmitted('quiet'), isAdmitted('quiet')]).toEqual([true, false]);
  for (let n = 1; n < 100_000; n += 1) count(`other ${n}`);
  expect([isAdmitted('busy'), isAdmitted('busy')]).toEqual([true, false]);
  for (let n = 100_000; n < 250_000; n += 1) count(`other ${n}`);
  expect([isAdmitted('busy'), isAdmitted('quiet')]).toEqual([false, true]);
});
