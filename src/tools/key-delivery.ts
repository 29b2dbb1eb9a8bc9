// How a new key reaches whoever asked for it, for the tools that make one: as it is, or encrypted to a public key.

import * as v from 'valibot';
import { COORDINATE_PATTERN, canEncryptTo, encryptKey, isSecretJwk, type PublicJwk } from '../keys/encrypted-key.ts';
import type { MadeKey } from '../keys/operations.ts';
import { epochMs } from './core/schema.ts';

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
  if (JSON.stringify(sent).length > JWK_CHARS_MAX) return TOO_LONG;
  return read === null || canEncryptTo(read) ? null : UNUSABLE;
}

/** The output. Of `key` and `encryptedKey` one is there. */
export const newKeyFields = {
  id: v.pipe(v.string(), v.description('The id to rotate, revoke or delete the key by.')),
  key: v.optional(v.pipe(v.string(), v.description('The API key itself. It is shown here and never again.'))),
  encryptedKey: v.optional(v.pipe(v.string(), v.description('The API key, encrypted to `encryptTo`: a compact JWE.'))),
  name: v.string(),
  scopes: v.array(v.string()),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  warning: v.string(),
};

export const deliver = async ({ record, key }: MadeKey, to: PublicJwk | undefined) => ({
  id: record.id,
  ...(to === undefined ? { key } : { encryptedKey: await encryptKey(key, to) }),
  name: record.name,
  scopes: [...record.scopes],
  expiresAt: record.expiresAtMs,
  warning: 'Save this key now - it will not be shown again',
});
