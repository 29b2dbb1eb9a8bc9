// A disk of a few megabytes that can be filled, emptied and made read-only: a tmpfs, where mounting is allowed.

import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './folder.ts';

const SIZE_KIB = 2048;
/** A tmpfs gives out whole pages. */
const PAGE_BYTES = 4096;

export type SmallDisk = ReturnType<typeof smallDisk>;

const run = (...command: string[]) => Bun.spawnSync(command, { stdout: 'ignore', stderr: 'ignore' }).exitCode === 0;

function must(...command: string[]): void {
  if (!run(...command)) throw new Error(`failed: ${command.join(' ')}`);
}

/** Whether this machine lets us mount. */
export function canMount(): boolean {
  const folder = temporaryFolder();
  return run('mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder) && run('umount', folder);
}

/** `sizeKib`: for those who write more before it is filled. */
export function smallDisk(sizeKib = SIZE_KIB) {
  const folder = temporaryFolder();
  const filler = join(folder, 'filler');
  const covered: string[] = [];
  must('mount', '-t', 'tmpfs', '-o', `size=${sizeKib}k`, 'tmpfs', folder);

  function uncover(): void {
    for (const path of covered.splice(0).reverse()) must('umount', '-l', path);
  }

  return {
    /** Its path. */
    folder,
    /** Takes every free byte. */
    fill() {
      const file = openSync(filler, 'w');
      try {
        for (;;) writeSync(file, Buffer.alloc(PAGE_BYTES));
      } catch (error) {
        if ((error as { code?: string }).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
    },
    /** Gives them back. */
    free: () => rmSync(filler),
    /**
     * From now on whatever is opened here, or this file alone, is opened read-only. With files open for writing, the disk
     * itself can't be made so.
     */
    coverReadOnly(file = '') {
      const path = join(folder, file);
      must('mount', '--bind', path, path);
      covered.push(path);
      must('mount', '-o', 'remount,bind,ro', path);
    },
    /** From now on there is an empty read-only disk here. */
    coverEmpty() {
      must('mount', '-t', 'tmpfs', '-o', 'size=64k,ro', 'tmpfs', folder);
      covered.push(folder);
    },
    uncover,
    [Symbol.dispose]() {
      uncover();
      must('umount', '-l', folder);
    },
  };
}
