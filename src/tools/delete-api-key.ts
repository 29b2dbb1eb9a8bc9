// The tool that deletes one of the caller's keys permanently.

import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { ok } from '../ground/result.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { endAnnotations, endOutput, keyIdInput } from './key-fields.ts';

export const deleteApiKey = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'delete_api_key',
    title: 'Delete an API key',
    description:
      "Deletes one of the signed-in user's API keys permanently: it stops working at once and leaves the list. This cannot be undone. Succeeds also when there is no such key.",
    annotations: endAnnotations,
    input: keyIdInput,
    output: endOutput,
    async run({ keyId }, call) {
      const deleted = await keys.delete(actorOf(call), keyId);
      return deleted.ok ? ok({ success: true as const, message: 'API key deleted permanently' }) : deleted;
    },
  });
