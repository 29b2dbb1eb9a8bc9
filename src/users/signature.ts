// Verifies a signature by the keys of an issuer with jose: by the key that a token names, else by each that fits, and by
// newer keys if the issuer may have signed with one that isn't known yet.

import type { JWTVerifyGetKey } from 'jose';
import { decodeProtectedHeader } from 'jose/decode/protected_header';
import * as errors from 'jose/errors';
import { err, ok, type Result } from '../ground/result.ts';
import type { JwtKeys, KeysOf, VerificationKeys } from './verification-keys.ts';

/** The most keys tried for a token without `kid`, each with a signature check. */
const KEYS_TRIED_MAX = 8;

/** Verifies a token by the key that the function finds for its header. Rejects with jose's error. */
type VerifyBy<T> = (getKey: JWTVerifyGetKey) => Promise<T>;

export interface Signed<T> {
  readonly value: T;
  /** The keys by which it was verified. It counts only while its source has the same. */
  readonly by: KeysOf;
}

export interface Verdict<T> extends Signed<T> {
  /** The token's `exp`, by the wall clock. */
  readonly endsAtMs: number;
}

/** Resolves with what `verify` returns for the key that fits, or with jose's error. Throws an IssuerOutage. */
export async function verifySigned<T>(
  source: VerificationKeys,
  token: string,
  verify: VerifyBy<T>,
): Promise<Result<Signed<T>, unknown>> {
  async function verifyBy(keys: JwtKeys): Promise<Result<Signed<T>, unknown>> {
    const verified = await verifyAny(keys, verify);
    return verified.ok ? ok({ value: verified.value, by: { source, keys } }) : verified;
  }
  const keys = await source.get();
  const verified = await verifyBy(keys);
  if (verified.ok || !mayHaveNewerKey(verified.error, token)) return verified;
  const newer = await source.refreshed();
  return newer === keys ? verified : verifyBy(newer);
}

async function verifyAny<T>(keys: JwtKeys, verify: VerifyBy<T>): Promise<Result<T, unknown>> {
  if (typeof keys !== 'function') return tryEach(keys, verify);
  try {
    return ok(await verify(keys));
  } catch (error) {
    return error instanceof errors.JWKSMultipleMatchingKeys ? tryEach(error, verify) : err(error);
  }
}

/** Returns whether another key may verify the token: this one has not signed it, or can't be used (jose's TypeError). */
const isOfKey = (error: unknown): boolean =>
  error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError;

/** Tries up to KEYS_TRIED_MAX keys that fit a token. The first that verifies the signature decides. */
async function tryEach<T>(
  candidates: Iterable<Uint8Array> | errors.JWKSMultipleMatchingKeys,
  verify: VerifyBy<T>,
): Promise<Result<T, unknown>> {
  let tries = 0;
  for await (const key of candidates) {
    tries += 1;
    if (tries > KEYS_TRIED_MAX) break;
    try {
      return ok(await verify(() => key));
    } catch (error) {
      if (!isOfKey(error)) return err(error);
    }
  }
  return err(new errors.JWSSignatureVerificationFailed());
}

/** Returns whether the issuer may have signed with a key that isn't in the set yet. */
const mayHaveNewerKey = (error: unknown, token: string): boolean =>
  error instanceof errors.JWKSNoMatchingKey ||
  (error instanceof errors.JWSSignatureVerificationFailed && decodeProtectedHeader(token).kid === undefined);
