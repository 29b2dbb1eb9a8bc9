// Responses that nobody reads take little memory and nobody's time. With more clients, and on Deno, in unread.long.ts.

import { expect, test } from 'bun:test';
import { UNREAD, UNREAD_OF_MANY, unread } from './unread.ts';

/** Before a byte of its response arrived, because the room was needed. */
const CUT_OFF = '';
const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;

const uses = [
  ...Object.entries(UNREAD).map((entry) => [200, ...entry] as const),
  ...Object.entries(UNREAD_OF_MANY).map((entry) => [60, ...entry] as const),
];

test.skipIf(process.platform !== 'linux').each(uses)(
  '%d clients that do not read %s',
  async (clients, _what, what) => {
    const { statuses, residentMb, medianMs } = await unread(what, clients);
    expect(statuses.filter((status) => !['200', '429', '503', CUT_OFF].includes(status))).toEqual([]);
    expect(residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
  180_000,
);
