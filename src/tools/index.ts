// What a server offers: its own tools in the order clients see them, prompts and resources, and those of tool files.

import type { Prompt } from '../calls/prompt.ts';
import { checkUris, type Resource, resourcesOf } from '../calls/resource.ts';
import type { Tool } from '../calls/tool.ts';
import type { AdminKeys } from '../keys/admin.ts';
import type { KeyCeilings } from '../keys/grants.ts';
import { adminListKeys } from './admin-list-keys.ts';
import { adminRevokeKeys } from './admin-revoke-keys.ts';
import { adminUpdateKey } from './admin-update-key.ts';
import { createApiKey } from './create-api-key.ts';
import { deleteApiKey } from './delete-api-key.ts';
import { checkOperation, makePrompts, makeTools, type ToolFile } from './folder/tool-file.ts';
import type { ToolDeps } from './folder/toolbox.ts';
import { getData } from './get-data.ts';
import { listApiKeys } from './list-api-keys.ts';
import { revokeApiKey } from './revoke-api-key.ts';
import { rotateApiKey } from './rotate-api-key.ts';
import { whoami } from './whoami.ts';

const FOR_ALL = {
  create_api_key: createApiKey,
  list_api_keys: listApiKeys,
  rotate_api_key: rotateApiKey,
  revoke_api_key: revokeApiKey,
  delete_api_key: deleteApiKey,
  whoami,
  get_data: getData,
};
const FOR_ADMINS = {
  admin_list_keys: adminListKeys,
  admin_revoke_keys: adminRevokeKeys,
  admin_update_key: adminUpdateKey,
};

/** Names that no tool file may use, also while a tool is switched off. */
export const RESERVED_NAMES: readonly string[] = Object.keys({ ...FOR_ALL, ...FOR_ADMINS });

export interface OfferedTools {
  /** With the tool get_data; true unless given. */
  readonly sample?: boolean;
  /** For the tools for admins; without it there are none. */
  readonly admin?: AdminKeys | null;
}

export const createTools = (deps: ToolDeps, { sample = true, admin }: OfferedTools = {}): readonly Tool[] => [
  ...Object.values(FOR_ALL)
    .filter((make) => sample || make !== getData)
    .map((make) => make(deps)),
  ...(admin ? Object.values(FOR_ADMINS).map((make) => make(deps, admin)) : []),
];

export interface OfferOptions extends OfferedTools {
  /** In place of the server's own. */
  readonly tools: ((deps: ToolDeps) => readonly Tool[]) | undefined;
  /** None unless given. */
  readonly prompts: ((deps: ToolDeps) => readonly Prompt[]) | undefined;
  /** Beside those of tool files. */
  readonly resources: readonly Resource[];
  /** Tools, prompts and resources of the operator, in addition. */
  readonly toolFiles: readonly ToolFile[] | undefined;
}

/** The names of what each tool file offers, by file. */
export type OwnNames = ReadonlyMap<string, readonly string[]>;

export interface Offered {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly prompts: ReadonlyMap<string, Prompt>;
  readonly resources: readonly Resource[];
  /** The scopes that tools and prompts ask keys for. */
  readonly keyScopes: readonly string[];
  /** Tools and prompts of tool files. */
  readonly own: OwnNames;
}

/** Throws an Error, for the operator, for a tool, prompt or resource that can't be offered. */
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
    tools: byName(tools, existing),
    prompts: byName(prompts, existing),
    resources,
    keyScopes: [...new Set([...tools, ...prompts].flatMap(({ requiredScopes }) => requiredScopes))].sort(),
    own: new Map([...own].map(([file, all]) => [file, all.map(({ made }) => made.name)])),
  };
}

/** In the given order. Throws an Error for a bad name, or a scope that no key can have (`existing`: all; null: any). */
function byName<T extends Tool | Prompt>(
  operations: readonly T[],
  existing: KeyCeilings['scopes'],
): ReadonlyMap<string, T> {
  const named = new Map<string, T>();
  for (const operation of operations) {
    const { kind, name } = operation;
    checkOperation(operation, existing);
    if (named.has(name)) {
      throw new Error(`${kind} name: expected a different one for each ${kind}, got "${name}" twice`);
    }
    named.set(name, operation);
  }
  return named;
}
