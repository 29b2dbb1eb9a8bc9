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
import { StoreOutage } from '../../ground/result.ts';

const ELSEWHERE = 'the database file was moved, removed or replaced; start the server anew';
const LOG_GONE =
  "the database's write-ahead log (-wal, -shm) was removed or replaced; start the server anew. What it held may be lost: look at the latest creations and revocations";

export type Place = ReturnType<typeof placeOf>;

/** The place of the file at `path`, whose log is open. */
export function placeOf(path: string) {
  const file = lstatSync(path).isSymbolicLink() ? realpathSync(path) : path; // the log is beside the file itself
  const [wal, shm] = [`${file}-wal`, `${file}-shm`];
  const [fileThen, walThen, shmThen] = [fileAt(path), fileAt(wal), fileAt(shm)];
  let lost = false;

  function misplaced(): string | null {
    if (lost) return LOG_GONE;
    if (fileAt(path) !== fileThen) return ELSEWHERE;
    lost = fileAt(wal) !== walThen || fileAt(shm) !== shmThen;
    return lost ? LOG_GONE : null;
  }

  return {
    /** Throws a StoreOutage unless everything is in its place. */
    check(): void {
      const reason = misplaced();
      if (reason !== null) throw new StoreOutage(reason);
    },
    /** Then nothing of it may get into the file: others have written there since. */
    get logIsLost(): boolean {
      return misplaced() === LOG_GONE;
    },
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
