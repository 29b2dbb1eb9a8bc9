// `mcp-key-server dev`: serves, and reloads tools that change in their folder, without a restart.

import { startAsCommand, thisRuntime } from '../start/package/start.ts';
import { createReloader } from '../start/reload.ts';
import { start } from '../start/server.ts';
import { command } from './command.ts';

export const dev = command({
  name: 'dev',
  summary: 'Serves, and takes over tools as their files change. A mistake in one keeps the tools as they were.',
  run: () => startAsCommand(createReloader),
});

if (import.meta.main) void thisRuntime().then(({ runtime }) => start(runtime, {}, createReloader));
