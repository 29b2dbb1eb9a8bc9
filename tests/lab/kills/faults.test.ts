// Servers that share one file, under load.

import { expect, test } from 'bun:test';
import { oneFile } from './chaos-runs.ts';

test.each([2, 4])(
  '%d servers on one file under writes: nothing acknowledged is lost, no revoked key accepted',
  async (servers) => {
    const { counts, faults } = await oneFile({ servers, uses: 2000 });
    expect(faults).toEqual([]);
    expect(counts.created).toBeGreaterThan(100);
    expect(counts.unavailable).toBe(0);
  },
  60_000,
);
