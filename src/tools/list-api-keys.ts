// The tool that lists the caller's keys, without the keys themselves.

import * as v from 'valibot';
import { actorOf } from '../guards/user-jwt.ts';
import { ok } from '../lib/result.ts';
import { epochMs } from './core/schema.ts';
import { defineTool } from './core/tool.ts';
import type { ToolDeps } from './core/toolbox.ts';

const item = v.strictObject({
  id: v.string(),
  name: v.string(),
  scopes: v.array(v.string()),
  active: v.pipe(v.boolean(), v.description('False once revoked.')),
  createdAt: v.pipe(epochMs, v.description('Milliseconds since the Unix epoch.')),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  lastUsedAt: v.optional(v.pipe(epochMs, v.description('Milliseconds since the Unix epoch; absent until first use.'))),
});

export const listApiKeys = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'list_api_keys',
    title: 'List API keys',
    description:
      "Lists the signed-in user's API keys, newest first: id, name, scopes, whether active, when created, when it expires, when last used. The keys themselves are never shown. Use it to find the id of a key to revoke or delete.",
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    widget: 'ui://widget/api-keys-list.html',
    input: v.strictObject({}),
    output: v.strictObject({ keys: v.array(item) }),
    async run(_input, call) {
      const records = await keys.list(actorOf(call), call);
      if (!records.ok) return records;
      return ok({
        keys: records.value.map(({ id, name, scopes, active, createdAtMs, expiresAtMs, lastUsedAtMs }) => ({
          id,
          name,
          scopes: [...scopes],
          active,
          createdAt: createdAtMs,
          expiresAt: expiresAtMs,
          ...(lastUsedAtMs !== null && { lastUsedAt: lastUsedAtMs }),
        })),
      });
    },
  });
