// The tool that lists the keys of all owners, for admins.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { text } from '../../calls/schema.ts';
import { defineTool } from '../../calls/tool.ts';
import { err, ok } from '../../ground/result.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import { adminListed, adminListedFields } from './fields.ts';
import { type AdminKeys, LAST_ROW } from './keys.ts';

const CURSOR = /^[1-9]\d{0,15}$/;

export const adminListKeys = ({ guards }: ToolDeps, admin: AdminKeys) =>
  defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_list_keys',
    title: 'List the keys of all owners',
    description:
      'Lists API keys of all owners, or of one, newest first, 100 a page: give `nextCursor` as `cursor` for the next page. For admins only. The keys themselves are never shown.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({
      owner: v.optional(v.pipe(text(1, 255), v.description('Only keys of this owner.'))),
      cursor: v.optional(v.pipe(v.string(), v.description('The `nextCursor` of the page before.'))),
    }),
    output: v.strictObject({
      keys: v.array(v.strictObject(adminListedFields)),
      nextCursor: v.optional(v.string()),
    }),
    async run({ owner, cursor }, call) {
      if (cursor !== undefined && !CURSOR.test(cursor)) {
        return err({ code: 'invalid_input', issues: [{ path: 'cursor', message: 'Expected a nextCursor' }] });
      }
      const { keys, next } = await admin.page(owner, cursor === undefined ? LAST_ROW : Number(cursor));
      return ok({
        keys: keys.map((key) => adminListed(key, call)),
        ...(next !== null && { nextCursor: String(next) }),
      });
    },
  });
