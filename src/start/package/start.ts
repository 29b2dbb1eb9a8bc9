// Starts the server from a program, like the command: with signals, graceful shutdown, TLS and banner. The configuration
// comes from the environment.

import type { StartOptions } from '../../tools/folder/tool-file.ts';
import type { CreateReloader } from '../reload.ts';
import { start as startOn } from '../server.ts';

/** Resolves with the runtime of Bun, or of Deno. */
export function thisRuntime() {
  if ('Deno' in globalThis) return import('../../main.deno.ts');
  if ('Bun' in globalThis) return import('../../main.ts');
  throw new Error('mcp-key-server runs on Bun and on Deno, and this is neither');
}

/** Resolves when the server listens. A start that fails ends the process, with one line on stderr. */
export async function start(options: StartOptions = {}): Promise<void> {
  const { runtime } = await thisRuntime();
  // In an executable, such a command would only start a second server.
  await startOn({ ...runtime, runScript: runtime.executable === undefined ? runtime.packageCommand() : null }, options);
}

/** Starts the server as the command `mcp-key-server`, beside its other commands. */
export async function startAsCommand(createReloader?: CreateReloader): Promise<void> {
  const { runtime } = await thisRuntime();
  await startOn({ ...runtime, runScript: runtime.executable ?? runtime.packageCommand() }, {}, createReloader);
}
