// The tool that revokes one of the caller's keys. delete-api-key.ts is made like it.

import * as v from 'valibot';
import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { ok } from '../ground/result.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { keyIdInput } from './key-fields.ts';

export const revokeApiKey = ({ guards, keys }: ToolDeps) =>
  endingTool(guards, keys.revoke, 'API key revoked successfully', {
    name: 'revoke_api_key',
    title: 'Revoke an API key',
    description:
      "Revokes one of the signed-in user's API keys: it stops working at once. Its record stays in the list and could be reactivated, though no tool does that. Succeeds also when there is no such key.",
  });

/** Creates a tool that ends one of the caller's keys. It succeeds also if there is no such key. */
export const endingTool = (
  { userJwt }: ToolDeps['guards'],
  end: ToolDeps['keys']['revoke'],
  message: string,
  facts: { readonly name: string; readonly title: string; readonly description: string },
) =>
  defineTool(userJwt, {
    ...facts,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: keyIdInput,
    output: v.strictObject({ success: v.literal(true), message: v.string() }),
    async run({ keyId }, call) {
      const ended = await end(actorOf(call), keyId);
      return ended.ok ? ok({ success: true as const, message }) : ended;
    },
  });
