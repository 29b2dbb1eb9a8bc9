// The tool that says whose key was presented, and what is left of it. It needs no scope and changes nothing: it shows why
// another call was refused, or that a new key works.

import * as v from 'valibot';
import { defineTool } from '../authoring/tool.ts';
import { epochMs } from '../calls/schema.ts';
import { ok } from '../lib/result.ts';
import type { ToolDeps } from './folder/toolbox.ts';

const count = v.pipe(v.number(), v.integer());

export const whoami = ({ guards }: ToolDeps) =>
  defineTool(guards.apiKey, {
    name: 'whoami',
    title: 'Show whose key this is',
    description:
      'Shows the API key that was sent: its id, name, owner, scopes, expiry, and what is left of its rate limit. Use it to check that a key works, or to find out why a call was refused.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({}),
    output: v.strictObject({
      keyId: v.string(),
      name: v.string(),
      owner: v.pipe(v.string(), v.description("The user id of the key's owner.")),
      scopes: v.array(v.string()),
      expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
      rateLimit: v.pipe(
        v.nullable(v.strictObject({ requests: count, windowSeconds: count, remaining: count, resetSeconds: count })),
        v.description('Calls per window, how many are left after this one, and until when; null: no limit.'),
      ),
    }),
    run: (_input, { auth, rateLimit }) =>
      ok({
        keyId: auth.keyId,
        name: auth.keyName,
        owner: auth.subject,
        scopes: [...auth.scopes],
        expiresAt: auth.expiresAtMs,
        rateLimit:
          rateLimit === undefined
            ? null
            : {
                requests: rateLimit.limit.requests,
                windowSeconds: rateLimit.limit.windowS,
                remaining: rateLimit.remaining,
                resetSeconds: rateLimit.resetS,
              },
      }),
  });
