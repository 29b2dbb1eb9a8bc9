// What operators do with anybody's keys: the admin tools (src/keys/README.md, Tools for admins), which are loaded with
// ADMIN_CLAIM, and what the commands do likewise. A door: the server works without it.

import type { ToolFile } from '../../tools/folder/tool-file.ts';
import { ownTools } from '../../tools/server-tools.ts';
import { type AdminKeysOptions, createAdminKeys } from './keys.ts';
import { adminListKeys } from './list-keys.ts';
import { adminRevokeKeys } from './revoke-keys.ts';
import { adminUpdateKey } from './update-key.ts';

export {
  type AdminStore,
  type Imported,
  type KeyFilter,
  type KeyName,
  LAST_ROW,
  type PlacedKey,
  revokeAll,
  updateKey,
} from './keys.ts';
export { createAdminStore } from './store.ts';
export { createTrail } from './trail.ts';
export { whyUnknown } from './unused.ts';
export { type Days, keptDays, type UsageQuery, type Used, usageOf } from './usage.ts';

/** Loads the operators' part of the page /keys. */
export const operatorsPart = async () => (await import('./part.ts')).createPart();

/** Returns the tools by which admins list, revoke and change anybody's keys. */
export function adminTools(options: AdminKeysOptions): ToolFile {
  const admin = createAdminKeys(options);
  return ownTools((deps) => [adminListKeys, adminRevokeKeys, adminUpdateKey].map((tool) => tool(deps, admin)));
}
