// What operators set for owners (src/keys/README.md, A plan for each customer): limits for all keys together, a block; and
// the list and removal of owners. By tools, which are loaded with ADMIN_CLAIM, and by commands. A door: the server works
// without it, by its defaults, and a plan that is set stays in force.

import type { StoreOf } from '../../store/database.ts';
import type { ToolFile } from '../../tools/folder/tool-file.ts';
import { ownTools } from '../../tools/server-tools.ts';
import { adminListOwners } from './list-owners.ts';
import { createOwners, type OwnersOptions } from './owners.ts';
import { createOwnerStore } from './store.ts';
import { adminUpdateOwner } from './update-owner.ts';

export { writtenOwner } from './fields.ts';
export { type OwnersPage, ownerNamed, pageOfOwners, removeOwner, updateOwner } from './owners.ts';
export { createOwnerStore } from './store.ts';

interface OwnerToolsOptions extends OwnersOptions {
  readonly storeOf: StoreOf;
}

/** Returns the tools by which admins list owners and set their plans. */
export function ownerTools(core: OwnerToolsOptions): ToolFile {
  const ownerStore = core.storeOf(createOwnerStore);
  const owners = createOwners(ownerStore, core);
  return ownTools((deps) => [adminListOwners, adminUpdateOwner].map((tool) => tool(deps, owners)));
}
