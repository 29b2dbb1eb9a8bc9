// What verbs say, ask and print, for people and for scripts.

import { createInterface } from 'node:readline/promises';
import { rfc3339 } from '../../lib/duration.ts';
import { withoutControls } from '../../lib/text.ts';
import { redact } from '../../log/redact.ts';
import { CommandError, ReaderLeft } from './verb.ts';

export const keysCounted = (count: number): string => `${count} active ${count === 1 ? 'key' : 'keys'}`;

export const say = (line: string) => void process.stderr.write(`${redact(line)}\n`);

/** Asks on a terminal. Scripts need `--yes`. */
export async function confirm(question: string, yes: boolean): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY) throw new CommandError(`${question} Confirm with --yes`, 2);
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await asking.question(`${question} [y/N] `).catch(() => ''); // Ctrl-C or Ctrl-D
  asking.close();
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('nothing was changed', 2);
}

/** The progress of long work, on a terminal in one line. */
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

export const writeJson = (rows: readonly object[]): Promise<void> =>
  writeOut(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

/** Text of owners must not move the cursor. */
const shownText = (text: string) => withoutControls(text).replace(/[\p{Cf}\p{Zl}\p{Zp}]/gu, '');

export function writeTable(rows: readonly (readonly string[])[]): Promise<void> {
  const shown = rows.map((cells) => cells.map(shownText));
  const widths = (shown[0] ?? []).map((_, column) => Math.max(...shown.map((cells) => columnsOf(cells[column] ?? ''))));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell + ' '.repeat(Math.max(0, (widths[column] ?? 0) - columnsOf(cell))))
      .join('  ')
      .trimEnd();
  return writeOut(shown.map((cells) => `${line(cells)}\n`).join(''));
}

/** `text` in at most `columns` columns of a terminal. */
export function cut(text: string, columns: number): string {
  const shown = shownText(text);
  if (columnsOf(shown) <= columns) return shown;
  let left = columns - 1;
  let kept = '';
  for (const character of shown) {
    left -= columnsOf(character);
    if (left < 0) break;
    kept += character;
  }
  return `${kept}…`;
}

/** As terminals count: ideographs and emoji take two, marks none. */
const columnsOf = (text: string): number =>
  [...text].reduce(
    (columns, character) => columns + (MARK.test(character) ? 0 : WIDE_CHARACTER.test(character) ? 2 : 1),
    0,
  );

const MARK = /\p{M}/u;
const WIDE_CHARACTER =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

export const isoTime = (ms: number | null): string | null => (ms === null ? null : rfc3339(ms));

/** ISO 8601 in the machine's zone, without fractions; `-` for null. */
export function localTime(ms: number | null): string {
  if (ms === null) return '-';
  const offsetMin = -new Date(rfc3339(ms)).getTimezoneOffset();
  const local = rfc3339(ms + offsetMin * 60_000).slice(0, 19);
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMin) / 60), Math.abs(offsetMin) % 60];
  const two = (part: number) => String(part).padStart(2, '0');
  return offsetMin === 0 ? `${local}Z` : `${local}${offsetMin < 0 ? '-' : '+'}${two(hours)}:${two(minutes)}`;
}
