// A change by another process, made while this one waits for it.

import { join } from 'node:path';

/**
 * Runs a statement in the database of an app whose keys are in a file. In a process of its own, because two SQLite
 * libraries in one process break each other's locks.
 */
export function runElsewhere(folder: string, sql: string, values: readonly string[]): void {
  const script = `new (require('bun:sqlite').Database)(${JSON.stringify(join(folder, 'keys.db'))})
    .run(${JSON.stringify(sql)}, ${JSON.stringify(values)})`;
  const { success, stderr } = Bun.spawnSync([process.execPath, '-e', script]);
  if (!success) throw new Error(stderr.toString());
}
