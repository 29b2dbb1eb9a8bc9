// What a verb says, asks and prints, for people and for scripts.

import { createInterface } from 'node:readline/promises';
import { rfc3339 } from '../../lib/rfc3339.ts';
import { withoutControls } from '../../lib/text.ts';
import { redact } from '../../log/redact.ts';
import { CommandError, ReaderLeft } from './verb.ts';

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
