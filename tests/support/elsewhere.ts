// A change by another process, made while this one waits for it.

import { join } from 'node:path';

/**
 * Revokes all keys of an owner, in the database of an app whose keys are in a file. In a process of its own, because two
 * SQLite libraries in one process break each other's locks.
 */
export function revokeElsewhere(folder: string, owner: string): void {
  const script = `new (require('bun:sqlite').Database)(${JSON.stringify(join(folder, 'keys.db'))})
    .run('UPDATE api_keys SET active = 0 WHERE user_id = ?', [${JSON.stringify(owner)}])`;
  const { success, stderr } = Bun.spawnSync([process.execPath, '-e', script]);
  if (!success) throw new Error(stderr.toString());
}
