// What the verbs of `keys` share: arguments, the opened database, questions, and output for people and for scripts.

import { hash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { type Config, type DatabaseConfig, parseConfig } from '../../config/config.ts';
import type { Env } from '../../config/env.ts';
import type { Origin } from '../../keys/actor.ts';
import { parseDuration } from '../../lib/duration.ts';
import type { Result } from '../../lib/result.ts';
import { rfc3339 } from '../../lib/rfc3339.ts';
import { type Sha256, systemClock } from '../../lib/runtime.ts';
import { reasonOf, withoutControls } from '../../lib/text.ts';
import { createLog } from '../../log/log.ts';
import { redact } from '../../log/redact.ts';
import type { Problem } from '../../problem.ts';
import { openStore, type Store } from '../../store/open.ts';

export interface Verb {
  /** What follows the verb. */
  readonly usage: string;
  readonly summary: string;
  /** Throws a CommandError when it can't be done. */
  run(args: readonly string[], env: Env): Promise<void>;
}

/** Ends the command: a line for the person, without secrets. */
export class CommandError extends Error {
  override name = 'CommandError';
  constructor(
    message: string,
    readonly exitCode: 1 | 2 = 1,
  ) {
    super(redact(message));
  }
}

/** Ends the command without a message: the reader of its output (`| head`) has enough. */
export class ReaderLeft extends Error {
  override name = 'ReaderLeft';
}

export const sha256: Sha256 = (text, encoding) => hash('sha256', text, encoding);

export const BY_COMMAND: Origin = { how: 'command', actor: null, requestId: null, address: null };

/** Options and up to `positionalsMax` other arguments, as `node:util` reads them. */
export function argumentsOf<T extends NonNullable<ParseArgsConfig['options']>>(
  args: readonly string[],
  options: T,
  verb: Verb,
  positionalsMax = 0,
) {
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true, tokens: true });
    const twice = twiceIn(parsed.tokens, options);
    if (twice !== undefined) throw new Error(`--${twice} is there twice`);
    if (parsed.positionals.length <= positionalsMax) return parsed;
  } catch (error) {
    throw usageError(verb, reasonOf(error));
  }
  throw usageError(verb, 'too many arguments');
}

/** An option with a value that is given more than once; `node:util` would take the last. */
function twiceIn(
  tokens: readonly { readonly kind: string; readonly name?: string }[],
  options: NonNullable<ParseArgsConfig['options']>,
): string | undefined {
  const names = tokens.flatMap(({ kind, name }) => (kind === 'option' && name !== undefined ? [name] : []));
  const isOne = (name: string) => options[name]?.type === 'string' && options[name]?.multiple !== true;
  return names.find((name, index) => names.indexOf(name) !== index && isOne(name));
}

/** The one argument of a verb that has no options but these. */
export function oneOf(positionals: readonly string[], what: string, verb: Verb): string {
  const [only] = positionals;
  if (!only) throw usageError(verb, `expected one ${what}`);
  return only;
}

export const usageError = ({ usage }: Verb, message: string) => new CommandError(`${message}\nusage: ${usage}`, 2);

export function durationOf(name: string, text: string): number {
  const ms = parseDuration(text);
  if (ms === null) throw new CommandError(`--${name}: expected a time like 12h or 90d`, 2);
  return ms;
}

/** A time in ISO 8601; without an offset it is in the zone of the machine, which by itself JavaScript does not do for a date. */
export function timeOf(name: string, text: string): number {
  const [, date, time = 'T00:00'] = LOCAL_OR_NOT.exec(text) ?? [];
  const ms = date === undefined || !isDay(date) ? Number.NaN : new Date(date + time).getTime();
  if (Number.isNaN(ms)) throw new CommandError(`--${name}: expected a time like 2026-01-31 or 2026-01-31T09:30:00Z`, 2);
  return ms;
}

/** Whether the calendar has a day, like `2026-02-28`: JavaScript takes February 30 for March 2. */
export function isDay(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date);
}

const LOCAL_OR_NOT = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?$/;

/** Of the server, without what it verifies user tokens with, unless that is asked for. */
export function configOf(env: Env, options = { verifiesUsers: false }): Config {
  const parsed = parseConfig(env, options);
  if (!parsed.ok) throw new CommandError(parsed.error.join('\n'));
  return parsed.value;
}

/** Only bugs: what fails is said to the person. */
export const stderrLog = () =>
  createLog({ level: 'error', clock: systemClock, write: async (chunk) => void process.stderr.write(chunk) });

