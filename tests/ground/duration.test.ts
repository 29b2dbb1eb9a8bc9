// Spans of time as people write them.

import { expect, test } from 'bun:test';
import { formatDuration, parseDuration } from '../../src/ground/runtime.ts';

test.each([
  ['1s', 1000, '1s'],
  ['60s', 60_000, '1m'],
  ['90s', 90_000, '90s'],
  ['3600s', 3_600_000, '1h'],
  ['90m', 5_400_000, '90m'],
  ['24h', 86_400_000, '1d'],
  ['7d', 604_800_000, '7d'],
])('%s is %d ms, and written %s', (text, ms, written) => {
  expect(parseDuration(text)).toBe(ms);
  expect(formatDuration(ms)).toBe(written);
});

test.each(['', '0s', '1', '1.5h', '-1h', '1w', '1 h', '1H', '1000000s'])('%p is none', (text) => {
  expect(parseDuration(text)).toBeNull();
});
