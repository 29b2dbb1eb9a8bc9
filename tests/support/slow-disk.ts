// A disk that takes its time for another process: a library that is loaded before libc lets fsync and fdatasync wait.

import { builtLibrary } from './c-library.ts';

const source = (waitMs: number) => `
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int waited(long call, int file) {
  struct timespec wait = { 0, ${waitMs * 1_000_000} };
  nanosleep(&wait, 0);
  return (int)syscall(call, file);
}

int fsync(int file) { return waited(SYS_fsync, file); }
int fdatasync(int file) { return waited(SYS_fdatasync, file); }
`;

/** Returns the environment of the process. Needs what c-library.ts needs. */
export const slowDisk = (waitMs: number) => ({ LD_PRELOAD: builtLibrary(source(waitMs)) });
