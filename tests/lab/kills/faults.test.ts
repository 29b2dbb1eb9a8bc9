// Servers that share one file, under load.

import { expect, test } from 'bun:test';
import { rows } from '../../support/everything.ts';
import { oneFile } from './chaos-runs.ts';
import { beside } from './foreign-writer.ts';

test.each(rows([4, 2], 1))(
  '%d servers on one file under writes: nothing acknowledged is lost, no revoked key accepted',
  async (servers) => {
    const { counts, faults } = await oneFile({ servers, uses: 2000 });
    expect(faults).toEqual([]);
    expect(counts.created).toBeGreaterThan(100);
    expect(counts.unavailable).toBe(0);
  },
  180_000,
);

test('while another program holds the file for longer and shorter, what was acknowledged is there, what was refused is not', async () => {
  const { faults, acknowledged, refused, held } = await beside({ holds: 12 });
  expect(faults).toEqual([]);
  expect([acknowledged > 0, refused > 0, held]).toEqual([true, true, 12]);
}, 180_000);
