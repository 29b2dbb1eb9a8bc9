// A cluster under load while its primary is killed and restarted. With more restarts in store.long.ts.

import { expect, test } from 'bun:test';
import { EVENT_LOOP_PAUSE_MS_MAX, killedPrimary } from './chaos-runs.ts';

test('a primary that is killed again and again: nothing acknowledged is lost, no revoked key accepted, no pause', async () => {
  const { counts, faults, servers } = await killedPrimary({ restarts: 4 });
  expect(faults).toEqual([]);
  expect(counts.created).toBeGreaterThan(20);
  expect(counts.revoked).toBeGreaterThan(5);
  expect(counts.unavailable).toBeGreaterThan(0);
  for (const { longestPausesMs } of servers) expect(longestPausesMs[0]).toBeLessThan(EVENT_LOOP_PAUSE_MS_MAX);
}, 180_000);
