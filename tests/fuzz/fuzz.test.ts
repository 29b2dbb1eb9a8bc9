// The short form of `bun run fuzz`: always the same inputs, but for the keys and tokens in them.

import { expect, test } from 'bun:test';
import { fuzz } from './fuzz.ts';

/** What the server's memory may grow by while it settles, MB; a leak of 2 KB an input would show. */
const SETTLING_MB = 40;

test('20,000 hostile inputs: no 5xx but 503, no crash, no hang, no secret let out, memory flat', async () => {
  const { inputs, statuses, rssMb } = await fuzz({ seed: 7, inputs: 20_000, seconds: 150 });
  expect(inputs).toBeGreaterThanOrEqual(20_000);
  // It was not only nonsense: every kind of answer was reached.
  for (const status of [200, 202, 204, 400, 401, 403, 404, 405, 415, 431]) {
    expect({ status, count: statuses.get(status) ?? 0 }).not.toEqual({ status, count: 0 });
  }
  const settled = rssMb[Math.floor(rssMb.length / 4)] ?? 0;
  expect(Math.max(...rssMb)).toBeLessThan(settled + SETTLING_MB);
}, 180_000);
