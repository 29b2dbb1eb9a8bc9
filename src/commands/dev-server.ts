// `mcp-key-server dev`: serves, and takes over tools that change, come or go in the folder of tools, without a restart.

import { existsSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import { SERVER_NAME } from '../ground/server-info.ts';
import { thisRuntime } from '../start/package/start.ts';
import { start } from '../start/server.ts';
import { command } from './command.ts';

/** Calls `changed` at every change of the folder, and when it appears. */
function watchTools(folder: string, changed: () => void): void {
  if (existsSync(folder)) return void watch(folder, { recursive: true }, changed);
  const parent = dirname(folder);
  const watcher = watch(parent, (_, name) => {
    if (name !== basename(folder) || !existsSync(folder)) return;
    watcher.close();
    watchTools(folder, changed);
    changed();
  });
}

export const dev = command({
  name: 'dev',
  summary: 'Serves, and takes over tools as their files change. A mistake in one keeps the tools as they were.',
  options: {},
  async run() {
    const { runtime } = await thisRuntime();
    await start({ ...runtime, runScript: runtime.executable ?? SERVER_NAME }, {}, watchTools);
  },
});

if (import.meta.main) await start((await thisRuntime()).runtime, {}, watchTools);
