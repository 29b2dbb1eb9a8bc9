// How often another process has waited for the disk: a library that is loaded before libc counts fsync and fdatasync.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtLibrary } from './c-library.ts';
import { temporaryFolder } from './folder.ts';

const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int64_t *count;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SYNC_COUNT");
  int file = path == NULL ? -1 : open(path, O_RDWR);
  if (file < 0) return;
  void *mapped = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) count = mapped;
}

static int synced(int failed) {
  if (!failed && count != NULL) __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  return failed;
}

int fsync(int file) { return synced((int)syscall(SYS_fsync, file)); }
int fdatasync(int file) { return synced((int)syscall(SYS_fdatasync, file)); }
`;

export interface CountedSyncs {
  /** For the environment of the process. */
  readonly env: Record<string, string>;
  /** So far. */
  count(): number;
}

/** Needs what c-library.ts needs. */
export function countedSyncs(): CountedSyncs {
  const path = join(temporaryFolder(), 'syncs');
  writeFileSync(path, new Uint8Array(8));
  return {
    env: { LD_PRELOAD: builtLibrary(SOURCE), SYNC_COUNT: path },
    count: () => Number(readFileSync(path).readBigInt64LE()),
  };
}
