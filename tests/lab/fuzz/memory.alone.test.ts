// The short form of `bun run fuzz` in its plain setting, and what its inputs do to the server's memory. Always the same
// inputs, except for the keys and tokens in them.

import { expect, test } from 'bun:test';
import { fuzz } from './fuzz.ts';
import { notReached } from './settings.ts';

/** What the server's memory may grow by while it settles, MB; a leak of 2 KB an input would show. */
const SETTLING_MB = 40;

test('20,000 hostile inputs: no 5xx except 503, no crash, no hang, no secret let out, memory flat', async () => {
  const { inputs, statuses, rssMb } = await fuzz({ setting: 'plain', seed: 7, inputs: 20_000, seconds: 300 });
  expect(inputs).toBeGreaterThanOrEqual(20_000);
  expect(notReached('plain', statuses)).toEqual([]);
  const settled = rssMb[Math.floor(rssMb.length / 4)] ?? 0;
  expect(Math.max(...rssMb)).toBeLessThan(settled + SETTLING_MB);
}, 360_000); // on a machine that is ten times slower, too
