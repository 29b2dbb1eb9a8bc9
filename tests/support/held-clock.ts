// The clocks of another process, as the test wants them: a library that is loaded before libc answers for it.
// A machine's sleep is made of it: the process is stopped, its monotonic clock is held back
// by as long as that takes, the wall clock goes on.

import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { builtLibrary } from './c-library.ts';
import { temporaryFolder } from './folder.ts';
import type { ServerProcess } from './server-process.ts';
import { isStopped } from './sqld.ts';

const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offsets_ms; /* of the monotonic clock, of the wall clock */

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_OFFSETS");
  int file = path == NULL ? -1 : open(path, O_RDONLY);
  if (file < 0) return;
  void *mapped = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) offsets_ms = mapped;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int failed = (int)syscall(SYS_clock_gettime, id, ts);
  if (failed || offsets_ms == NULL || (id != CLOCK_MONOTONIC && id != CLOCK_REALTIME)) return failed;
  int64_t ns = ts->tv_nsec + offsets_ms[id == CLOCK_REALTIME] % 1000 * 1000000;
  ts->tv_sec += offsets_ms[id == CLOCK_REALTIME] / 1000;
  if (ns < 0) { ns += 1000000000; ts->tv_sec -= 1; }
  if (ns >= 1000000000) { ns -= 1000000000; ts->tv_sec += 1; }
  ts->tv_nsec = ns;
  return 0;
}

/* What V8 reads the wall clock with. */
int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec ts;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &ts)) return -1;
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return 0;
}
`;

export type HeldClocks = ReturnType<typeof heldClocks>;

export function heldClocks() {
  const path = join(temporaryFolder(), 'offsets');
  const offsetsMs = new BigInt64Array(2);
  const write = () => {
    const file = openSync(path, 'r+');
    writeSync(file, new Uint8Array(offsetsMs.buffer), 0, 16, 0);
    closeSync(file);
  };
  writeFileSync(path, new Uint8Array(16));
  return {
    /** For the environment of the process. */
    env: { LD_PRELOAD: builtLibrary(SOURCE), CLOCK_OFFSETS: path },
    /** Has a process sleep: `asleep` happens meanwhile, and `wallMs` pass beside the time that takes. */
    async sleep(process: Pick<ServerProcess, 'pid' | 'signal'>, asleep: () => Promise<unknown>, wallMs = 0) {
      process.signal('SIGSTOP');
      while (!isStopped(process.pid)) await Bun.sleep(1);
      const stoppedAtMs = performance.now();
      await asleep();
      // Rounded down: a monotonic clock must not step back.
      offsetsMs[0] = (offsetsMs[0] ?? 0n) - BigInt(Math.floor(performance.now() - stoppedAtMs));
      offsetsMs[1] = (offsetsMs[1] ?? 0n) + BigInt(wallMs);
      write();
      process.signal('SIGCONT');
    },
    /** Moves the wall clock alone, as a person or NTP does. */
    setWall(byMs: number) {
      offsetsMs[1] = (offsetsMs[1] ?? 0n) + BigInt(byMs);
      write();
    },
  };
}
