// Ends and removes what a run has left, so that nothing of it goes on after an interruption: processes (where there is
// /proc), its folder, and its folders on the memory disk (tests/support/folder.ts).

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

const MEMORY_DISK = '/dev/shm';

/** Returns the processes that descend from `pid`, and those that were started with `folder` as TMPDIR. */
export function processesOf(pid: number, folder: string): number[] {
  if (!existsSync('/proc/self/environ')) return [];
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((one) => one !== process.pid);
  const parents = new Map(processes.map((one) => [one, parentOf(one)]));
  const descends = (one: number): boolean => {
    const parent = parents.get(one);
    return parent !== undefined && (parent === pid || descends(parent));
  };
  return processes.filter((one) => descends(one) || read(one, 'environ').split('\0').includes(`TMPDIR=${folder}`));
}

export function kill(processes: readonly number[]): void {
  for (const one of processes) {
    try {
      process.kill(one, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

export function removeFolders(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  if (!existsSync(MEMORY_DISK)) return;
  for (const name of readdirSync(MEMORY_DISK)) {
    if (name.startsWith(`${basename(folder)}-`)) rmSync(join(MEMORY_DISK, name), { recursive: true, force: true });
  }
}

const parentOf = (pid: number): number => Number(/^PPid:\t(\d+)$/m.exec(read(pid, 'status'))?.[1] ?? 0);

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // it has ended, or is another user's
  }
}
