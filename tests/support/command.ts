// Runs a command to its end.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './documents.ts';
import { temporaryFolder } from './folder.ts';

export interface RunOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
}

export async function run(command: readonly string[], { cwd, env = {}, stdin = '' }: RunOptions) {
  const child = Bun.spawn([...command], {
    cwd,
    // Bun keeps its cache at home: not in this checkout.
    env: { PATH: process.env.PATH ?? '', HOME: cwd === ROOT ? temporaryFolder() : cwd, ...env },
    stdin: new Blob([stdin]),
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [code, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, stdout, stderr };
}

/** The same for what must succeed; returns its stdout. */
export async function output(command: readonly string[], options: RunOptions): Promise<string> {
  const { code, stdout, stderr } = await run(command, options);
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}: ${stderr}${stdout}`);
  return stdout;
}

/** A PATH with a program that notes its arguments, which everybody on a machine can read, and runs the real one. */
export function noting(program: string, firstLines = '') {
  const folder = temporaryFolder();
  const notes = join(folder, 'notes');
  const lines = ['#!/bin/bash', `printf '%s\\n' "$*" >>'${notes}'`, firstLines, `exec '${Bun.which(program)}' "$@"`];
  writeFileSync(join(folder, program), lines.join('\n'), { mode: 0o755 });
  return { path: `${folder}:${process.env.PATH}`, noted: () => readFileSync(notes, 'utf8').trimEnd().split('\n') };
}

/** First lines for `noting('curl', …)`: it is that of Ubuntu 22.04, which has no --json. */
export const CURL_7_81 = `[[ " $* " == *' --json '* ]] && { echo 'curl: option --json: is unknown' >&2; exit 2; }`;

/** The errors that `tsc` prints, without the lines that say more of one. */
export const errorsIn = (stdout: string): string[] => stdout.split('\n').filter((line) => /^\S/.test(line));
