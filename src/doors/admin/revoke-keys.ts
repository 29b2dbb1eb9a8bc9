// The tool that revokes keys of any owner, for admins.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { text } from '../../calls/schema.ts';
import { defineTool } from '../../calls/tool.ts';
import { actorOf } from '../../calls/user-jwt.ts';
import { invalidInput } from '../../ground/problem.ts';
import { err, ok } from '../../ground/result.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import type { AdminKeys } from './keys.ts';

const KEY_IDS_MAX = 100;

export const adminRevokeKeys = ({ guards }: ToolDeps, admin: AdminKeys) =>
  defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_revoke_keys',
    title: 'Revoke keys of any owner',
    description:
      'Revokes all active API keys of an owner, or those with the given ids: they stop working at once. For admins only. Give either `owner` or `keyIds`.',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({
      owner: v.optional(v.pipe(text(1, 255), v.description('All keys of this owner.'))),
      keyIds: v.optional(
        v.pipe(
          v.array(text(1, 200)),
          v.minLength(1, 'Expected at least 1 id'),
          v.maxLength(KEY_IDS_MAX, `Expected at most ${KEY_IDS_MAX} ids`),
          v.description('The keys with these ids; unknown ones are passed over.'),
        ),
      ),
    }),
    output: v.strictObject({ revoked: v.pipe(v.number(), v.integer(), v.description('How many keys it revoked.')) }),
    async run({ owner, keyIds: ids }, call) {
      if ((owner === undefined) === (ids === undefined)) {
        return err(invalidInput('', 'Expected either owner or keyIds'));
      }
      return ok({ revoked: await admin.revoke(actorOf(call), { owner, ids }) });
    },
  });
