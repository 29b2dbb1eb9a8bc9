// The tool that sets an owner's limits for all keys together, for admins, as the command `keys owner` does.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { text } from '../../calls/schema.ts';
import { defineTool } from '../../calls/tool.ts';
import { actorOf } from '../../calls/user-jwt.ts';
import { ok } from '../../ground/result.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import { ownerUpdateFields, ownerUpdateOf, shownOwnerFields, writtenOwner } from './fields.ts';
import type { Owners } from './owners.ts';

export const adminUpdateOwner = ({ guards }: ToolDeps, owners: Owners) =>
  defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_update_owner',
    title: 'Change the plan of an owner',
    description:
      'Sets the rate limit and quota of all API keys of an owner together, how many keys there may be, metadata, and whether the owner is blocked; returns what is in force then. Only what is given changes: with `owner` alone it only shows. null takes back to the default of the server. An owner need not have a key yet. Nobody blocks the owner that he is himself. For admins only.',
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({
      owner: v.pipe(text(1, 255), v.description('Whose plan; compared exactly.')),
      ...ownerUpdateFields,
    }),
    output: v.strictObject(shownOwnerFields),
    async run({ owner, ...update }, call) {
      const updated = await owners.update(actorOf(call), owner, ownerUpdateOf(update));
      return updated.ok ? ok(writtenOwner(updated.value)) : updated;
    },
  });
