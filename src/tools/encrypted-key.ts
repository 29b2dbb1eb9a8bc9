// Encrypts a new key to a public key of the caller (JWK, RFC 7517), as a compact JWE (RFC 7516), so that
// nobody who passes it on can read it. The ECDH-ES of RFC 7518 §4.6, with A256GCM.

import { createRequire } from 'node:module';
import { isObject } from '../lib/text.ts';

/** For `node:crypto`, which takes ms to load: with the first public key, which few servers ever see. */
const load: (module: 'node:crypto') => typeof import('node:crypto') = createRequire(import.meta.url);

/** What is needed of a JWK; other members are ignored (RFC 7517 §4). */
export interface PublicJwk {
  readonly kty: 'EC' | 'OKP';
  readonly crv: 'P-256' | 'X25519';
  readonly x: string;
  /** On P-256 alone. */
  readonly y?: string | undefined;
}

/** 32 bytes in base64url, as both curves have them. */
export const COORDINATE_PATTERN = '^[\\w-]{42}[AEIMQUYcgkosw048]$';

/** True for a JWK of a private key (`d`, RFC 7518 §6.2.2) or a secret one (`k`, §6.4.1). */
export const isSecretJwk = (jwk: unknown): boolean => isObject(jwk) && ('d' in jwk || 'k' in jwk);

/**
 * True when a secret can be agreed on with this key: the curve is right, and the point is on it and not of low order
 * (RFC 7748 §6.1), with which the secret would be known to everybody. Tried out, which takes 0.1 to 0.6 ms.
 */
export function canEncryptTo(jwk: PublicJwk): boolean {
  const { createPublicKey, diffieHellman, generateKeyPairSync } = load('node:crypto');
  try {
    const publicKey = createPublicKey({ key: bare(jwk), format: 'jwk' });
    const { privateKey } =
      jwk.kty === 'EC' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('x25519');
    return diffieHellman({ privateKey, publicKey }).some((byte) => byte !== 0);
  } catch {
    return false; // whatever is wrong is wrong with the key: nothing else goes in
  }
}

/** The JWE. The key must be one that `canEncryptTo`. */
export async function encryptKey(key: string, jwk: PublicJwk): Promise<string> {
  // Loaded with the first key that is encrypted: few servers ever do.
  const [{ CompactEncrypt }, { importJWK }] = await Promise.all([
    import('jose/jwe/compact/encrypt'),
    import('jose/key/import'),
  ]);
  return new CompactEncrypt(new TextEncoder().encode(key))
    .setProtectedHeader({ alg: 'ECDH-ES', enc: 'A256GCM' })
    .encrypt(await importJWK(bare(jwk), 'ECDH-ES'));
}

/** Without `use`, `key_ops` and the like, by which libraries refuse keys that were made for something else. */
const bare = ({ kty, crv, x, y }: PublicJwk) => ({ kty, crv, x, ...(kty === 'EC' && y !== undefined && { y }) });
