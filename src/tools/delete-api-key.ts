// The tool that deletes one of the caller's keys permanently.

import type { ToolDeps } from './folder/tool-file.ts';
import { endingTool } from './revoke-api-key.ts';

export const deleteApiKey = ({ guards, keys }: ToolDeps) =>
  endingTool(guards, keys.delete, 'API key deleted permanently', {
    name: 'delete_api_key',
    title: 'Delete an API key',
    description:
      "Deletes one of the signed-in user's API keys permanently: it stops working at once and leaves the list. This cannot be undone. Succeeds also when there is no such key.",
  });
