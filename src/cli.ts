// The command `mcp-key-server` of the package and the executable: starts the server, or runs another command.

import { startAsCommand } from './start/package/start.ts';

/** Runs the command. Resolves when the server listens, or the command has ended. */
export async function main(): Promise<void> {
  const args = process.argv.slice(2);
  if (args.length === 0) await startAsCommand();
  else process.exitCode = await (await import('./commands/all.ts')).main(args);
}

if (import.meta.main) void main();
