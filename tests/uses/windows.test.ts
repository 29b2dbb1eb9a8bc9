// The calendar of limits and quotas: UTC, leap days, and where the months end.

import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { dayAt, dayText, monthOf, windowAt } from '../../src/uses/windows.ts';

const at = (text: string) => dayAt(Date.parse(text));

test('a day begins at midnight UTC, at that very millisecond', () => {
  expect(dayText(at('2026-11-23T23:59:59.999Z'))).toBe('2026-11-23');
  expect(dayText(at('2026-11-24T00:00:00.000Z'))).toBe('2026-11-24');
});

test('a month has its days, February in leap years too', () => {
  const days = (text: string) => monthOf(at(text)).lengthS / 86_400;
  expect(['2026-02-10', '2028-02-29', '2100-02-28', '2000-02-29', '2026-12-31'].map(days)).toEqual([
    28, 29, 28, 29, 31,
  ]);
  expect(monthOf(at('2028-02-29')).endsAtMs).toBe(Date.UTC(2028, 2, 1));
  expect(dayText(monthOf(at('2026-12-31')).firstDay)).toBe('2026-12-01');
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
