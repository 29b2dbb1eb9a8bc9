// Runs the subcommands of `mcp-key-server`: dev, token, health, keys.

import { SERVER_NAME, SERVER_VERSION } from '../ground/server-info.ts';
import { type Command, mainOf, runNamed } from './command.ts';

const COMMANDS = {
  dev: async () => (await import('./dev-server.ts')).dev,
  token: async () => (await import('./token.ts')).token,
  health: async () => (await import('./health.ts')).health,
  keys: async () => (await import('./keys.ts')).keys,
};

const runCommand = runNamed(COMMANDS, 'command', (io) =>
  io.write(`usage: ${SERVER_NAME} [${Object.keys(COMMANDS).join(' | ')}] …\nWithout a command it serves.\n`),
);

const all: Pick<Command, 'run'> = {
  run(args, io) {
    const isVersion = args[0] === '--version' || args[0] === '-v';
    return isVersion ? io.write(`${SERVER_VERSION}\n`) : runCommand(args, io);
  },
};

export const main = mainOf(all, SERVER_NAME);
