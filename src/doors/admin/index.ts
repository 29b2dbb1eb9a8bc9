// What operators do with anybody's keys: the admin tools (src/keys/README.md, Tools for admins), which are loaded with
// ADMIN_CLAIM, and what the commands do likewise. A door: the server works without it.

import { once } from '../../ground/cache.ts';
import type { StoreOf } from '../../store/database.ts';
import { ownTools } from '../../tools/server-tools.ts';
import { type AdminKeysOptions, createAdminKeys } from './keys.ts';
import { adminListKeys } from './list-keys.ts';
import { adminRevokeKeys } from './revoke-keys.ts';
import { createAdminStore } from './store.ts';
import { adminUpdateKey } from './update-key.ts';

export { createImport, type Imported } from './imports.ts';
export { countRevocable, revokeAll, updateKey } from './keys.ts';
export { LAST_ROW } from './row-ranges.ts';
export { type AdminStore, createAdminStore, type KeyFilter, type KeyName, type PlacedKey } from './store.ts';
export { whyUnknown } from './troubled-keys.ts';
export { type Days, keptDays, type UsageQuery, type Used, usageOf } from './usage.ts';

interface AdminOptions extends AdminKeysOptions {
  readonly storeOf: StoreOf;
}

export function openAdmin(core: AdminOptions) {
  const store = core.storeOf(createAdminStore);
  const admin = createAdminKeys(store, core);
  return {
    /** The tools by which they list, revoke and change keys. */
    tools: ownTools((deps) => [adminListKeys, adminRevokeKeys, adminUpdateKey].map((tool) => tool(deps, admin))),
    /** Loads their part of the page /keys, which the page and the part's own route both ask for. */
    part: once(async () => (await import('./part.ts')).createPart()),
  };
}
