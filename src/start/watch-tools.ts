// Watches the folder of tools while a development server runs.

import { existsSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Calls `changed` at every change of the folder, and when it appears. */
export function watchTools(folder: string, changed: () => void): void {
  if (existsSync(folder)) return void watch(folder, { recursive: true }, changed);
  const parent = dirname(folder);
  const watcher = watch(parent, (_, name) => {
    if (name !== basename(folder) || !existsSync(folder)) return;
    watcher.close();
    watchTools(folder, changed);
    changed();
  });
}
