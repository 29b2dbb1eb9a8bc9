// The server's own tools, in the order in which clients see them.

import type { Tool } from '../calls/tool.ts';
import { createApiKey } from './create-api-key.ts';
import { deleteApiKey } from './delete-api-key.ts';
import { type MakeTools, SERVER_FILE, type ToolDeps, type ToolFile } from './folder/tool-file.ts';
import { getData } from './get-data.ts';
import { listApiKeys } from './list-api-keys.ts';
import { revokeApiKey } from './revoke-api-key.ts';
import { rotateApiKey } from './rotate-api-key.ts';
import { whoami } from './whoami.ts';

const TOOLS = {
  create_api_key: createApiKey,
  list_api_keys: listApiKeys,
  rotate_api_key: rotateApiKey,
  revoke_api_key: revokeApiKey,
  delete_api_key: deleteApiKey,
  whoami,
  get_data: getData,
};
/** The tools of doors (src/doors/). */
const OF_DOORS = ['list_keys', 'revoke_keys', 'update_key', 'list_owners', 'update_owner'].map(
  (name) => `admin_${name}`,
);

/** The names that no tool file may use, even if the tool is off. */
export const RESERVED_NAMES: readonly string[] = [...Object.keys(TOOLS), ...OF_DOORS];

/** Returns what creates the server's own tools, with or without the sample. `hasPage`: there is the page /keys. */
export const serverTools =
  (sample: boolean, hasPage: boolean): MakeTools =>
  (deps) =>
    Object.values(TOOLS)
      .filter((make) => sample || make !== getData)
      .map((make) => unvalidated(make(deps, hasPage)));

/** Removes the check of the output, which costs a tenth of a call: compiler and tests have checked these tools. */
const unvalidated = (tool: Tool): Tool => ({ ...tool, validate: null });

/** Returns tools of the server's own, as those of a tool file. */
export const ownTools = (make: (deps: ToolDeps) => readonly Tool[]): ToolFile => ({
  file: SERVER_FILE,
  make: (deps) => make(deps).map(unvalidated),
});
