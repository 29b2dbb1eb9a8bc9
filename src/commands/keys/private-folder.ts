// Creates a verb's temporary files, and removes them when it ends, even by a signal.

import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Io } from '../io.ts';

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Removes these secret files after `use`, or when a signal ends the command. */
export async function removing<T>(paths: readonly string[], use: () => Promise<T>): Promise<T> {
  const remove = () => {
    for (const path of paths) rmSync(path, { recursive: true, force: true });
  };
  const end = (signal: NodeJS.Signals) => {
    remove();
    for (const ending of ENDING) process.off(ending, end);
    process.kill(process.pid, signal); // ends the process, now that no handler is left
  };
  for (const ending of ENDING) process.on(ending, end);
  try {
    return await use();
  } finally {
    for (const ending of ENDING) process.off(ending, end);
    remove();
  }
}

/**
 * The prefix of commands' folders on this machine, followed by the process id. Containers may share a temporary folder,
 * where process ids of other machines mean nothing.
 */
const NAMED = `keys-${hostname().replace(/[^A-Za-z0-9.]/g, '_')}-`;

/** Runs `use` with a folder that only its owner can read. Removes folders left by killed commands. */
export function withPrivateFolder<T>(io: Io, use: (folder: string) => Promise<T>): Promise<T> {
  removeLeft(io);
  const folder = mkdtempSync(join(tmpdir(), `${NAMED}${process.pid}-`)); // 0700
  return removing([folder], () => use(folder));
}

function removeLeft({ say }: Io): void {
  const uid = process.getuid?.();
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(NAMED) ? /^(\d+)-/.exec(name.slice(NAMED.length))?.[1] : undefined;
    if (pid === undefined || isRunning(Number(pid))) continue;
    const path = join(tmpdir(), name);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat?.isDirectory() || (uid !== undefined && stat.uid !== uid)) continue;
    rmSync(path, { recursive: true, force: true });
    say(`removed what a command that was killed had left: ${path}`);
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
