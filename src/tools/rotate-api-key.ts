// The tool that gives one of the caller's keys a new secret, and returns it, once.

import * as v from 'valibot';
import { wholeNumber } from '../calls/schema.ts';
import { defineTool } from '../calls/tool.ts';
import { actorOf } from '../calls/user-jwt.ts';
import { ok } from '../ground/result.ts';
import { type KeyCeilings, OVERLAP_HOURS_MAX } from '../keys/grants.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { daysOf, keyIdInput } from './key-fields.ts';
import { deliveryOf, HOW_SHOWN, newKeyFields } from './new-key.ts';

const OVERLAP_HOURS_DEFAULT = 24;

const input = (ceilings: KeyCeilings) =>
  v.strictObject({
    ...keyIdInput.entries,
    overlapHours: v.optional(
      v.pipe(
        wholeNumber(0, OVERLAP_HOURS_MAX),
        v.metadata({ default: OVERLAP_HOURS_DEFAULT }),
        v.description(
          `Hours that the old key goes on after the first use of the new one; ${OVERLAP_HOURS_DEFAULT} unless given. 0: it ends now, which is right for a key that leaked.`,
        ),
      ),
    ),
    expiresInDays: v.optional(
      v.pipe(
        daysOf(ceilings),
        v.description('Days until the key expires, both secrets of it. Without it the expiry stays as it is.'),
      ),
    ),
  });

const previous = v.strictObject({
  state: v.pipe(
    v.picklist(['ended', 'until_first_use']),
    v.description('Whether the old key has ended, or goes on until the new one is used, and then for overlapHours.'),
  ),
  overlapHours: v.number(),
});

export const rotateApiKey = ({ guards, keys, ceilings, keyReveal }: ToolDeps, hasPage: boolean) =>
  defineTool(guards.userJwt, {
    name: 'rotate_api_key',
    title: 'Rotate an API key',
    description: `Replaces one of the signed-in user's API keys by a new one with the same id, name, scopes, limits and expiry. ${HOW_SHOWN[keyReveal]} The old key goes on until the new one has been used and overlapHours have passed, so a response that was lost costs nothing: rotate again. For a key that leaked, overlapHours 0 ends the old key at once.`,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
    widget: 'ui://widget/api-key-created.html',
    input: input(ceilings),
    output: v.strictObject({ ...newKeyFields(keyReveal), previous }),
    async run({ keyId, overlapHours = OVERLAP_HOURS_DEFAULT, expiresInDays }, call) {
      const delivery = deliveryOf(keyReveal, hasPage, call);
      if (!delivery.ok) return delivery;
      const rotated = await keys.rotate(actorOf(call), keyId, { overlapHours, expiresInDays });
      if (!rotated.ok) return rotated;
      const state = overlapHours === 0 ? ('ended' as const) : ('until_first_use' as const);
      return ok({ ...delivery.value(rotated.value), previous: { state, overlapHours } });
    },
  });
