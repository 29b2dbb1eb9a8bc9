// The command `keys`: in this process, or as a process of its own where a shell, a terminal or a signal is concerned.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import type { IoStreams } from '../../src/commands/io.ts';
import { main } from '../../src/commands/keys.ts';
import { run } from './command.ts';
import { temporaryFolder } from './folder.ts';

const COMMAND = join(import.meta.dir, '../../src/commands/keys.ts');

type Env = Readonly<Record<string, string>>;

/** Runs a command in this process, with an environment of its own. */
export async function inProcess(
  command: (args: readonly string[], streams: IoStreams) => Promise<number>,
  env: IoStreams['env'],
  args: readonly string[],
  stdin = '',
) {
  const written = { stdout: '', stderr: '' };
  const into = (name: keyof typeof written) =>
    new Writable({
      decodeStrings: false,
      write(chunk, _encoding, taken) {
        written[name] += chunk;
        taken();
      },
    });
  const streams = { env, stdin: Readable.from([stdin]), stdout: into('stdout'), stderr: into('stderr') };
  const code = await command(args, streams);
  return { code, ...written };
}

/** What a command printed with --json. */
// biome-ignore lint/suspicious/noExplicitAny: tests read lines of any shape
export const jsonLines = ({ stdout }: { readonly stdout: string }): any[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

export const keysCommand = (env: IoStreams['env'], args: readonly string[], stdin = '') =>
  inProcess(main, env, args, stdin);

/** What a command prints that must succeed. */
export async function keysOutput(env: IoStreams['env'], args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await keysCommand(env, args);
  if (code !== 0) throw new Error(`keys ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** A program that is the command: one word for a script, whatever the path of this checkout is. */
export function keysProgram(): string {
  const program = join(temporaryFolder(), 'keys');
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" --no-env-file "${COMMAND}" "$@"\n`, { mode: 0o755 });
  return program;
}

/** As a process, for what only one has: its time zone and temporary folder. */
export const keysProcess = (env: Env, args: readonly string[]) => ended(argvOf(args), env);

/** With its stdout read by a command of the shell. */
export const keysInto = (reader: string, env: Env, args: readonly string[]) =>
  ended(['bash', '-o', 'pipefail', '-c', `"$0" "$@" | ${reader}`, ...argvOf(args)], env);

/** With its stdout read by nobody any more. */
export const keysIntoNothing = (env: Env, args: readonly string[]) =>
  ended(['bash', '-c', 'exec 3> >(:); wait $!; "$0" "$@" >&3', ...argvOf(args)], env);

/** With its stdout where the shell puts it: `>&-`. */
export const keysTo = (redirection: string, env: Env, args: readonly string[]) =>
  ended(['bash', '-c', `"$0" "$@" ${redirection}`, ...argvOf(args)], env);

/** Starts it and does not wait; what it leaves for a while is in the folder `temporary`. */
export const startKeys = (
  env: Env,
  args: readonly string[],
  temporary: string,
  more: object = { stdio: ['ignore', 'ignore', 'ignore'] },
) =>
  Bun.spawn(argvOf(args), {
    cwd: temporaryFolder(),
    env: { PATH: process.env.PATH ?? '', HOME: temporaryFolder(), TMPDIR: temporary, ...env },
    ...more,
  });

const argvOf = (args: readonly string[]) => [process.execPath, '--no-env-file', COMMAND, ...args];

const ended = (argv: readonly string[], env: Env) => run(argv, { cwd: temporaryFolder(), env: { TZ: 'UTC', ...env } });
