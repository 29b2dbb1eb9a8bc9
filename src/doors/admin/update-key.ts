// The tool that changes the settings of any owner's key, for admins, as the command `keys update` does.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { defineTool } from '../../calls/tool.ts';
import { actorOf } from '../../calls/user-jwt.ts';
import { invalidInput } from '../../ground/problem.ts';
import { NO_CEILINGS, readLimit } from '../../ground/rate-limit.ts';
import { err, ok } from '../../ground/result.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import {
  daysOf,
  keyIdInput,
  keyRequestFields,
  metadataInput,
  quotaInput,
  rateLimitInput,
} from '../../tools/key-fields.ts';
import { adminListed, adminListedFields } from './fields.ts';
import type { AdminKeys } from './keys.ts';

export const adminUpdateKey = ({ guards, ceilings }: ToolDeps, admin: AdminKeys) => {
  const admins = { ...ceilings, limits: NO_CEILINGS };
  const { name, scopes } = keyRequestFields(admins);
  return defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_update_key',
    title: 'Change a key of any owner',
    description:
      'Changes the name, scopes, expiry, rate limit, quota or metadata of an API key, whoever owns it, and returns the key as it is then. Only what is given changes. Scopes that are added, and a longer life, stay within what you may grant. A revoked key stays revoked. For admins only.',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({
      ...keyIdInput.entries,
      name: v.optional(name),
      scopes: v.optional(v.pipe(scopes, v.description('All scopes that it has from then on.'))),
      expiresInDays: v.optional(
        v.pipe(v.nullable(daysOf(admins)), v.description('Days from now until it expires; null: it never does.')),
      ),
      rateLimit: v.optional(v.pipe(v.nullable(rateLimitInput()), v.description("Its own; null: the server's counts."))),
      quota: v.optional(v.pipe(v.nullable(quotaInput()), v.description("Its own; null: the server's counts."))),
      metadata: v.optional(
        metadataInput(
          'Data of your own, which who has the key can read, by names like plan or plan_2; replaces all of it.',
        ),
      ),
    }),
    output: v.strictObject(adminListedFields),
    async run({ keyId, rateLimit, ...changes }, call) {
      const limit = rateLimit && readLimit(rateLimit);
      const update = { ...changes, rateLimit: limit };
      if (Object.values(update).every((given) => given === undefined)) {
        return err(invalidInput('', 'Expected something to change'));
      }
      const updated = await admin.update(actorOf(call), keyId, update);
      return updated.ok ? ok(adminListed(updated.value, call.caller)) : updated;
    },
  });
};
