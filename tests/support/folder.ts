// Temporary folders, removed when the process ends. They are on a memory disk where there is one: a test app waits for
// the disk more than a dozen times. `diskFolder` is for what needs the real one.

import {
  accessSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { atEnd } from './at-end.ts';

const MEMORY_DISK = '/dev/shm';
/** Several workers fill it at once. A container's own, of 64 MiB, is too small. */
const MEMORY_DISK_BYTES_MIN = 2 ** 30;

/** By it tests/run.ts, whose folder is TMPDIR, finds what was left on the memory disk. */
const PREFIX = process.env.TMPDIR === undefined ? 'mcp-key-server' : basename(process.env.TMPDIR);

const place = memoryDisk() ?? tmpdir();
const made: string[] = [];
process.on('exit', removeTemporaryFolders);
atEnd(removeTemporaryFolders);

export const temporaryFolder = (): string => folderIn(place);

/**
 * On the machine's disk: for what a program on Deno writes, whose permissions never take /dev, and for what is about
 * the disk itself.
 */
export const diskFolder = (): string => folderIn(tmpdir());

function removeTemporaryFolders(): void {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
}

type Files = Readonly<Record<string, string | Uint8Array>>;

/** A temporary folder with these files. */
export const folderWith = (files: Files): string => fill(temporaryFolder(), files);

/** Writes these files into `folder`, and returns it. */
export function fill(folder: string, files: Files): string {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

function folderIn(parent: string): string {
  const folder = mkdtempSync(join(parent, `${PREFIX}-`));
  made.push(folder);
  return folder;
}

/** Where memory is the disk, if programs may be written, and run, there, and it is large enough. */
function memoryDisk(): string | null {
  if (process.env.SERVER_RUNTIME === 'deno') return null;
  try {
    accessSync(MEMORY_DISK, constants.W_OK);
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .find(([, path]) => path === MEMORY_DISK);
    if (mount?.[2] !== 'tmpfs' || mount[3]?.split(',').includes('noexec')) return null;
    const { bavail, bsize } = statfsSync(MEMORY_DISK);
    return bavail * bsize >= MEMORY_DISK_BYTES_MIN ? MEMORY_DISK : null;
  } catch {
    return null;
  }
}
