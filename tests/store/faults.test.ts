// A fleet under load while its primary is killed and restarted, and servers that share one file.

import { expect, test } from 'bun:test';
import { EVENT_LOOP_PAUSE_MS_MAX, killedPrimary, oneFile } from './chaos-runs.ts';

test('a primary that is killed again and again: nothing acknowledged is lost, no revoked key accepted, no pause', async () => {
  const { counts, faults, servers } = await killedPrimary({ restarts: 4 });
  expect(faults).toEqual([]);
  expect(counts.created).toBeGreaterThan(20);
  expect(counts.revoked).toBeGreaterThan(5);
  expect(counts.unavailable).toBeGreaterThan(0);
  for (const { longestPausesMs } of servers) expect(longestPausesMs[0]).toBeLessThan(EVENT_LOOP_PAUSE_MS_MAX);
}, 30_000);

test.each([2, 4])(
  '%d servers on one file under writes: nothing acknowledged is lost, no revoked key accepted',
  async (servers) => {
    const { counts, faults } = await oneFile({ servers, runMs: servers * 5000 });
    expect(faults).toEqual([]);
    expect(counts.created).toBeGreaterThan(100);
    expect(counts.unavailable).toBe(0);
  },
  60_000,
);
