// Runs the subcommands of `mcp-key-server`: dev, token, health, keys.

import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { asksForHelp, type Command, loadCommand, mainOf } from './command.ts';

const COMMANDS = {
  dev: async () => (await import('./dev-server.ts')).dev,
  token: async () => (await import('./token.ts')).token,
  health: async () => (await import('./health.ts')).health,
  keys: async () => (await import('./keys.ts')).keys,
};

const all: Pick<Command, 'run'> = {
  async run([name = '--help', ...args], io) {
    if (name === '--version' || name === '-v') return io.write(`${SERVER_VERSION}\n`);
    if (!asksForHelp([name])) return (await loadCommand(name, COMMANDS, 'command')).run(args, io);
    const names = Object.keys(COMMANDS).join(' | ');
    return io.write(`usage: ${SERVER_NAME} [${names}] …\nWithout a command it serves.\n`);
  },
};

export const main = mainOf(all, SERVER_NAME);
