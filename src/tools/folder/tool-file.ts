// What tool files export, and making tools and prompts of it. For one that can't be used the error is one line with
// file, place and what was expected.

import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Operation } from '../../calls/operation.ts';
import type { Prompt } from '../../calls/prompt.ts';
import type { Tool } from '../../calls/tool.ts';
import { isScope } from '../../ground/scope.ts';
import { isObject } from '../../ground/text.ts';
import type { KeyCeilings } from '../../keys/grants.ts';
import type { ToolDeps } from './toolbox.ts';

/** What a tool file exports by default. */
export type MakeTools = (deps: ToolDeps) => Tool | readonly Tool[];

/** What a tool file may export as `prompts`. */
export type MakePrompts = (deps: ToolDeps) => Prompt | readonly Prompt[];

export interface ToolFile {
  /** As messages name it: `tools/list-orders.ts`. */
  readonly file: string;
  readonly make: MakeTools;
  readonly makePrompts?: MakePrompts;
  /** Unchecked: calls/resource.ts checks it. */
  readonly resources?: unknown;
}

/** What a program adds that starts the server itself. */
export interface Own {
  /** What tool files export by default. */
  readonly tools?: readonly MakeTools[] | undefined;
  /** What tool files export as `prompts`. */
  readonly prompts?: readonly MakePrompts[] | undefined;
  /** Pages and other resources, in addition to those of the server. */
  readonly resources?: readonly unknown[] | undefined;
}

export const toolFilesOf = ({ tools = [], prompts = [], resources }: Own): readonly ToolFile[] => [
  ...tools.map((make, index) => ({ file: `tools[${index}]`, make })),
  ...prompts.map((makePrompts, index) => ({ file: `prompts[${index}]`, make: () => [], makePrompts })),
  { file: 'resources', make: () => [], resources },
];

export interface FromFile<T> {
  readonly file: string;
  readonly made: T;
}

export interface ToolSurroundings {
  /** Names of the server's own tools. */
  readonly reserved: readonly string[];
  /** Of all resources, which widgets must be among. */
  readonly uris: readonly string[];
}

/** Throws an Error whose message is for the operator. */
export function makeTools(
  files: readonly ToolFile[],
  deps: ToolDeps,
  { reserved, uris }: ToolSurroundings,
): readonly FromFile<Tool>[] {
  const tools = makeAll('tool', files, deps, ({ make }) => {
    const made = [make(deps)].flat();
    made.filter(isOf('tool')).forEach(checkSchemas);
    return made;
  });
  for (const { file, made } of tools) {
    const { name, widget } = made;
    if (widget !== undefined && !uris.includes(widget)) {
      const got = JSON.stringify(widget);
      throw new Error(`${file}: expected the widget of ${name} to be the uri of a resource, got ${got}`);
    }
    if (reserved.includes(name)) throw new Error(`${file}: expected another tool name, ${name} is the server's own`);
  }
  return tools;
}

export const makePrompts = (files: readonly ToolFile[], deps: ToolDeps): readonly FromFile<Prompt>[] =>
  makeAll('prompt', files, deps, ({ makePrompts: make }) => (make === undefined ? [] : [make(deps)].flat()));

const EXPECTED = {
  tool: 'its default export to return what defineTool makes',
  prompt: 'its export prompts to return what definePrompt makes',
} as const;

/** All tools or prompts, each with its file; no two may have the same name. */
function makeAll<T extends Tool | Prompt>(
  kind: T['kind'],
  files: readonly ToolFile[],
  { ceilings }: ToolDeps,
  make: (file: ToolFile) => readonly T[],
): readonly FromFile<T>[] {
  const fileOf = new Map<string, string>();
  return files.flatMap((toolFile) => {
    const { file } = toolFile;
    const all = attempt(file, () => make(toolFile));
    if (!all.every(isOf(kind))) throw new Error(`${file}: expected ${EXPECTED[kind]}, or an array of that`);
    return all.map((made) => {
      const { name } = made;
      const other = fileOf.get(name);
      attempt(file, () => checkOperation(made, ceilings.scopes));
      if (other !== undefined) {
        throw new Error(`${file}: expected another ${kind} name, ${name} is in ${other} already`);
      }
      fileOf.set(name, file);
      return { file, made };
    });
  });
}

/** What MCP allows (2025-11-25, server/tools, "Tool Names"); none of it needs escaping in a path. */
const NAME = /^[\w.-]{1,128}$/;

/** Throws an Error for a bad name, or for scopes that no caller can have. */
export function checkOperation(
  { kind, name, credential, requiredScopes }: Tool | Prompt,
  existing: KeyCeilings['scopes'],
): void {
  if (!NAME.test(name)) {
    throw new Error(`${kind} name: expected 1-128 letters, digits, "_", "-" or ".", got ${JSON.stringify(name)}`);
  }
  if (requiredScopes.length > 0 && credential !== 'api_key') {
    throw new Error(`${name}: expected guards.apiKey before guards.scopes: only keys have scopes`);
  }
  const odd: unknown = requiredScopes.find((scope: unknown) => typeof scope !== 'string' || !isScope(scope));
  if (odd !== undefined) {
    const got = JSON.stringify(odd);
    throw new Error(`${name}: guards.scopes: expected scopes that a key can have, like "read", got ${got}`);
  }
  const missing = existing && requiredScopes.find((scope) => !existing.includes(scope));
  if (missing) {
    const got = JSON.stringify(existing.join(' '));
    throw new Error(`KEY_SCOPES: expected ${JSON.stringify(missing)} in it, because ${name} needs it, got ${got}`);
  }
}

function attempt<T>(file: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw unusable(file, error);
  }
}

/** Throws for a type that JSON Schema can't express: later it would break the list of all tools. */
function checkSchemas({ headerParams, outputSchema }: Tool): void {
  headerParams();
  outputSchema?.();
}

const isOf = (kind: Operation['kind']) => (value: unknown) => isObject(value) && value.kind === kind;

/** One line for a file that threw, or that could not be loaded. */
export function unusable(file: string, error: unknown, remedy = ''): Error {
  const first = error instanceof AggregateError ? error.errors[0] : error; // several errors of syntax
  const { message = String(first) }: { message?: string } = Object(first); // anything can be thrown
  const [reason = ''] = message.trim().split('\n');
  return new Error(`${file}${placeOf(file, first)}: ${reason}${remedy}`);
}

interface Thrown {
  readonly position?: { readonly line: number; readonly column: number } | null;
  readonly message?: string;
  readonly stack?: string;
}

/** `:line:column` in the file: of a syntax error Bun gives it beside, else from message or stack. */
function placeOf(file: string, error: unknown): string {
  const { position, message, stack }: Thrown = Object(error);
  if (position) return `:${position.line}:${position.column}`;
  const text = `${message}\n${stack}`;
  for (const written of writtenAs(file)) {
    const [, after] = text.split(`${written}:`, 2);
    const place = after && /^\d+:\d+/.exec(after)?.[0];
    if (place) return `:${place}`;
  }
  return '';
}

/** How stacks name the file: by its path or URL, with links followed. In full: the library has a tool.ts, too. */
function writtenAs(file: string): readonly string[] {
  try {
    const paths = [resolve(file), realpathSync(file)];
    return paths.flatMap((path) => [path, pathToFileURL(path).href]);
  } catch {
    return []; // of a program's own tools, which are in no file that is known
  }
}
