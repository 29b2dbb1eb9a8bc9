// Key ids as tools take them, and what revoking and deleting share: both succeed for a key that does not exist.

import * as v from 'valibot';
import { hasLength } from '../ground/text.ts';

const KEY_ID_CHARS_MAX = 200; // any text is accepted: what is no id names a key that doesn't exist

export const keyIdInput = v.strictObject({
  keyId: v.pipe(
    v.string(),
    v.check((value) => hasLength(value, 0, KEY_ID_CHARS_MAX), `Expected at most ${KEY_ID_CHARS_MAX} characters`),
    v.metadata({ maxLength: KEY_ID_CHARS_MAX }),
    v.description('The id of the key, as list_api_keys gives it. Not the key itself.'),
  ),
});

export const endOutput = v.strictObject({ success: v.literal(true), message: v.string() });

export const endAnnotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: true,
  openWorldHint: false,
};
