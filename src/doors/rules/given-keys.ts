// Reads a key set (RFC 7517 §5) that an operator gives in a file.

import { strictObject } from '../../ground/strict-json.ts';
import { isObject, type JsonObject } from '../../ground/text.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';

export const KEY_SET_BYTES_MAX = 64 * 1024;
const KEYS_MAX = 50;

/** Private parts of keys (RFC 7518 §6), and a shared secret. */
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv'];
const KEY_TYPES: readonly unknown[] = ['RSA', 'EC', 'OKP'];

/** Returns the set as it is stored, or what was expected. Keys that can't be used at all are refused now, not later. */
export async function readKeySet(bytes: Uint8Array): Promise<{ readonly set: string } | { readonly expected: string }> {
  if (bytes.length > KEY_SET_BYTES_MAX) return { expected: `a key set of at most ${KEY_SET_BYTES_MAX / 1024} KiB` };
  const keys = strictObject(bytes)?.keys;
  if (!Array.isArray(keys) || keys.length < 1 || keys.length > KEYS_MAX || !keys.every(isObject)) {
    return { expected: `a JSON Web Key Set of 1 to ${KEYS_MAX} keys` };
  }
  if (keys.some((key) => PRIVATE.some((name) => Object.hasOwn(key, name)) || !KEY_TYPES.includes(key.kty))) {
    return { expected: 'public keys alone (RSA, EC or OKP), without private parts' };
  }
  const { importJWK } = await import('jose/key/import');
  for (const key of keys) {
    const isUsable = await importJWK(key as never, algorithmOf(key)).then(isLongEnough, () => false);
    if (!isUsable) return { expected: 'keys that can verify a signature' };
  }
  return { set: JSON.stringify({ keys }) };
}

/** The least length of an RSA key (RFC 7518 §3.3): no signature by a shorter one is checked. */
const RSA_BITS_MIN = 2048;

const isLongEnough = (key: CryptoKey | Uint8Array): boolean =>
  key instanceof Uint8Array ||
  !('modulusLength' in key.algorithm) ||
  Number(key.algorithm.modulusLength) >= RSA_BITS_MIN;

/** Returns an algorithm by which to try the key, if it names none. */
function algorithmOf({ alg, kty, crv }: JsonObject): string {
  if (typeof alg === 'string') return ASYMMETRIC.includes(alg) ? alg : 'none';
  if (kty === 'RSA') return 'RS256';
  return kty === 'OKP' ? 'EdDSA' : crv === 'P-384' ? 'ES384' : crv === 'P-521' ? 'ES512' : 'ES256';
}
