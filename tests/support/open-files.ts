// The files and sockets a process has open, from /proc, so only on Linux.

import { readdirSync, readlinkSync } from 'node:fs';

/** What each open descriptor of a process leads to. */
export function openFiles(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${descriptor}`)];
    } catch {
      return []; // closed meanwhile
    }
  });
}
