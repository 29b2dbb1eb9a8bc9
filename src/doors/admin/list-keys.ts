// The tool that lists the keys of all owners, or finds some of them, for admins.

import * as v from 'valibot';
import { sequence } from '../../calls/guard.ts';
import { text, wholeNumber } from '../../calls/schema.ts';
import { defineTool } from '../../calls/tool.ts';
import { invalidInput, type Problem } from '../../ground/problem.ts';
import { err, ok, type Result } from '../../ground/result.ts';
import type { Caller } from '../../keys/actor.ts';
import type { OwnKey } from '../../keys/listing.ts';
import type { ToolDeps } from '../../tools/folder/tool-file.ts';
import { keyIdInput } from '../../tools/key-fields.ts';
import { childrenPage } from '../../tools/list-api-keys.ts';
import { cursorOf, type Place, placeIn } from './cursor.ts';
import { adminListed, adminListedFields } from './fields.ts';
import type { AdminKeys, NamedKey } from './keys.ts';
import { LAST_ROW } from './row-ranges.ts';
import { CHOICES } from './troubled-keys.ts';

const { keyId } = keyIdInput.entries;

/** Accepts either case: some tools write capitals. */
const FINGERPRINT = '^[0-9A-Fa-f]{12}$';

const input = v.strictObject({
  owner: v.optional(v.pipe(text(1, 255), v.description('Only keys of this owner.'))),
  cursor: v.optional(v.pipe(v.string(), v.description('The `nextCursor` of the page before; with the same fields.'))),
  keyId: v.optional(v.pipe(keyId, v.description('Only the key with this id, whoever owns it.'))),
  fingerprint: v.optional(
    v.pipe(
      v.string(),
      v.regex(new RegExp(FINGERPRINT), 'Expected 12 hex digits'),
      v.description('Only keys of which a secret has this fingerprint, even one that has ended.'),
    ),
  ),
  childrenOf: v.optional(
    v.pipe(keyId, v.description('The keys instead that the key with this id made for its agents.')),
  ),
  only: v.optional(
    v.pipe(
      v.picklist(CHOICES),
      v.description(
        'Only keys that are good and expire within 7 days, never expire, or were not used for 90 days; looks at 10,000 keys at a time.',
      ),
    ),
  ),
});

/** What was asked, as far as it decides which keys are listed. */
type Asked = Omit<v.InferOutput<typeof input>, 'cursor'>;

const output = v.strictObject({
  keys: v.array(
    v.strictObject({
      ...adminListedFields,
      owner: v.optional(v.pipe(adminListedFields.owner, v.description('Absent from what `childrenOf` lists.'))),
      fingerprint: v.optional(adminListedFields.fingerprint),
      childId: v.optional(
        v.pipe(v.string(), v.description('The key that this one has made, whose id or fingerprint was given.')),
      ),
    }),
  ),
  looked: v.optional(v.pipe(wholeNumber(0, 10_000), v.description('With `only`: how many keys it looked at.'))),
  nextCursor: v.optional(v.string()),
});

export const adminListKeys = ({ guards }: ToolDeps, admin: AdminKeys) =>
  defineTool(sequence(guards.userJwt, guards.admin), {
    name: 'admin_list_keys',
    title: 'List the keys of all owners',
    description:
      'Lists API keys of all owners, or of one, newest first, 100 a page: give `nextCursor` as `cursor` for the next page. Or finds keys: by `keyId` or `fingerprint`, those that one key made (`childrenOf`), or those that may be trouble (`only`, also of one owner). For admins only. The keys themselves are never shown.',
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    input,
    output,
    async run({ cursor, ...asked }, call) {
      const fit = fitOf(asked);
      if (!fit.ok) return fit;
      const place = cursor === undefined ? null : placeIn(cursor, asked);
      if (place === undefined) return err(invalidInput('cursor', 'Expected a nextCursor'));
      const { end, ...answer } = await answerOf(admin, asked, place, call.caller);
      return ok({ ...answer, ...(end && { nextCursor: cursorOf(end, asked) }) });
    },
  });

/** Returns what was asked for after a position (null: the beginning), and its end; null: nothing follows. */
async function answerOf(admin: AdminKeys, asked: Asked, place: Place | null, caller: Caller) {
  const { owner, keyId: id, fingerprint, childrenOf, only } = asked;
  const shown = (keys: readonly OwnKey[]) => keys.map((key) => adminListed(key, caller));
  if (id !== undefined) return { keys: namedKeys(await admin.named({ id }), caller), end: null };
  if (fingerprint !== undefined) {
    return { keys: namedKeys(await admin.named({ fingerprint: fingerprint.toLowerCase() }), caller), end: null };
  }
  if (childrenOf !== undefined) {
    const after = place && { createdAtMs: place.at, row: place.row };
    const { keys, last } = childrenPage(await admin.children(childrenOf, after), caller);
    return { keys, end: last && { at: last.createdAtMs, row: last.row } };
  }
  if (only !== undefined) {
    const { keys, looked, next } = await admin.look(only, owner, place);
    return { keys: shown(keys), looked, end: next };
  }
  const { keys, next } = await admin.page(owner, place?.row ?? LAST_ROW);
  return { keys: shown(keys), end: next === null ? null : { at: 0, row: next } };
}

const namedKeys = (found: readonly NamedKey[], caller: Caller) =>
  found.map(({ childId, ...key }) => ({ ...adminListed(key, caller), ...(childId !== null && { childId }) }));

/** Refuses fields that don't go together. */
function fitOf({ owner, only, ...others }: Asked): Result<void, Problem> {
  const names = Object.values({ only, ...others }).filter((given) => given !== undefined).length;
  if (names === 0 || (names === 1 && (owner === undefined || only !== undefined))) return ok(undefined);
  const message = 'Expected one of keyId, fingerprint, childrenOf and only, and owner beside none of them but only';
  return err(invalidInput('', message));
}
