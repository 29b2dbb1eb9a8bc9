// The tools this server offers, in the order clients see them.

import type { Tool } from '../authoring/tool.ts';
import type { AdminKeys } from '../keys/admin.ts';
import { adminListKeys } from './admin-list-keys.ts';
import { adminRevokeKeys } from './admin-revoke-keys.ts';
import { createApiKey } from './create-api-key.ts';
import { deleteApiKey } from './delete-api-key.ts';
import type { ToolDeps } from './folder/toolbox.ts';
import { getData } from './get-data.ts';
import { listApiKeys } from './list-api-keys.ts';
import { revokeApiKey } from './revoke-api-key.ts';
import { rotateApiKey } from './rotate-api-key.ts';
import { whoami } from './whoami.ts';

const OFFERED = [createApiKey, listApiKeys, rotateApiKey, revokeApiKey, deleteApiKey, whoami, getData];

/** Names that tools of one's own can't have: those of this server, also while a tool is switched off. */
export const RESERVED_NAMES: readonly string[] = [
  'create_api_key',
  'list_api_keys',
  'revoke_api_key',
  'delete_api_key',
  'rotate_api_key',
  'get_data',
  'whoami',
  'admin_list_keys',
  'admin_revoke_keys',
];

export interface OfferedTools {
  /** With the tool that gives out sample data; true unless given. */
  readonly sample?: boolean;
  /** What the tools for admins do; without it there are none. */
  readonly admin?: AdminKeys | null;
}

export const createTools = (deps: ToolDeps, { sample = true, admin }: OfferedTools = {}): readonly Tool[] => [
  ...OFFERED.filter((make) => sample || make !== getData).map((make) => make(deps)),
  ...(admin ? [adminListKeys(deps, admin), adminRevokeKeys(deps, admin)] : []),
];
