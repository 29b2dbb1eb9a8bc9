// What a verb writes for itself alone: gone when it ends, by a signal too.

import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { say } from './terminal.ts';

/** Signals by which a person or a supervisor ends a command. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Removes `path`, which holds what nobody else may read, after `use`, and when a signal ends the command meanwhile. */
export async function removing<T>(path: string, use: () => Promise<T>): Promise<T> {
  const remove = () => rmSync(path, { recursive: true, force: true });
  const end = (signal: NodeJS.Signals) => {
    remove();
    for (const ending of ENDING) process.off(ending, end);
    process.kill(process.pid, signal); // now it ends the process, as it would have
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
 * The folders of commands of this machine begin so, then comes the process. (In a container with a temporary folder that
 * others share, the number of a process says nothing of theirs.)
 */
const NAMED = `keys-${hostname().replace(/[^A-Za-z0-9.]/g, '_')}-`;

/** Runs `use` with a folder that its owner alone can read. One that was left by a command that was killed is removed. */
export function withPrivateFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  removeLeft();
  const folder = mkdtempSync(join(tmpdir(), `${NAMED}${process.pid}-`)); // 0700
  return removing(folder, () => use(folder));
}

function removeLeft(): void {
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

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
