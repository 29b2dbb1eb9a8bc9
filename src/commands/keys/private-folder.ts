// What a verb writes for itself alone: gone when it ends, by a signal too.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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

/** Runs `use` with a folder that its owner alone can read. */
export function withPrivateFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'keys-')); // 0700
  return removing(folder, () => use(folder));
}
