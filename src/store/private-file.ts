// Files for their owner alone. SQLite and the driver make theirs as the process's umask says, usually for everybody to
// read, but give the files beside a database the permissions of the database, and keep those of a file that is there.

import { closeSync, openSync } from 'node:fs';

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
