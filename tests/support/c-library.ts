// A library in C that a process loads before libc, so that it answers in libc's place. Needs a C compiler on Linux.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './folder.ts';

/** Why there can be none here; null when there can. */
export function noLibrary(): string | null {
  if (process.platform !== 'linux') return 'needs Linux';
  return Bun.which('cc') === null ? 'needs a C compiler (cc)' : null;
}

/** Builds it, in a folder of its own; returns where it is. */
export function builtLibrary(source: string): string {
  const folder = temporaryFolder();
  const [written, library] = [join(folder, 'source.c'), join(folder, 'library.so')];
  writeFileSync(written, source);
  const built = Bun.spawnSync(['cc', '-shared', '-fPIC', '-O2', '-o', library, written]);
  if (!built.success) throw new Error(built.stderr.toString());
  return library;
}
