// Creates files and folders that only their owner can read.

import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';

/** Creates a folder that only its owner can read: the database says who has which keys. Leaves an existing one as is. */
export const makeOwn = (folder: string) => mkdirSync(folder, { recursive: true, mode: 0o700 });

/** Its owner alone may read and write. */
const PRIVATE = 0o600;

/**
 * Creates an empty file that only its owner can read; of a link to nothing, the file where it leads. Never opens an existing
 * file: closing it would release the locks that this process holds on it (POSIX). Throws if it can't be created.
 */
export function makePrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', PRIVATE));
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
    if (!existsSync(path)) closeSync(openSync(path, 'a', PRIVATE)); // the first refuses every link
  }
}
