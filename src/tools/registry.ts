// Registers the tools, prompts and resources of the server and of the operator's files, and checks them: the compiler
// may not have seen the files.

import type { Resource } from '../calls/content.ts';
import type { Prompt } from '../calls/prompt.ts';
import type { Tool } from '../calls/tool.ts';
import { faultIn, RESOURCE } from '../calls/untyped.ts';
import { isObject } from '../ground/text.ts';
import { attempt, faultOf, SERVER_FILE, type ToolDeps, type ToolFile } from './folder/tool-file.ts';
import { RESERVED_NAMES } from './server-tools.ts';

/** The names of tools and prompts, by tool file. */
export type CustomNames = ReadonlyMap<string, readonly string[]>;

export interface Registry {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prompts: ReadonlyMap<string, Prompt>;
  readonly resources: readonly Resource[];
  /** The scopes that tools and prompts demand of keys. */
  readonly keyScopes: readonly string[];
  readonly custom: CustomNames;
}

interface Made<T> {
  readonly file: string;
  readonly made: T;
}

/**
 * Registers everything, in the order of the files. Throws an Error for the operator that names the file with the fault.
 */
export function register(deps: ToolDeps, files: readonly ToolFile[]): Registry {
  const all = files.flatMap(resourcesOf);
  const resources = byName('uri of a resource', all, ({ uri }) => uri);
  const madeTools = files.flatMap(({ file, make }) => madeBy<Tool>('tool', file, () => make(deps)));
  for (const made of madeTools) if (made.file !== SERVER_FILE) checkCustom(made, resources);
  const madePrompts = files.flatMap(({ file, makePrompts }) =>
    madeBy<Prompt>('prompt', file, () => makePrompts?.(deps) ?? []),
  );
  const operations = [...madeTools, ...madePrompts];
  for (const made of operations) checkScopes(made, deps);
  const custom = Map.groupBy(operations, ({ file }) => file);
  custom.delete(SERVER_FILE);
  return {
    tools: byName('tool name', madeTools, ({ name }) => name),
    prompts: byName('prompt name', madePrompts, ({ name }) => name),
    resources: [...resources.values()],
    keyScopes: [...new Set(operations.flatMap(({ made }) => made.requiredScopes))].sort(),
    custom: new Map([...custom].map(([file, all]) => [file, all.map(({ made }) => made.name)])),
  };
}

function resourcesOf({ file, resources = [] }: ToolFile): readonly Made<Resource>[] {
  if (!Array.isArray(resources)) throw faultOf(file, 'expected the export resources to be an array');
  return resources.map((made: unknown, index) => {
    const fault = isObject(made) ? faultIn(RESOURCE, made) : 'expected an object';
    if (fault !== null) throw faultOf(file, `resources[${index}]: ${fault}`);
    return { file, made: made as Resource };
  });
}

const EXPECTED = {
  tool: 'its default export to return what defineTool makes',
  prompt: 'its export prompts to return what definePrompt makes',
} as const;

function madeBy<T extends Tool | Prompt>(
  kind: T['kind'],
  file: string,
  make: () => T | readonly T[],
): readonly Made<T>[] {
  const all = attempt(file, () => [make()].flat() as readonly T[]);
  const isMade = (value: unknown) => isObject(value) && value.kind === kind;
  if (!all.every(isMade)) throw faultOf(file, `expected ${EXPECTED[kind]}, or an array of that`);
  return all.map((made) => ({ file, made }));
}

/** Checks an operator's tool for faults that tests exclude in the server's own. */
function checkCustom({ file, made }: Made<Tool>, resources: ReadonlyMap<string, Resource>): void {
  const { name, widget, headerParams, outputSchema } = made;
  attempt(file, () => {
    headerParams(); // throws for a type that JSON Schema can't express, which later would break the list of all tools
    outputSchema?.();
  });
  if (widget !== undefined && !resources.has(widget)) {
    throw faultOf(file, `expected the widget of ${name} to be the uri of a resource, got ${JSON.stringify(widget)}`);
  }
  if (RESERVED_NAMES.includes(name)) throw faultOf(file, `expected another tool name, ${name} is the server's own`);
}

/** Throws an Error if a tool or prompt demands a scope that no key can have. */
function checkScopes({ file, made }: Made<Tool | Prompt>, { ceilings: { scopes: existing } }: ToolDeps): void {
  const missing = existing && made.requiredScopes.find((scope) => !existing.includes(scope));
  if (!missing) return;
  const got = JSON.stringify(existing.join(' '));
  throw faultOf(
    file,
    `KEY_SCOPES: expected ${JSON.stringify(missing)} in it, because ${made.name} needs it, got ${got}`,
  );
}

/** Indexes by name. Throws an Error if two have the same name. */
function byName<T>(what: string, all: readonly Made<T>[], nameOf: (made: T) => string): ReadonlyMap<string, T> {
  const fileOf = new Map<string, string>();
  for (const { file, made } of all) {
    const name = nameOf(made);
    const other = fileOf.get(name);
    if (other !== undefined) throw faultOf(file, `expected another ${what}, ${name} is in ${other} already`);
    fileOf.set(name, file);
  }
  return new Map(all.map(({ made }) => [nameOf(made), made]));
}
