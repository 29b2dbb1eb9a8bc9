// Bodies without their last byte, on a thousand connections, take little memory and nobody's time.

import { expect, test } from 'bun:test';
import { unfinishedBodies } from './unfinished.ts';

const CLIENTS = 1002;
const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;

test.skipIf(process.platform !== 'linux').each(['bun', 'deno'] as const)(
  'a thousand clients that keep back the last byte of a body of 1 MiB (%s)',
  async (runtime) => {
    const { statuses, residentMb, medianMs } = await unfinishedBodies(CLIENTS, { runtime });
    expect(statuses.filter((status) => !['', '400', '503'].includes(status))).toEqual([]);
    expect(statuses).toContain('503');
    expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
  180_000,
);
