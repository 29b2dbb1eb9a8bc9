// The tool that lists owners with their limits and uses, for admins.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { defineTool } from '../../calls/tool.ts';
import { invalidInput } from '../../ground/problem.ts';
import { err, ok } from '../../ground/result.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import { shownOwnerFields, writtenOwner } from './fields.ts';
import type { Owners } from './owners.ts';

const BASE64URL = { alphabet: 'base64url', omitPadding: true } as const;

const cursorOf = (owner: string): string => new TextEncoder().encode(owner).toBase64(BASE64URL);

/** Returns the owner in a cursor; undefined if it is no cursor of this server. */
function ownerOf(cursor: string): string | undefined {
  try {
    const owner = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      Uint8Array.fromBase64(cursor, BASE64URL),
    );
    return cursorOf(owner) === cursor && owner !== '' ? owner : undefined;
  } catch {
    return undefined;
  }
}

export const adminListOwners = ({ guards }: ToolDeps, owners: Owners) =>
  defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_list_owners',
    title: 'List owners with their plans',
    description:
      'Lists whoever has API keys or settings, by name, 100 a page: what is in force for all keys together, how many keys there are, and what was used. Give `nextCursor` as `cursor` for the next page. For admins only.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input: v.strictObject({
      cursor: v.optional(v.pipe(v.string(), v.description('The `nextCursor` of the page before.'))),
    }),
    output: v.strictObject({
      owners: v.array(v.strictObject(shownOwnerFields)),
      nextCursor: v.optional(v.string()),
    }),
    async run({ cursor }) {
      const after = cursor === undefined ? '' : ownerOf(cursor);
      if (after === undefined) {
        return err(invalidInput('cursor', 'Expected a nextCursor'));
      }
      const { owners: found, next } = await owners.page(after);
      return ok({
        owners: found.map(writtenOwner),
        ...(next !== null && { nextCursor: cursorOf(next) }),
      });
    },
  });
