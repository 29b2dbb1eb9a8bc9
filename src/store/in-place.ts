// Checks that the database file is still where it was opened. When the file is moved, removed or replaced, SQLite goes
// on reading and writing the opened one, which nobody finds there again: creations would be acknowledged and lost, and
// revocations by other processes would go unseen. So no statement runs until the file is back, or this process is
// started again.

import { statSync } from 'node:fs';
import { err } from '../problem.ts';
import { type Database, gated, unavailable } from './database.ts';

const ELSEWHERE = err(
  unavailable('unreachable', 'the database file was moved, removed or replaced; start the server anew'),
);

/** `db`, which is open, but only while its file is at `path`. */
export function inPlace(db: Database, path: string): Database {
  const opened = fileAt(path);
  return gated(db, async (run) => (fileAt(path) === opened ? run() : ELSEWHERE));
}

/** Identifies the file at `path`; null if there is none. Takes 2 µs, next to 40 for the quickest statement. */
function fileAt(path: string): string | null {
  try {
    const { dev, ino } = statSync(path);
    return `${dev} ${ino}`;
  } catch {
    return null; // whatever the reason, it is not there
  }
}
