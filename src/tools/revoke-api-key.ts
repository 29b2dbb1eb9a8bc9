// The tool that revokes one of the caller's keys.

import type { ToolDeps } from './folder/tool-file.ts';
import { endingTool } from './key-fields.ts';

export const revokeApiKey = ({ guards, keys }: ToolDeps) =>
  endingTool(guards, keys.revoke, 'API key revoked successfully', {
    name: 'revoke_api_key',
    title: 'Revoke an API key',
    description:
      "Revokes one of the signed-in user's API keys: it stops working at once. Its record stays in the list and could be reactivated, though no tool does that. Succeeds also when there is no such key.",
  });
