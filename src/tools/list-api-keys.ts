// The tool that lists the caller's keys, without the keys themselves.

import * as v from 'valibot';
import { actorOf } from '../guards/user-jwt.ts';
import type { OwnKey } from '../keys/operations.ts';
import { fingerprintOf } from '../keys/record.ts';
import type { Rotation } from '../keys/rotation.ts';
import { epochMs } from './core/schema.ts';
import { defineTool } from './core/tool.ts';
import type { ToolDeps } from './core/toolbox.ts';

const item = v.strictObject({
  id: v.string(),
  name: v.string(),
  scopes: v.array(v.string()),
  active: v.pipe(v.boolean(), v.description('False once revoked.')),
  fingerprint: v.pipe(
    v.string(),
    v.description(
      'The first 12 hex digits of the SHA-256 of the key, of its secret in force: whoever finds a key can tell whose it is.',
    ),
  ),
  createdAt: v.pipe(epochMs, v.description('Milliseconds since the Unix epoch.')),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  lastUsedAt: v.optional(v.pipe(epochMs, v.description('Milliseconds since the Unix epoch; absent until first use.'))),
  rotation: v.optional(
    v.pipe(
      v.strictObject({
        state: v.picklist(['until_first_use', 'overlapping']),
        previousUntil: v.optional(epochMs),
        otherFingerprint: v.string(),
      }),
      v.description('While the key has two secrets: the new one was not used yet, or the previous one still runs out.'),
    ),
  ),
});

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
    runInPages: (_input, call, add) => keys.list(actorOf(call), call, (page) => add({ keys: page.map(shown) })),
  });

const shown = (key: OwnKey) => ({
  id: key.id,
  name: key.name,
  scopes: [...key.scopes],
  active: key.active,
  fingerprint: fingerprintOf(key.keyHash),
  createdAt: key.createdAtMs,
  expiresAt: key.expiresAtMs,
  ...(key.lastUsedAtMs !== null && { lastUsedAt: key.lastUsedAtMs }),
  ...(key.rotation !== null && { rotation: shownRotation(key.rotation) }),
});

const shownRotation = ({ state, previousUntilMs, otherFingerprint }: Rotation) => ({
  state,
  ...(previousUntilMs !== null && { previousUntil: previousUntilMs }),
  otherFingerprint,
});
