// Responses that nobody reads, from many clients, on both runtimes.

import { describe, expect, test } from 'bun:test';
import { memoryCgroup } from '../../support/memory-cgroup.ts';
import { commandOf } from '../../support/server-process.ts';
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
    const report = await unread(what, clients, { runtime });
    expect(report.residentMb).toBeLessThan(RESIDENT_MB_MAX);
    expect(report.medianMs).toBeLessThan(MEDIAN_MS_MAX);
  },
);

const GROUP_MB = 512;

/** Needs a machine on which the tests may make a control group. */
const canBound = (() => {
  using group = memoryCgroup(GROUP_MB);
  return group !== null;
})();

describe.skipIf(!canBound)(`in a control group with ${GROUP_MB} MB`, () => {
  test.each(runtimes.flatMap((runtime) => uses.map((use) => [runtime, ...use] as const)))(
    '%s survives: %d clients that do not read %s',
    async (runtime, clients, _what, what) => {
      using group = memoryCgroup(GROUP_MB);
      if (group === null) throw new Error('no control group');
      const { medianMs } = await unread(what, clients, { runtime, command: group.command(commandOf(runtime)) });
      expect(medianMs).toBeLessThan(MEDIAN_MS_MAX);
      expect(group.kills()).toBe(0);
    },
  );
});
