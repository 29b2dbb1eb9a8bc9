// How the benchmark turns rounds into figures.

import { expect, test } from 'bun:test';
import { figure, median, perSecond, ratio } from './measure.ts';
import { countParts } from './profile.ts';
import { atLeast, atMost, table } from './report.ts';

const run = (requestsPerSecond: number) => ({
  requests: requestsPerSecond,
  perSecond: requestsPerSecond,
  p50Ms: 1,
  p99Ms: 2,
  refused: 0,
  cpuUs: 12.34,
});
const measured = (...rates: number[]) => ({ runs: rates.map(run), warmupRequests: 1000, residentMb: 50 });

test('the median is the middle value, or the mean of the two middle ones', () => {
  expect(median([30, 1, 2])).toBe(2);
  expect(median([4, 1, 2, 30])).toBe(3);
  expect(median([])).toBeNaN();
});

test('a ratio compares round with round, so that a slow moment of the machine counts for both', () => {
  const [ours, bare] = [measured(80, 8, 80), measured(100, 10, 100)];
  expect(figure(ours, perSecond)).toBe(80);
  expect(ratio(ours, bare, perSecond)).toBe(0.8);
});

test('a target at its limit is met', () => {
  expect(atLeast('share', 0.8, 0.8).met).toBe(true);
  expect(atLeast('share', 0.79, 0.8).met).toBe(false);
  expect(atMost('p99', 2, 2).met).toBe(true);
  expect(atMost('p99', 2.01, 2).met).toBe(false);
});

test('a row of the table has ratios only if there is something to compare with', () => {
  const lines = table([
    { name: 'bare', measured: measured(100) },
    { name: 'ours', measured: measured(80), bare: measured(100) },
  ]).split('\n');
  expect(lines[2]).toBe('| bare | 100 |  | 1.00 | 2.00 |  | 12.3 | 50 | 1,000 |');
  expect(lines[3]).toBe('| ours | 80 | 0.80 | 1.00 | 2.00 | 1.00 | 12.3 | 50 | 1,000 |');
});

test('a sample counts by its innermost frame, and native code by whether JavaScript has called it', () => {
  const [kernel, native, generated] = ['ffff (/x/[kernel.kallsyms])', '18a (/opt/bun)', '7f75 (/tmp/perf-42.map)'];
  const samples = [[kernel, generated], [native], [native, generated, native], [generated, native], [generated]];
  expect(countParts(samples.map((frames) => `${frames.join('\n')}\n`).join('\n'))).toEqual({
    kernel: 1,
    'native outside JavaScript': 1,
    'native called from JavaScript': 1,
    'JavaScript itself': 2,
  });
});
