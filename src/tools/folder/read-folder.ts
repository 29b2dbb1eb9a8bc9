// Reads the folder of the operator's tools: selects its files, imports each through the runtime (main.ts,
// main.deno.ts), and checks what it exports.

import { readdirSync, realpathSync } from 'node:fs';
import { basename, posix, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Cancel, withTimeout } from '../../ground/runtime.ts';
import type { MakePrompts, MakeTools, ToolFile } from './tool-file.ts';

export type ImportModule = (path: string) => Promise<object>;

/** Writes a line if the process ends before the returned function is called. */
type LastWords = (line: string) => Cancel;

/** The longest load of a file: one that waits must not delay the start forever. */
const LOAD_MS_MAX = 30_000;

/**
 * Returns the names of tool files. Leaves out `_*`, which tools share, tests (`*.test.*`), and hidden files, which
 * editors (`.#a.ts`) and macOS (`._a.ts`) create.
 */
const toolFileNames = (names: readonly string[]): readonly string[] =>
  names.filter((name) => /^[^._].*\.(ts|js|mjs)$/.test(name) && !/\.test\.\w+$|\.d\.ts$/.test(name)).sort();

/** Reads the files. Throws an Error for the operator. */
export async function readToolFolder(
  folder: string,
  importModule: ImportModule,
  lastWords: LastWords,
): Promise<readonly ToolFile[]> {
  const files: ToolFile[] = [];
  for (const name of toolFileNames(namesIn(folder))) {
    const file = posix.join(folder, name);
    const cancel = lastWords(`${file}: expected it to be loaded, but it ended the server${remedyOf(file)}`);
    const module = await loadModule(file, importModule(resolve(folder, name))).finally(cancel);
    files.push(toolFileOf(file, module));
  }
  return files;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    const expected = 'expected a folder that can be read, with the tools of your own';
    throw new Error(`TOOLS_DIR: ${expected}, got ${JSON.stringify(folder)} (${code ?? message})`);
  }
}

const MAKES_TOOLS = '(deps: ToolDeps) => Tool or Tool[]';

const remedyOf = (file: string) =>
  `; correct it, or rename it to ${posix.join(posix.dirname(file), `_${basename(file)}`)} to leave it out`;

async function loadModule(file: string, importing: Promise<object>): Promise<object> {
  try {
    const module = await withTimeout(importing, LOAD_MS_MAX, null);
    if (module === null) throw new Error(`expected it to be loaded within ${LOAD_MS_MAX / 1000} s`);
    return module;
  } catch (error) {
    throw unusableFile(file, error, remedyOf(file));
  }
}

function toolFileOf(file: string, module: object): ToolFile {
  const { default: made, prompts, resources } = module as { default?: unknown; prompts?: unknown; resources?: unknown };
  const make = made ?? undefined;
  if (make === undefined && (prompts ?? resources) === undefined) {
    const others = 'or an export prompts or resources';
    throw new Error(`${file}: expected a default export ${MAKES_TOOLS}, ${others}, got none${remedyOf(file)}`);
  }
  if (make !== undefined && typeof make !== 'function') {
    throw new Error(`${file}: expected a default export ${MAKES_TOOLS}, but it is of type ${typeof make}`);
  }
  if (prompts !== undefined && typeof prompts !== 'function') {
    throw new Error(`${file}: expected the export prompts to be a function (deps: ToolDeps) => Prompt or Prompt[]`);
  }
  return { file, make: make as MakeTools | undefined, makePrompts: prompts as MakePrompts | undefined, resources };
}

/** Creates a one-line Error for a file that threw or couldn't be loaded: file, place and reason. */
export function unusableFile(file: string, error: unknown, remedy = ''): Error {
  const first = error instanceof AggregateError ? error.errors[0] : error; // several syntax errors
  const { message = String(first) }: { message?: unknown } = Object(first); // anything can be thrown
  const [reason = ''] = String(message).trim().replaceAll(READ_AGAIN, '').split('\n');
  return new Error(`${file}${placeOf(file, first)}: ${reason}${remedy}`);
}

/** What commands/reloaded-bun.ts and reloaded-deno.ts add to the name of a file that is read again. */
const READ_AGAIN = /\?read=\d+/g;

interface Thrown {
  readonly position?: { readonly file: string; readonly line: number; readonly column: number } | null;
  readonly message?: string;
  readonly stack?: string;
}

/**
 * Returns `:line:column` in the file, or `: other:line:column` in one of its folder that it imports. A syntax error of Bun
 * has the place as a field, others in the message or stack.
 */
function placeOf(file: string, error: unknown): string {
  const { position, message, stack }: Thrown = Object(error);
  const text = position ? `${position.file}:${position.line}:${position.column}` : `${message}\n${stack}`;
  const names = writtenAs(file);
  for (const written of names) {
    const place = placesAfter(written, text).find((found) => found.startsWith(':'));
    if (place) return place;
  }
  for (const folder of names.map(posix.dirname)) {
    const [other] = placesAfter(`${folder}/`, text);
    if (other) return `: ${posix.join(posix.dirname(file), other)}`;
  }
  return '';
}

/** Returns what follows a path, as far as a `:line:column`. */
const placesAfter = (path: string, text: string): readonly string[] =>
  text
    .replaceAll(READ_AGAIN, '')
    .split(path)
    .slice(1)
    .flatMap((after) => {
      const [, name, place] = /^([^\n:]*)(:\d+:\d+)/.exec(after) ?? [];
      return place === undefined ? [] : [`${name}${place}`];
    });

/** Returns the names of the file in stacks: its full path or URL, since the library has a tool.ts, too. */
function writtenAs(file: string): readonly string[] {
  try {
    const paths = [resolve(file), realpathSync(file)];
    return paths.flatMap((path) => [path, pathToFileURL(path).href]);
  } catch {
    return []; // a program's own tools have no known file
  }
}
