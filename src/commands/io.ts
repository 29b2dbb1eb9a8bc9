// The input of commands with its configuration, their output for people and scripts, and the errors that end a command.

import { createInterface } from 'node:readline/promises';
import { type Config, parseConfig } from '../config/config.ts';
import type { Env } from '../config/env.ts';
import { rfc3339 } from '../ground/runtime.ts';
import { escapedUnit, withoutControls } from '../ground/text.ts';
import { redact } from '../watch/redact.ts';

/** Ends the command with a redacted message. */
export class CommandError extends Error {
  override name = 'CommandError';
  constructor(
    message: string,
    readonly exitCode: 1 | 2 | 3 = 1,
  ) {
    super(redact(withEscapes(message)));
  }
}

/** A CommandError whose message is followed by the command's usage. */
export class UsageError extends CommandError {
  constructor(message: string) {
    super(message, 2);
  }
}

/** Ends the command silently: the reader of its output (`| head`) has closed the pipe. */
export class ReaderLeft extends Error {
  override name = 'ReaderLeft';
}

/** `process`, or a test's replacement. */
export interface IoStreams {
  readonly env: Env;
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: NodeJS.WritableStream & { readonly fd?: number };
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/** Returns the configuration. Secrets for user tokens are only required if `verifiesUsers`. Throws a CommandError. */
export function configOf({ env }: IoStreams, options = { verifiesUsers: false }): Config {
  const parsed = parseConfig(env, options);
  if (!parsed.ok) throw new CommandError(parsed.error.join('\n'));
  return parsed.value;
}

/** Shows how much of the work is done. */
export type Progress = (done: number, total: number) => void;

/** The cells of each row. */
type Rows = readonly (readonly string[])[];

export type Io = ReturnType<typeof createIo>;

/** Short work needs no progress. */
const PROGRESS_AFTER_MS = 2000;
const PROGRESS_EVERY_MS = 100;
/** Clears a terminal's line from the cursor to its end (ECMA-48 EL). */
const CLEAR_REST = '\x1b[K';

export function createIo({ env, stdin, stdout, stderr }: IoStreams) {
  stdout.on('error', () => {}); // handled in `write`
  stderr.on('error', () => {}); // as in `say`
  let isShown = false; // whether there is a progress line
  /** Removes the progress line, like every other output does first. */
  function clearProgress(): void {
    if (isShown) stderr.write(`\r${CLEAR_REST}`);
    isShown = false;
  }
  /** Writes one or more lines to stderr. */
  function say(line: string): void {
    clearProgress();
    try {
      stderr.write(`${redact(withEscapes(line))}\n`);
    } catch {
      // Deno throws some errors. The command does its work, whether or not anybody can read what it says.
    }
  }
  async function write(text: string): Promise<void> {
    clearProgress();
    const written = new Promise<void>((resolve, reject) => {
      stdout.write(text, (error?: Error | null) => (error ? reject(error) : resolve())); // Deno throws some errors
    });
    await written.catch((error) => {
      throw unwritten(error);
    });
  }
  return {
    env,
    stdin,
    stdout,
    stderr,
    say,
    write,
    clearProgress,
    writeJson: (rows: readonly object[]) => write(rows.map((row) => `${withEscapes(JSON.stringify(row))}\n`).join('')),
    writeTable: (rows: Rows) => write(tableOf(rows)),
    /** Creates the function that writes a table in pages, the first below its heads. */
    pagesUnder(heads: readonly string[]) {
      let above = [heads];
      return async (page: Rows) => {
        await write(tableOf([...above, ...page]));
        above = [];
      };
    },
    /** Asks for confirmation on a terminal. Scripts must pass `yes`. */
    async confirm(question: string, yes: boolean): Promise<void> {
      clearProgress();
      if (yes) return;
      if (!stdin.isTTY) throw new CommandError(`${question} Confirm with --yes`, 2);
      const asking = createInterface({ input: stdin, output: stderr });
      const left = new Promise<string>((resolve) => asking.once('close', () => resolve(''))); // Ctrl-C or Ctrl-D
      const answered = asking.question(`${withEscapes(question)} [y/N] `).catch(() => ''); // Deno lets it wait then
      const answer = await Promise.race([answered, left]);
      asking.close();
      if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('nothing was changed', 2);
    },
    /** Creates a progress line for long work, shown only on a terminal, after two seconds. */
    progressOf(what: string): Progress {
      const beganMs = performance.now();
      let shownMs = beganMs + PROGRESS_AFTER_MS - PROGRESS_EVERY_MS;
      return (done, total) => {
        const nowMs = performance.now();
        if (!stderr.isTTY || nowMs - shownMs < PROGRESS_EVERY_MS) return;
        shownMs = nowMs;
        stderr.write(`\r${done} of ${total} ${what}${CLEAR_REST}`);
        isShown = true;
      };
    },
  };
}

const unwritten = ({ code, message }: NodeJS.ErrnoException) =>
  code === 'EPIPE' ? new ReaderLeft() : new CommandError(`stdout: ${message}`);

/** Removes what could move the cursor, because owners may have chosen the text. */
const shownText = (text: string) => withoutControls(text).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, '');

/** The same, for multi-line text: controls except line feeds, and characters that reorder or break lines. */
const OBEYED = /[\0-\t\v-\x1f\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Writes what a terminal would obey as JSON escapes: visible, and parsed back to the same text. */
const withEscapes = (text: string): string =>
  text.replace(OBEYED, (character) => character.split('').map(escapedUnit).join(''));

/** Characters that take two columns of a terminal. */
const WIDE = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{Emoji_Presentation}\uff01-\uff60\uffe0-\uffe6]/u;
/** Characters that take none: they are drawn over the one before. */
const COMBINING = /\p{M}/u;

/** Returns how many columns of a terminal a text takes. Only Bun knows it; elsewhere it is nearly right. */
function columnsOf(text: string): number {
  if ('Bun' in globalThis) return Bun.stringWidth(text);
  const widths = Array.from(text, (char) => (COMBINING.test(char) ? 0 : WIDE.test(char) ? 2 : 1));
  return widths.reduce<number>((sum, width) => sum + width, 0);
}

function tableOf(rows: Rows): string {
  const shown = rows.map((cells) => cells.map(shownText));
  const widths = (shown[0] ?? []).map((_, column) =>
    shown.reduce((width, cells) => Math.max(width, columnsOf(cells[column] ?? '')), 0),
  );
  const padded = (cell: string, column: number) =>
    cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - columnsOf(cell)));
  return shown.map((cells) => `${cells.map(padded).join('  ').trimEnd()}\n`).join('');
}

export function cut(text: string, columns: number): string {
  const shown = shownText(text);
  if (columnsOf(shown) <= columns) return shown;
  const kept = [...shown];
  while (columnsOf(kept.join('')) >= columns) kept.pop();
  return `${kept.join('')}…`;
}

export const keysCounted = (count: number): string => `${count} active ${count === 1 ? 'key' : 'keys'}`;

export const isoTime = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));

/** Formats a time in ISO 8601 in the machine's zone, without fractions; `-` for null. */
export function localTime(ms: number | null): string {
  if (ms === null) return '-';
  const offsetMin = -new Date(rfc3339(ms)).getTimezoneOffset();
  const local = rfc3339(ms + offsetMin * 60_000).slice(0, 19);
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMin) / 60), Math.abs(offsetMin) % 60];
  const two = (part: number) => String(part).padStart(2, '0');
  return offsetMin === 0 ? `${local}Z` : `${local}${offsetMin < 0 ? '-' : '+'}${two(hours)}:${two(minutes)}`;
}
