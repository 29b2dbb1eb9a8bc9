// The command `mcp-key-server` of the package and the executable: serves, or runs one of the other commands.

import { asksForHelp } from './commands/help.ts';
import { SERVER_VERSION } from './lib/server-info.ts';
import { start } from './package/start.ts';

const COMMANDS = new Map([
  ['token', () => import('./commands/token.ts')],
  ['health', () => import('./commands/health.ts')],
  ['keys', () => import('./commands/keys.ts')],
]);

async function main([name, ...args]: readonly string[]): Promise<void> {
  if (name === undefined) return start();
  if (name === '--version' || name === '-v') return void process.stdout.write(`${SERVER_VERSION}\n`);
  const command = COMMANDS.get(name);
  if (command !== undefined) return (await command()).main(args);
  const usage = `usage: mcp-key-server [${[...COMMANDS.keys()].join(' | ')}] …\n`;
  if (asksForHelp([name])) return void process.stdout.write(`${usage}Without a command it serves.\n`);
  process.stderr.write(usage);
  process.exitCode = 1;
}

if (import.meta.main) await main(process.argv.slice(2));
