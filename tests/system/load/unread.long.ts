// Responses that nobody reads, from 500 clients, on both runtimes.

import { expect, test } from 'bun:test';
import { UNREAD, unread } from './unread.ts';

const RESIDENT_MB_MAX = 256;
const MEDIAN_MS_MAX = 100;
const runtimes = ['bun', 'deno'] as const;

test.each(runtimes.flatMap((runtime) => Object.entries(UNREAD).map((entry) => [runtime, ...entry] as const)))(
  '%s: 500 clients that do not read %s',
  async (runtime, _what, what) => {
    const report = await unread(what, 500, runtime);
    expect(report.residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(report.medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
);
