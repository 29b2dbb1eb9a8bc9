// How a new key reaches its caller: in the result, or in the widget alone. Decided before the key is made.

import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import { epochMs } from '../calls/schema.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { MadeKey } from '../keys/minting.ts';
import type { ToolDeps } from './folder/tool-file.ts';

/** The output: without `key` if the widget has it. */
export const newKeyFields = {
  id: v.pipe(v.string(), v.description('The id to rotate, revoke or delete the key by.')),
  key: v.optional(v.pipe(v.string(), v.description('The API key itself. It is shown here and never again.'))),
  name: v.string(),
  scopes: v.array(v.string()),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  resource: v.pipe(v.nullable(v.string()), v.description('The one server that the key is good for, or null: all.')),
  warning: v.string(),
};

export const HOW_SHOWN = {
  result: 'The new key is shown only in this result and cannot be read again, so pass it on or have it stored at once.',
  widget: 'A widget shows the new key to the user, once; it is not in this result. A client without widgets gets none.',
};

const WARNING = 'Save this key now - it will not be shown again';
const IN_WIDGET = 'The widget shows the key to the user, once. It is not in this result, and you cannot read it';

type NewKey = v.InferInput<v.StrictObjectSchema<typeof newKeyFields, undefined>>;

/** How the key will be delivered once made, or why it can't be. */
export function deliveryOf(keyReveal: ToolDeps['keyReveal'], call: Call): Result<(made: MadeKey) => NewKey, Problem> {
  if (keyReveal === 'result' || call.audience === 'program') {
    return ok(({ key, record }) => ({ ...fieldsOf(record), key, warning: WARNING }));
  }
  if (call.audience === 'model') return err({ code: 'key_not_shown' });
  return ok(({ key, record }) => {
    call.forWidget = { key, warning: WARNING };
    return { ...fieldsOf(record), warning: IN_WIDGET };
  });
}

const fieldsOf = ({ id, name, scopes, expiresAtMs, resource }: MadeKey['record']) => ({
  id,
  name,
  scopes: [...scopes],
  expiresAt: expiresAtMs,
  resource,
});
