// The tool that revokes one of the caller's keys.

import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { ok } from '../ground/result.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { endAnnotations, endOutput, keyIdInput } from './key-fields.ts';

export const revokeApiKey = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'revoke_api_key',
    title: 'Revoke an API key',
    description:
      "Revokes one of the signed-in user's API keys: it stops working at once. Its record stays in the list and could be reactivated, though no tool does that. Succeeds also when there is no such key.",
    annotations: endAnnotations,
    input: keyIdInput,
    output: endOutput,
    async run({ keyId }, call) {
      const revoked = await keys.revoke(actorOf(call), keyId);
      return revoked.ok ? ok({ success: true as const, message: 'API key revoked successfully' }) : revoked;
    },
  });
