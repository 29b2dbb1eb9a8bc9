// The tool that lists the caller's keys, without the keys themselves.

import * as v from 'valibot';
import { count } from '../calls/schema.ts';
import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { invalidInput } from '../ground/problem.ts';
import { writtenLimit } from '../ground/rate-limit.ts';
import { err, ok } from '../ground/result.ts';
import type { Caller } from '../keys/actor.ts';
import { LIST_BYTES_MAX } from '../keys/listing.ts';
import type { ShownOwner } from '../keys/plans.ts';
import type { ListedChild, ListPlace } from '../keys/store.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import {
  keyIdInput,
  listedChild,
  listedKey,
  listedKeyFields,
  rateLimitFields,
  shownQuotaFields,
  usesFields,
  writtenUses,
} from './key-fields.ts';

/** A key, or a child, which has fewer fields. */
const item = v.strictObject({ ...listedKeyFields, fingerprint: v.optional(listedKeyFields.fingerprint) });

/** What owners see above the list of their keys, which counts for all of them together. */
const planFields = v.strictObject({
  rateLimit: v.optional(rateLimitFields),
  quota: v.optional(shownQuotaFields),
  keysMax: count,
  uses: usesFields,
});

const writtenPlan = ({ rateLimit, quota, keysMax, uses }: ShownOwner) => ({
  ...(rateLimit !== null && { rateLimit: writtenLimit(rateLimit) }),
  ...(quota !== null && { quota }),
  keysMax,
  uses: writtenUses(uses),
});

const utf8 = new TextEncoder();

/** The bytes around the list, with a cursor. */
const WRAPPING_BYTES_MAX = 100;

const cursorOf = ({ createdAtMs, row }: ListPlace): string => `${createdAtMs}-${row}`;

/** Parses a cursor; undefined if it is none of this server. */
function placeOf(cursor: string): ListPlace | undefined {
  const at = cursor.lastIndexOf('-');
  const place = { createdAtMs: Number(cursor.slice(0, at)), row: Number(cursor.slice(at + 1)) };
  const isOurs = Object.values(place).every(Number.isSafeInteger) && cursorOf(place) === cursor;
  return isOurs ? place : undefined;
}

export const listApiKeys = ({ guards, keys }: ToolDeps) =>
  defineTool(guards.userJwt, {
    name: 'list_api_keys',
    title: 'List API keys',
    description:
      "Lists the signed-in user's API keys, newest first: id, name, scopes, whether active or expired, when created, when it expires, when last used, and whether it is being rotated. The keys themselves are never shown. Use it to find the id of a key to rotate, revoke or delete. With `childrenOf` it lists those keys instead that one of them has made for its agents. If there is a `nextCursor`, there are more: give it as `cursor`.",
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    widget: 'ui://widget/api-keys-list.html',
    input: v.strictObject({
      cursor: v.optional(v.pipe(v.string(), v.description('The `nextCursor` of the page before.'))),
      childrenOf: v.optional(v.pipe(keyIdInput.entries.keyId, v.description('The id of a key.'))),
    }),
    output: v.strictObject({
      keys: v.array(item),
      owner: v.optional(v.pipe(planFields, v.description('What counts for all keys together, where it is set.'))),
      nextCursor: v.optional(v.string()),
    }),
    async run({ cursor, childrenOf }, call) {
      const after = cursor === undefined ? null : placeOf(cursor);
      if (after === undefined) {
        return err(invalidInput('cursor', 'Expected a nextCursor'));
      }
      if (childrenOf !== undefined) {
        const children = await keys.listChildren(actorOf(call), childrenOf, after);
        if (!children.ok) return children;
        const { keys: page, last } = childrenPage(children.value, call.caller);
        return ok({ keys: page, ...nextOf(last) });
      }
      let owner: Owner = {};
      const shown: Item[] = [];
      const actor = actorOf(call);
      const listed = await keys.list(actor, after, async () => {
        const plan = await keys.planOf(actor.userId);
        owner = plan === null ? {} : { owner: writtenPlan(plan) };
        const fits = createFit(JSON.stringify(owner).length);
        return (key) => {
          const item = listedKey(key, call.caller);
          const isFitting = fits(item);
          if (isFitting) shown.push(item);
          return isFitting;
        };
      });
      if (!listed.ok) return listed;
      const { keys: found, hasMore } = listed.value;
      return ok({ ...owner, keys: shown, ...nextOf(hasMore ? found.at(-1) : null) });
    },
  });

type Item = ReturnType<typeof listedKey>;
type Owner = { readonly owner?: ReturnType<typeof writtenPlan> };

const nextOf = (last: ListPlace | null | undefined) => (last ? { nextCursor: cursorOf(last) } : {});

/** Returns the children that fit on a page, and the last of them if there are more; null: there are not. */
export function childrenPage(children: readonly ListedChild[], caller: Caller) {
  const fits = createFit(0);
  const shown = children.map((child) => listedChild(child, caller));
  const end = shown.findIndex((child) => !fits(child));
  return end === -1 ? { keys: shown, last: null } : { keys: shown.slice(0, end), last: children[end - 1] ?? null };
}

/** Returns a function that says whether the next item still fits on a page, beside other bytes. The first one always does. */
function createFit(besideBytes: number): (item: object) => boolean {
  let bytes = WRAPPING_BYTES_MAX + besideBytes;
  let isFirst = true;
  return (item) => {
    bytes += utf8.encode(JSON.stringify(item)).length + 1; // with its comma
    const fits = isFirst || bytes <= LIST_BYTES_MAX;
    isFirst = false;
    return fits;
  };
}
