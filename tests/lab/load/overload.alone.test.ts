// More than the server can take, for a moment.

import { expect, test } from 'bun:test';
import { overload } from './overload.ts';

test('sixty times the load that keeps it busy: slow or 503, never wrong, and normal again within 5 s', async () => {
  const report = await overload();
  expect(report.answered).toBe(report.sent);
  expect(report.wrong.slice(0, 3)).toEqual([]);
  expect(report.answered).toBeGreaterThan(1000);
  expect(report.recoveredMs).toBeLessThan(5000);
}, 180_000);
