// How a new key reaches its caller: in the result, in the widget alone, or encrypted to a public key (JWK, RFC 7517) as
// a compact JWE (RFC 7516; ECDH-ES, RFC 7518 §4.6, and A256GCM), so that nobody on the way can read it. Decided before
// the key is made.

import { createRequire } from 'node:module';
import * as v from 'valibot';
import type { Call } from '../calls/call.ts';
import { epochMs, isSmall } from '../calls/schema.ts';
import type { MadeKey } from '../keys/minting.ts';
import { type Awaitable, err, ok, type Result } from '../lib/result.ts';
import { isObject } from '../lib/text.ts';
import type { Problem } from '../problem.ts';
import type { ToolDeps } from './folder/toolbox.ts';

/** `node:crypto` takes ms to load: loaded with the first public key, which few servers ever see. */
const load: (module: 'node:crypto') => typeof import('node:crypto') = createRequire(import.meta.url);

const JWK_CHARS_MAX = 4096;
/** 32 bytes in base64url, the length of both curves. */
const COORDINATE = /^[\w-]{42}[AEIMQUYcgkosw048]$/;

const PRIVATE = 'Expected a public key. A private key has just been sent: do not use it any more';
const TOO_LONG = `Expected a JWK of at most ${JWK_CHARS_MAX} characters`;
const UNUSABLE = 'Expected a public key of type EC on the curve P-256, with x and y, or of type OKP on X25519, with x';

const coordinate = v.pipe(
  v.string(),
  v.check((value) => COORDINATE.test(value), 'Expected 32 bytes in base64url'),
  v.metadata({ pattern: COORDINATE.source }),
);

/** The input field. Checked completely before anything is created. */
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

/** What is wrong with a JWK as sent, or as parsed, beside what its schema says. */
function faultOf(sent: unknown, read: PublicJwk | null): string | null {
  // Of a private key (`d`, RFC 7518 §6.2.2), or a secret one (`k`, §6.4.1).
  if (isObject(sent) && ('d' in sent || 'k' in sent)) return PRIVATE;
  if (!isSmall(sent) || JSON.stringify(sent).length > JWK_CHARS_MAX) return TOO_LONG; // deep JSON overflows the stack
  return read === null || canEncryptTo(read) ? null : UNUSABLE;
}

/** The output: one of `key` and `encryptedKey`, or neither if the widget has the key. */
export const newKeyFields = {
  id: v.pipe(v.string(), v.description('The id to rotate, revoke or delete the key by.')),
  key: v.optional(v.pipe(v.string(), v.description('The API key itself. It is shown here and never again.'))),
  encryptedKey: v.optional(v.pipe(v.string(), v.description('The API key, encrypted to `encryptTo`: a compact JWE.'))),
  name: v.string(),
  scopes: v.array(v.string()),
  expiresAt: v.pipe(v.nullable(epochMs), v.description('Milliseconds since the Unix epoch, or null: never.')),
  resource: v.pipe(v.nullable(v.string()), v.description('The one server that the key is good for, or null: all.')),
  warning: v.string(),
};

export const HOW_SHOWN = {
  result: 'The new key is shown only in this result and cannot be read again, so pass it on or have it stored at once.',
  widget:
    'A widget shows the new key to the user, once; it is not in this result. A client without widgets gets one with `encryptTo` only.',
};

const WARNING = 'Save this key now - it will not be shown again';
const IN_WIDGET = 'The widget shows the key to the user, once. It is not in this result, and you cannot read it';

type NewKey = v.InferInput<v.StrictObjectSchema<typeof newKeyFields, undefined>>;

/** How the key will be delivered once made, or why it can't be. */
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
  resource: record.resource,
  warning,
});

/** Other members are ignored (RFC 7517 §4). */
interface PublicJwk {
  readonly kty: 'EC' | 'OKP';
  readonly crv: 'P-256' | 'X25519';
  readonly x: string;
  /** P-256 only. */
  readonly y?: string | undefined;
}

/**
 * True when a secret can be agreed on with this key: the point is on the right curve, and not of low order (RFC 7748
 * §6.1), which would make the secret known. Tried out, which takes 0.1 to 0.6 ms.
 */
function canEncryptTo(jwk: PublicJwk): boolean {
  const { createPublicKey, diffieHellman, generateKeyPairSync } = load('node:crypto');
  try {
    const publicKey = createPublicKey({ key: bare(jwk), format: 'jwk' });
    const { privateKey } =
      jwk.kty === 'EC' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('x25519');
    return diffieHellman({ privateKey, publicKey }).some((byte) => byte !== 0);
  } catch {
    return false; // only the key can be wrong
  }
}

/** The JWE. The key must pass `canEncryptTo`. */
async function encryptKey(key: string, jwk: PublicJwk): Promise<string> {
  // Loaded with the first key that is encrypted: few servers ever do.
  const [{ CompactEncrypt }, { importJWK }] = await Promise.all([
    import('jose/jwe/compact/encrypt'),
    import('jose/key/import'),
  ]);
  return new CompactEncrypt(new TextEncoder().encode(key))
    .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM' })
    .encrypt(await importJWK(bare(jwk), 'ECDH-ES'));
}

/** Without `use`, `key_ops` and the like, by which libraries refuse keys for other purposes. */
const bare = ({ kty, crv, x, y }: PublicJwk) => ({ kty, crv, x, ...(kty === 'EC' && y !== undefined && { y }) });
