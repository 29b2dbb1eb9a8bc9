// What a server offers: its own tools, prompts and resources, and those of tool files.

import type { Prompt } from '../authoring/prompt.ts';
import { checkUris, type Resource, resourcesOf } from '../authoring/resource.ts';
import type { Tool } from '../authoring/tool.ts';
import { makePrompts, makeTools, type ToolFile } from './folder/tool-file.ts';
import { byName, type ToolDeps } from './folder/toolbox.ts';
import { createTools, type OfferedTools, RESERVED_NAMES } from './index.ts';

export interface OfferOptions extends OfferedTools {
  /** The tools to offer; those of tools/index.ts unless given. */
  readonly tools: ((deps: ToolDeps) => readonly Tool[]) | undefined;
  /** The prompts to offer; none unless given. */
  readonly prompts: ((deps: ToolDeps) => readonly Prompt[]) | undefined;
  readonly resources: readonly Resource[];
  /** Tools, prompts and resources of one's own, in addition. */
  readonly toolFiles: readonly ToolFile[] | undefined;
}

/** The names of what each file offers, by file. */
export type OwnNames = ReadonlyMap<string, readonly string[]>;

export interface Offered {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prompts: ReadonlyMap<string, Prompt>;
  readonly resources: readonly Resource[];
  /** What tools and prompts ask keys for. */
  readonly keyScopes: readonly string[];
  /** Tools and prompts of one's own. */
  readonly own: OwnNames;
}

/** Throws an Error whose message is the line to show: a tool, prompt or resource that can't be offered. */
export function offer(deps: ToolDeps, options: OfferOptions): Offered {
  const { toolFiles = [], tools: makeServerTools = createTools, prompts: makeServerPrompts } = options;
  const existing = deps.ceilings.scopes;
  const resources = [...options.resources, ...toolFiles.flatMap(({ file, resources }) => resourcesOf(file, resources))];
  checkUris(resources);
  const uris = resources.map(({ uri }) => uri);
  const serverTools = makeServerTools(deps, options);
  const ownTools = makeTools(toolFiles, deps, { reserved: RESERVED_NAMES, uris });
  const ownPrompts = makePrompts(toolFiles, deps);
  const tools = [...serverTools, ...ownTools.map(({ made }) => made)];
  const prompts = [...(makeServerPrompts?.(deps) ?? []), ...ownPrompts.map(({ made }) => made)];
  const own = Map.groupBy([...ownTools, ...ownPrompts], ({ file }) => file);
  return {
    tools: byName('tool', tools, existing),
    prompts: byName('prompt', prompts, existing),
    resources,
    keyScopes: [...new Set([...tools, ...prompts].flatMap(({ requiredScopes }) => requiredScopes))].sort(),
    own: new Map([...own].map(([file, all]) => [file, all.map(({ made }) => made.name)])),
  };
}
