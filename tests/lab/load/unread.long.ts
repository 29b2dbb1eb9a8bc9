// Responses that nobody reads, from many clients, on both runtimes.

import { describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandOf } from '../../support/server-process.ts';
import { expectLittle, MEDIAN_MS_MAX } from './honest.ts';
import { UNREAD, UNREAD_OF_MANY, unread } from './unread.ts';

const runtimes = ['bun', 'deno'] as const;

const uses = [
  ...Object.entries(UNREAD).map((entry) => [500, ...entry] as const),
  ...Object.entries(UNREAD_OF_MANY).flatMap((entry) => [100, 200].map((clients) => [clients, ...entry] as const)),
];

test.each(runtimes.flatMap((runtime) => uses.map((use) => [runtime, ...use] as const)))(
  '%s: %d clients that do not read %s',
  async (runtime, clients, _what, what) => {
    expectLittle(await unread(what, clients, { runtime }));
  },
);

interface MemoryCgroup extends Disposable {
  /** A shell command that puts its own process in, and becomes the program in its arguments. */
  readonly command: (program: readonly string[]) => readonly string[];
  /** How many of its processes were killed because the bound was reached. */
  readonly kills: () => number;
}

/** A control group that bounds the memory of a process (Linux, cgroups v1 and v2); null where this one may make none. */
function memoryCgroup(limitMb: number): MemoryCgroup | null {
  for (const { parent, limitFile, eventsFile } of places(readFileSync('/proc/self/cgroup', 'utf8'))) {
    const folder = join(parent, `test-${process.pid}-${limitMb}`);
    try {
      mkdirSync(folder);
      writeFileSync(join(folder, limitFile), String(limitMb * 1024 * 1024));
    } catch {
      remove(folder);
      continue;
    }
    return {
      command: (program) => ['sh', '-c', `echo $$ >'${join(folder, 'cgroup.procs')}' && exec "$0" "$@"`, ...program],
      kills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(join(folder, eventsFile), 'utf8'))?.[1]),
      [Symbol.dispose]: () => remove(folder),
    };
  }
  return null;
}

/** Where a group may be made, by what /proc/self/cgroup says (cgroups(7)). */
function places(groups: string) {
  const v1 = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1];
  const v2 = /^0::(.*)$/m.exec(groups)?.[1];
  return [
    ...(v1 === undefined
      ? []
      : [
          {
            parent: join('/sys/fs/cgroup/memory', v1),
            limitFile: 'memory.limit_in_bytes',
            eventsFile: 'memory.oom_control',
          },
        ]),
    ...(v2 === undefined
      ? []
      : [{ parent: join('/sys/fs/cgroup', v2), limitFile: 'memory.max', eventsFile: 'memory.events' }]),
  ];
}

/** A group without processes is an empty folder, whatever files it shows. */
function remove(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // It was not made.
  }
}

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
