// Responses that nobody reads, from many clients, on both runtimes.

import { expect, test } from 'bun:test';
import { UNREAD, UNREAD_OF_MANY, unread } from './unread.ts';

const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;
const runtimes = ['bun', 'deno'] as const;

const uses = [
  ...Object.entries(UNREAD).map((entry) => [500, ...entry] as const),
  ...Object.entries(UNREAD_OF_MANY).flatMap((entry) => [100, 200].map((clients) => [clients, ...entry] as const)),
];

test.each(runtimes.flatMap((runtime) => uses.map((use) => [runtime, ...use] as const)))(
  '%s: %d clients that do not read %s',
  async (runtime, clients, _what, what) => {
    const report = await unread(what, clients, runtime);
    expect(report.residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(report.medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
);
