// The command `mcp-key-server` of the package and the executable: serves, or runs one of the other commands.

import { startAsCommand } from './start/package/start.ts';

if (import.meta.main) {
  const args = process.argv.slice(2);
  if (args.length === 0) await startAsCommand();
  else process.exitCode = await (await import('./commands/all.ts')).main(args);
}
