// Creates files and folders that only their owner can read.

import { closeSync, mkdirSync, openSync } from 'node:fs';

/** Creates a folder that only its owner can read: the database says who has which keys. Leaves an existing one as is. */
export const makeOwn = (folder: string) => mkdirSync(folder, { recursive: true, mode: 0o700 });

/**
 * Creates an empty file that only its owner can read. Never opens an existing file or link: closing it would release the
 * locks that this process holds on it (POSIX). Throws if it can't be created.
 */
export function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
}
