// Files and folders that only their owner can read.

import { closeSync, mkdirSync, openSync } from 'node:fs';

/** Makes a folder that its owner alone can read: the database says who has which keys. Leaves an existing one as is. */
export const makeOwn = (folder: string) => mkdirSync(folder, { recursive: true, mode: 0o700 });

/**
 * Makes an empty file that its owner alone can read. One that exists, or a link, is left as it is, and never opened:
 * closing it would release the locks that this process holds on it (POSIX). Throws when it can't be made.
 */
export function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
}
