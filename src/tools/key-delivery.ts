// How a new key reaches its caller, for the tools that make one: in the result, in the widget alone, or
// encrypted to a public key. Decided before the key is made.

import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import { epochMs, isSmall } from '../calls/schema.ts';
import type { MadeKey } from '../keys/minting.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';
import type { Problem } from '../problem.ts';
import { COORDINATE_PATTERN, canEncryptTo, encryptKey, isSecretJwk, type PublicJwk } from './encrypted-key.ts';
import type { ToolDeps } from './folder/toolbox.ts';

const JWK_CHARS_MAX = 4096;
const COORDINATE = new RegExp(COORDINATE_PATTERN);

const PRIVATE = 'Expected a public key. A private key has just been sent: do not use it any more';
const TOO_LONG = `Expected a JWK of at most ${JWK_CHARS_MAX} characters`;
const UNUSABLE = 'Expected a public key of type EC on the curve P-256, with x and y, or of type OKP on X25519, with x';

const coordinate = v.pipe(
  v.string(),
  v.check((value) => COORDINATE.test(value), 'Expected 32 bytes in base64url'),
  v.metadata({ pattern: COORDINATE_PATTERN }),
);

/** The input field. Checked whole before anything is created. */
export const encryptTo = v.optional(
  v.pipe(
    v.looseObject({
      kty: v.picklist(['EC', 'OKP']),
      crv: v.picklist(['P-256', 'X25519']),
      x: coordinate,
      y: v.optional(coordinate),
    }),
    v.rawCheck(({ dataset: { typed, value }, addIssue }) => {
      const message = faultOf(value, typed ? value : null);
      if (message !== null) addIssue({ message });
    }),
    v.description(
      'A public key (JWK: EC P-256, or OKP X25519). With it the new key is not returned as it is, but encrypted to this one, as `encryptedKey`: a compact JWE (ECDH-ES, A256GCM). For keys that must not be read on their way. Never send a private key.',
    ),
  ),
);

/** What is wrong with a JWK as it came, or as it was read, beside what its schema says. */
function faultOf(sent: unknown, read: PublicJwk | null): string | null {
  if (isSecretJwk(sent)) return PRIVATE;
  if (!isSmall(sent) || JSON.stringify(sent).length > JWK_CHARS_MAX) return TOO_LONG; // JSON of deep nesting overflows the stack
  return read === null || canEncryptTo(read) ? null : UNUSABLE;
}

/** The output. Of `key` and `encryptedKey` one is there, or none if the widget has the key. */
export const newKeyFields = {
  id: v.pipe(v.string(), v.description('The id to rotate, revoke or delete the key by.')),
  key: v.optional(v.pipe(v.string(), v.description('The API key itself. It is shown here and never again.'))),
  encryptedKey: v.optional(v.pipe(v.string(), v.description('The API key, encrypted to `encryptTo`: a compact JWE.'))),
  name: v.string(),
  scopes: v.array(v.string()),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  warning: v.string(),
};

/** For the descriptions of tools. */
export const HOW_SHOWN = {
  result: 'The new key is shown only in this result and cannot be read again, so pass it on or have it stored at once.',
  widget:
    'A widget shows the new key to the user, once; it is not in this result. A client without widgets gets one with `encryptTo` only.',
};

const WARNING = 'Save this key now - it will not be shown again';
const IN_WIDGET = 'The widget shows the key to the user, once. It is not in this result, and you cannot read it';

type NewKey = v.InferInput<v.StrictObjectSchema<typeof newKeyFields, undefined>>;

/** How the key will be delivered once there is one, or why there can't be one. */
export function deliveryOf(
  keyReveal: ToolDeps['keyReveal'],
  call: Call,
  encryptTo: PublicJwk | undefined,
): Result<(made: MadeKey) => Awaitable<NewKey>, Problem> {
  if (encryptTo !== undefined) {
    return ok(async (made) => fieldsOf(made, { encryptedKey: await encryptKey(made.key, encryptTo) }));
  }
  if (keyReveal === 'result' || call.reader === 'program') return ok((made) => fieldsOf(made, { key: made.key }));
  if (call.reader === 'model') return err({ code: 'key_not_shown' });
  return ok((made) => {
    call.forWidget = { key: made.key, warning: WARNING };
    return fieldsOf(made, {}, IN_WIDGET);
  });
}

const fieldsOf = ({ record }: MadeKey, how: Pick<NewKey, 'key' | 'encryptedKey'>, warning = WARNING): NewKey => ({
  id: record.id,
  ...how,
  name: record.name,
  scopes: [...record.scopes],
  expiresAt: record.expiresAtMs,
  warning,
});
