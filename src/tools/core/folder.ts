// Tools of one's own: the files of a folder, in the order of their names. A file that can't be used is one line, which
// says file, place and what was expected. How a module is imported is for the commands, which know the runtime.

import { readdirSync } from 'node:fs';
import { basename, posix, resolve } from 'node:path';
import type { Tool } from './tool.ts';
import { checkToolName, type ToolDeps } from './toolbox.ts';

/** What a tool file exports by default. */
export type MakeTools = (deps: ToolDeps) => Tool | readonly Tool[];

export interface ToolFile {
  /** As messages name it: `tools/list-orders.ts`. */
  readonly file: string;
  readonly make: MakeTools;
  /** Its export `resources`, if any, unchecked: mcp/resource.ts knows what a resource is. */
  readonly resources?: unknown;
}

/** What a program brings that starts the server itself. */
export interface Own {
  /** What tool files export by default. */
  readonly tools?: readonly MakeTools[] | undefined;
  /** Pages and other resources, in addition to those of the server. */
  readonly resources?: readonly unknown[] | undefined;
}

export const toolFilesOf = ({ tools = [], resources }: Own): readonly ToolFile[] => [
  ...tools.map((make, index) => ({ file: `tools[${index}]`, make })),
  { file: 'resources', make: () => [], resources },
];

/** Imports the module at an absolute path. */
export type ImportModule = (path: string) => Promise<object>;

const DEFAULT_FOLDER = './tools';

/** The files that hold tools. `_*` and `*.test.*` are for what tools share, and for their tests. */
export const toolFileNames = (names: readonly string[]): readonly string[] =>
  names.filter((name) => /^(?!_).*\.(ts|js|mjs)$/.test(name) && !/\.test\.\w+$|\.d\.ts$/.test(name)).sort();

/** The tool files of a folder; null is ./tools, where it exists. Throws an Error whose message is the line to show. */
export async function readToolFolder(
  toolsDir: string | null,
  importModule: ImportModule,
): Promise<readonly ToolFile[]> {
  const folder = toolsDir ?? DEFAULT_FOLDER;
  const files: ToolFile[] = [];
  for (const name of toolFileNames(namesIn(folder, toolsDir === null))) {
    const file = posix.join(folder, name);
    files.push(toolFileOf(file, await loaded(file, importModule(resolve(folder, name)))));
  }
  return files;
}

function namesIn(folder: string, optional: boolean): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code, name, message } = error as { code?: string; name: string; message: string };
    if (optional && (code === 'ENOENT' || name === 'NotCapable')) return []; // Deno without permission to read
    const expected = 'expected a folder that can be read, with the tools of your own';
    throw new Error(`TOOLS_DIR: ${expected}, got ${JSON.stringify(folder)} (${code ?? message})`);
  }
}

async function loaded(file: string, importing: Promise<object>): Promise<object> {
  try {
    return await importing;
  } catch (error) {
    const leftOut = posix.join(posix.dirname(file), `_${basename(file)}`);
    throw unusable(file, error, `; correct it, or rename it to ${leftOut} to leave it out`);
  }
}

function toolFileOf(file: string, module: object): ToolFile {
  const { default: make, resources } = module as { default?: unknown; resources?: unknown };
  if (typeof make !== 'function') {
    const found = make === undefined ? 'it has none' : `it is of type ${typeof make}`;
    throw new Error(`${file}: expected a default export (deps: ToolDeps) => Tool or Tool[], but ${found}`);
  }
  return { file, make: make as MakeTools, resources };
}

/**
 * Makes the tools of all files. `reserved` are names that the server keeps for its own. Throws an Error whose message is
 * the line to show.
 */
export function makeTools(files: readonly ToolFile[], deps: ToolDeps, reserved: readonly string[]): readonly Tool[] {
  const fileOf = new Map<string, string>();
  return files.flatMap(({ file, make }) => {
    const tools = toolsOf(file, make, deps);
    for (const { name } of tools) {
      const other = fileOf.get(name);
      if (reserved.includes(name)) throw new Error(`${file}: expected another tool name, ${name} is the server's own`);
      if (other !== undefined) throw new Error(`${file}: expected another tool name, ${name} is in ${other} already`);
      fileOf.set(name, file);
    }
    return tools;
  });
}

function toolsOf(file: string, make: MakeTools, deps: ToolDeps): readonly Tool[] {
  let tools: readonly unknown[];
  try {
    tools = [make(deps)].flat();
    tools.filter(isTool).forEach(check);
  } catch (error) {
    throw unusable(file, error);
  }
  if (tools.every(isTool)) return tools;
  throw new Error(`${file}: expected its default export to return what defineTool makes, or an array of that`);
}

function check({ name, inputSchema, outputSchema }: Tool): void {
  checkToolName(name);
  inputSchema(); // throws for a type that JSON Schema can't express; later it would break the list of all tools
  outputSchema?.();
}

const isTool = (value: unknown): value is Tool =>
  typeof value === 'object' && value !== null && 'name' in value && 'invoke' in value;

/** The line for a file that threw, or that the runtime could not load. */
function unusable(file: string, error: unknown, remedy = ''): Error {
  const first = error instanceof AggregateError ? error.errors[0] : error; // several errors of syntax
  const { message = String(first) } = first as { message?: string };
  const [reason = ''] = message.split('\n');
  return new Error(`${file}${placeOf(file, first)}: ${reason}${remedy}`);
}

/** `:line:column` in the file, from where the runtime says it: Bun beside a syntax error, else message or stack. */
function placeOf(file: string, error: unknown): string {
  const { position, message, stack } = error as {
    readonly position?: { readonly line: number; readonly column: number } | null;
    readonly message?: string;
    readonly stack?: string;
  };
  if (position) return `:${position.line}:${position.column}`;
  const text = `${message}\n${stack}`;
  const start = text.indexOf(`/${basename(file)}:`);
  return start === -1 ? '' : (/^[^:]*(:\d+:\d+)/.exec(text.slice(start))?.[1] ?? '');
}
