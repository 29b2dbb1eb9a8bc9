// Responses that nobody reads take little memory and nobody's time. With more clients, and on Deno, in unread.long.ts.

import { expect, test } from 'bun:test';
import { UNREAD, unread } from './unread.ts';

/** Before a byte of its response arrived, because the room was needed. */
const CUT_OFF = '';
const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;

test.skipIf(process.platform !== 'linux').each(Object.entries(UNREAD))(
  '200 clients that do not read %s',
  async (_what, what) => {
    const { statuses, residentMb, medianMs } = await unread(what, 200);
    expect(statuses.filter((status) => !['200', '503', CUT_OFF].includes(status))).toEqual([]);
    expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
  60_000,
);