/**
 * Runs `use` on the database of the configuration, past any replica, and closes it. It makes no file: at a mistyped path
 * all keys would seem to be gone.
 */
export async function withStore<T>(
  env: Env,
  use: (store: Store, config: Config) => Promise<T>,
  config = configOf(env),
): Promise<T> {
  const { database } = config;
  mustExist(database);
  const log = stderrLog();
  const primary = database.mode === 'remote' ? { ...database, replicaFile: null } : database;
  const store = await openStore(primary, { clock: systemClock, log, eventDays: config.eventDays }).catch((error) => {
    throw new CommandError(reasonOf(error));
  });
  try {
    return await use(store, config);
  } finally {
    await store.close();
    await log.flush();
  }
}

/** An empty file is none yet: to open it would make one. */
export function mustExist(database: DatabaseConfig): void {
  if (database.mode === 'remote' || (existsSync(database.path) && statSync(database.path).size > 0)) return;
  throw new CommandError(`DATABASE_URL: there is no database at ${JSON.stringify(database.path)}; a server makes it`);
}

/** The value, or an end with what went wrong. */
export function orFail<T>(result: Result<T, Problem>): T {
  if (result.ok) return result.value;
  const { error } = result;
  throw new CommandError('reason' in error ? `${error.code}: ${error.reason}` : error.code);
}

/** `1 active key`. */
export const keysCounted = (count: number): string => `${count} active ${count === 1 ? 'key' : 'keys'}`;

export const say = (line: string) => void process.stderr.write(`${redact(line)}\n`);

/** Asks on a terminal. In a script `--yes` is the answer. */
export async function confirm(question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY) throw new CommandError(`${question} Confirm with --yes`, 2);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await asking.question(`${question} [y/N] `).catch(() => ''); // Ctrl-C or Ctrl-D
  asking.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('nothing was changed', 2);
}

/** A line that says how far long work is: on a terminal always the same one. */
export function progressOf(total: number, what: string): (done: number) => void {
  const isTerminal = process.stderr.isTTY;
  return (done) => {
    const text = `${done} of ${total} ${what}`;
    if (isTerminal) process.stderr.write(`\r${text}${done >= total ? '\n' : ''}`);
    else say(text);
  };
}

/** Signals by which a person or a supervisor ends a command. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Removes `path`, which holds what nobody else may read, after `use`, and when a signal ends the command meanwhile. */
export async function removing<T>(path: string, use: () => Promise<T>): Promise<T> {
  const remove = () => rmSync(path, { recursive: true, force: true });
  const end = (signal: NodeJS.Signals) => {
    remove();
    for (const ending of ENDING) process.off(ending, end);
    process.kill(process.pid, signal); // now it ends the process, as it would have
  };
  for (const ending of ENDING) process.on(ending, end);
  try {
    return await use();
  } finally {
    for (const ending of ENDING) process.off(ending, end);
    remove();
  }
}

/** Runs `use` with a folder that its owner alone can read. */
export function withPrivateFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'keys-')); // 0700
  return removing(folder, () => use(folder));
}

export const writeOut = (text: string): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(unwritten(error)) : resolve()));
  });

const unwritten = ({ code, message }: NodeJS.ErrnoException) =>
  code === 'EPIPE' ? new ReaderLeft() : new CommandError(`stdout: ${message}`);

/** One object a line, for scripts. */
export const writeJson = (rows: readonly object[]): Promise<void> =>
  writeOut(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

/** Columns as wide as their longest cell; text of owners can't move the cursor. */
export function writeTable(rows: readonly (readonly string[])[]): Promise<void> {
  const shown = rows.map((cells) => cells.map((cell) => withoutControls(cell).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, '')));
  const widths = (shown[0] ?? []).map((_, column) => Math.max(...shown.map((cells) => cells[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return writeOut(shown.map((cells) => `${line(cells)}\n`).join(''));
}

export const isoTime = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));

/** ISO 8601 in the reader's zone, without fractions; `-` for never. */
export function localTime(ms: number | null): string {
  if (ms === null) return '-';
  const offsetMin = -new Date(rfc3339(ms)).getTimezoneOffset();
  const local = rfc3339(ms + offsetMin * 60_000).slice(0, 19);
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMin) / 60), Math.abs(offsetMin) % 60];
  const two = (part: number) => String(part).padStart(2, '0');
  return offsetMin === 0 ? `${local}Z` : `${local}${offsetMin < 0 ? '-' : '+'}${two(hours)}:${two(minutes)}`;
}
