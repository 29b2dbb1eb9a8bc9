// The tools this server offers, in the order clients see them.

import type { Tool } from './core/tool.ts';
import type { ToolDeps } from './core/toolbox.ts';
import { createApiKey } from './create-api-key.ts';
import { deleteApiKey } from './delete-api-key.ts';
import { getData } from './get-data.ts';
import { listApiKeys } from './list-api-keys.ts';
import { revokeApiKey } from './revoke-api-key.ts';

const OFFERED = [
  createApiKey,
  listApiKeys,
  revokeApiKey,
  deleteApiKey,
  getData,
  // a tool of your own: two lines here
];

export const createTools = (deps: ToolDeps): readonly Tool[] => OFFERED.map((make) => make(deps));
