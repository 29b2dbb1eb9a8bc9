// Defines commands, and runs them: parses arguments, prints help, and turns what is thrown into a message and an exit
// code: 0 done, 1 failed, 2 wrong usage or not confirmed, 3 no server answers.

import { constants } from 'node:os';
import { type Awaitable, StoreOutage } from '../ground/result.ts';
import { reasonOf } from '../ground/text.ts';
import { excerptOf } from '../watch/redact.ts';
import { CommandError, createIo, type Io, type IoStreams, ReaderLeft, UsageError } from './io.ts';
import { nearest, type Option, type Options, parsed, type ValuesOf } from './options.ts';

interface Definition<O extends Options, A> {
  /** The name as typed, without the program that runs it. */
  readonly name: string;
  readonly summary: string;
  readonly options?: O;
  readonly argument?: Option<A>;
  /** Runs the command. Throws a CommandError if it fails. */
  run(given: { readonly options: ValuesOf<O>; readonly argument: A; readonly io: Io }): Promise<void> | void;
}

export interface Command {
  readonly usage: string;
  readonly summary: string;
  run(args: readonly string[], io: Io): Promise<void>;
}

const NO_ARGUMENT: Option<undefined> = { value: '', most: 0, read: () => undefined };

export function command<const O extends Options = Record<never, never>, A = undefined>(
  definition: Definition<O, A>,
): Command {
  const { name, summary, options = {} as O, run } = definition;
  const argument = definition.argument ?? (NO_ARGUMENT as Option<A>);
  const usage = [name, ...shownArgument(argument), ...Object.entries(options).map(shown)].join(' ');
  return {
    usage,
    summary,
    async run(args, io) {
      if (asksForHelp(args)) return io.write(helpOf({ usage, summary }));
      try {
        await run({ ...parsed(args, options, argument), io });
      } catch (error) {
        throw error instanceof UsageError ? new CommandError(`${error.message}\nusage: ${usage}`, 2) : error;
      }
    },
  };
}

/** Returns what --help prints of a command. */
export const helpOf = ({ usage, summary }: Pick<Command, 'usage' | 'summary'>): string =>
  `usage: ${usage}\n${wrapped(summary)}`;

const COLUMNS = 80;

/** Breaks a text into lines of at most 80 columns, each indented. */
export const wrapped = (text: string, indent = ''): string =>
  text.replace(new RegExp(`(.{1,${COLUMNS - indent.length}}|\\S+)(?: |$)`, 'g'), `${indent}$1\n`);

function shown([name, { value, isNeeded, most = 1 }]: [string, Option<unknown>]): string {
  const text = value === null ? `--${name}` : `--${name} ${value}`;
  return (isNeeded ? text : `[${text}]`) + (most > 1 ? '…' : '');
}

const shownArgument = ({ value, isNeeded, most = 1 }: Option<unknown>): readonly string[] =>
  value ? [(isNeeded ? `<${value}>` : `[${value}]`) + (most > 1 ? '…' : '')] : [];

const asksForHelp = (args: readonly string[]): boolean => args.includes('--help') || args.includes('-h');

/** Commands by name. Each is loaded when it is called, because others don't need its modules. */
type Commands = Readonly<Record<string, () => Awaitable<Pick<Command, 'run'>>>>;

/** Returns a function that runs the command that the first argument names, or `help` if there is none or it asks for that. */
export const runNamed =
  (commands: Commands, what: 'verb' | 'command', help: (io: Io) => Promise<void>): Command['run'] =>
  async ([name = '--help', ...args], io) => {
    if (asksForHelp([name])) return help(io);
    const load = Object.hasOwn(commands, name) ? commands[name] : undefined;
    if (load !== undefined) return (await load()).run(args, io);
    const names = Object.keys(commands);
    const near = nearest(name, names);
    const hint = near === undefined ? `there are ${names.join(', ')}` : `did you mean ${near}?`;
    throw new CommandError(`there is no ${what} ${excerptOf(name)}; ${hint}`, 2);
  };

/**
 * Lets signals end the first process of a container, which the system sends only those that it handles. A command with
 * its own handler ends itself.
 */
function endAtSignals(): void {
  if (process.pid !== 1) return;
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (process.listenerCount(signal) === 1) process.exit(128 + constants.signals[signal]);
    });
  }
}

/** Returns the error as shown to a person; null: it is a bug. */
function failureOf(thrown: unknown): CommandError | null {
  if (thrown instanceof CommandError) return thrown;
  if (thrown instanceof StoreOutage) return new CommandError(`store_unavailable: ${thrown.reason}`);
  // The system refused: a missing folder, no right to write, a full disk. The message says which.
  const { syscall } = Object(thrown) as { readonly syscall?: unknown };
  return typeof syscall === 'string' ? new CommandError(reasonOf(thrown)) : null;
}

/**
 * Returns a function that runs the command to its end, and returns the exit code. It throws on a bug. Tests pass other
 * streams.
 */
export function mainOf({ run }: Pick<Command, 'run'>, as: string) {
  return async (args: readonly string[], streams: IoStreams = process): Promise<number> => {
    const io = createIo(streams);
    endAtSignals();
    try {
      await run(args, io);
      io.clearProgress();
      return 0;
    } catch (error) {
      io.clearProgress();
      if (error instanceof ReaderLeft) return 0;
      const failure = failureOf(error);
      if (failure === null) throw error;
      io.say(`${as}: ${failure.message}`);
      return failure.exitCode;
    }
  };
}

/**
 * Runs a command as the whole of this process. Modules don't await it at their top level, which CommonJS can't, and
 * Bun makes bytecode of CommonJS.
 */
export async function endWith(main: ReturnType<typeof mainOf>): Promise<void> {
  process.exitCode = await main(process.argv.slice(2));
}
