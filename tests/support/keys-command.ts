// The command `keys`, as a process of its own.

import { join } from 'node:path';
import { run } from './command.ts';
import { temporaryFolder } from './folder.ts';

const COMMAND = join(import.meta.dir, '../../src/commands/keys.ts');

type Env = Readonly<Record<string, string>>;

export const keysCommand = (env: Env, args: readonly string[], stdin = '') => ended(argvOf(args), env, stdin);

/** With its stdout read by a command of the shell. */
export const keysInto = (reader: string, env: Env, args: readonly string[]) =>
  ended(['bash', '-o', 'pipefail', '-c', `"$0" "$@" | ${reader}`, ...argvOf(args)], env, '');

const argvOf = (args: readonly string[]) => [process.execPath, '--no-env-file', COMMAND, ...args];

const ended = (argv: readonly string[], env: Env, stdin: string) =>
  run(argv, { cwd: temporaryFolder(), env: { TZ: 'UTC', RUST_LOG: 'off', ...env }, stdin });
