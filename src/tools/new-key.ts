// How a new key reaches its caller, once: in the result, or only in the widget that people see.

import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Caller } from '../keys/actor.ts';
import type { MadeKey } from '../keys/record.ts';
import type { ToolDeps } from './folder/tool-file.ts';
import { listedKeyFields, resourceOf } from './key-fields.ts';

const shownKey = v.pipe(v.string(), v.description('The API key itself. It is shown here and never again.'));

/** Returns the fields of the output: always with `key`, unless a widget may have it instead. */
export const newKeyFields = (keyReveal: ToolDeps['keyReveal']) => ({
  id: v.pipe(v.string(), v.description('The id to rotate, revoke or delete the key by.')),
  key: keyReveal === 'result' ? shownKey : v.optional(shownKey),
  name: v.string(),
  scopes: v.array(v.string()),
  expiresAt: listedKeyFields.expiresAt,
  resource: listedKeyFields.resource,
  warning: v.string(),
});

export const HOW_SHOWN = {
  result: 'The new key is shown only in this result and cannot be read again, so pass it on or have it stored at once.',
  widget:
    'Over MCP a widget shows the new key to the user, once: it is not in the result, and a client without widgets gets none.',
};

const WARNING = 'Save this key now - it will not be shown again';
const IN_WIDGET = 'The widget shows the key to the user, once. It is not in this result, and you cannot read it';

type NewKey = v.InferInput<v.StrictObjectSchema<ReturnType<typeof newKeyFields>, undefined>>;

/** Returns how a new key reaches its caller: in the result or only in the widget. Returns a problem if it can't. */
export function deliveryOf(
  keyReveal: ToolDeps['keyReveal'],
  hasPage: boolean,
  call: Call,
): Result<(made: MadeKey) => NewKey, Problem> {
  if (keyReveal === 'result' || call.audience === 'program') {
    return ok(({ key, record }) => ({ ...fieldsOf(record, call.caller), key, warning: WARNING }));
  }
  if (call.audience === 'model') return err({ code: 'key_not_shown', ...(!hasPage && { lacksPage: true }) });
  return ok(({ key, record }) => {
    call.response.forWidget = { key, warning: WARNING };
    return { ...fieldsOf(record, call.caller), key: undefined, warning: IN_WIDGET };
  });
}

const fieldsOf = (record: MadeKey['record'], caller: Caller) => ({
  id: record.id,
  name: record.name,
  scopes: [...record.scopes],
  expiresAt: record.expiresAtMs,
  resource: resourceOf(record, caller),
});
