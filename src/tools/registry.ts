// Registers the tools, prompts and resources of the server and of the operator's files, and checks them: the compiler
// may not have seen the files.

import type { Resource } from '../calls/content.ts';
import { faultIn, RESOURCE } from '../calls/definition-checks.ts';
import type { Prompt } from '../calls/prompt.ts';
import type { Tool } from '../calls/tool.ts';
import { isPromise } from '../ground/result.ts';
import { isObject } from '../ground/text.ts';
import { attempt, faultOf, SERVER_FILE, type ToolDeps, type ToolFile } from './folder/tool-file.ts';
import { RESERVED_NAMES } from './server-tools.ts';

interface FromFile<T> {
  readonly file: string;
  readonly item: T;
}

/** Registers everything, in the order of the files. Throws an Error for the operator that names the faulty file. */
export function register(deps: ToolDeps, files: readonly ToolFile[]) {
  const all = files.flatMap(resourcesOf);
  const resources = byName('uri of a resource', all, ({ uri }) => uri);
  const tools = files.flatMap(({ file, make }) => definedBy<Tool>('tool', file, make, deps));
  for (const item of tools) if (item.file !== SERVER_FILE) checkCustom(item, resources);
  const prompts = files.flatMap(({ file, makePrompts }) => definedBy<Prompt>('prompt', file, makePrompts, deps));
  const operations = [...tools, ...prompts];
  for (const item of operations) checkScopes(item, deps);
  const byFile = Map.groupBy(operations, ({ file }) => file);
  byFile.delete(SERVER_FILE);
  const custom = new Map([...byFile].map(([file, all]) => [file, all.map(({ item }) => item.name)]));
  return {
    tools: byName('tool name', tools, ({ name }) => name),
    prompts: byName('prompt name', prompts, ({ name }) => name),
    resources: [...resources.values()],
    /** The scopes that tools and prompts demand of keys. */
    keyScopes: [...new Set(operations.flatMap(({ item }) => item.requiredScopes))].sort(),
    custom,
  };
}

function resourcesOf({ file, resources = [] }: ToolFile): readonly FromFile<Resource>[] {
  if (!Array.isArray(resources)) throw faultOf(file, 'expected the export resources to be an array');
  return resources.map((item: unknown, index) => {
    const fault = isObject(item) ? faultIn(RESOURCE, item) : 'expected an object';
    if (fault !== null) throw faultOf(file, `resources[${index}]: ${fault}`);
    return { file, item: item as Resource };
  });
}

const EXPECTED = {
  tool: 'its default export to return what defineTool makes',
  prompt: 'its export prompts to return what definePrompt makes',
} as const;

function definedBy<T extends Tool | Prompt>(
  kind: T['kind'],
  file: string,
  make: ((deps: ToolDeps) => T | readonly T[]) | undefined,
  deps: ToolDeps,
): readonly FromFile<T>[] {
  if (make === undefined) return [];
  const all = attempt(file, () => [make(deps)].flat() as readonly T[]);
  const odd = all.findIndex((value: unknown) => !isObject(value) || value.kind !== kind);
  if (odd !== -1) {
    const got = isPromise(all[odd]) ? 'a promise' : typeof all[odd];
    throw faultOf(file, `expected ${EXPECTED[kind]}, or an array of that, got ${got}`);
  }
  return all.map((item) => ({ file, item }));
}

/** Checks an operator's tool for faults that tests exclude in the server's own. */
function checkCustom({ file, item }: FromFile<Tool>, resources: ReadonlyMap<string, Resource>): void {
  const { name, widget, headerParams, outputSchema } = item;
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
function checkScopes({ file, item }: FromFile<Tool | Prompt>, { ceilings: { scopes: existing } }: ToolDeps): void {
  const missing = existing && item.requiredScopes.find((scope) => !existing.includes(scope));
  if (!missing) return;
  const got = JSON.stringify(existing.join(' '));
  throw faultOf(
    file,
    `KEY_SCOPES: expected ${JSON.stringify(missing)} in it, because ${item.name} needs it, got ${got}`,
  );
}

/** Indexes by name. Throws an Error if two have the same name. */
function byName<T>(what: string, all: readonly FromFile<T>[], nameOf: (item: T) => string): ReadonlyMap<string, T> {
  const fileOf = new Map<string, string>();
  for (const { file, item } of all) {
    const name = nameOf(item);
    const other = fileOf.get(name);
    if (other !== undefined) throw faultOf(file, `expected another ${what}, ${name} is in ${other} already`);
    fileOf.set(name, file);
  }
  return new Map(all.map(({ item }) => [nameOf(item), item]));
}
