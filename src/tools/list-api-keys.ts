// The tool that lists the caller's keys, without the keys themselves.

import * as v from 'valibot';
import { defineTool } from '../authoring/tool.ts';
import { actorOf } from '../guards/user-jwt.ts';
import type { ToolDeps } from './folder/toolbox.ts';
import { listedKey, listedKeyFields } from './listed-key.ts';

const item = v.strictObject(listedKeyFields);

export const listApiKeys = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'list_api_keys',
    title: 'List API keys',
    description:
      "Lists the signed-in user's API keys, newest first: id, name, scopes, whether active, when created, when it expires, when last used, and whether it is being rotated. The keys themselves are never shown. Use it to find the id of a key to rotate, revoke or delete.",
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    widget: 'ui://widget/api-keys-list.html',
    input: v.strictObject({}),
    output: v.strictObject({ keys: v.array(item) }),
    runInPages: (_input, call, add) => keys.list(actorOf(call), call, (page) => add({ keys: page.map(listedKey) })),
  });
