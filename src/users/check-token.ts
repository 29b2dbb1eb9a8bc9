// Checks a user JWT with jose (RFC 7519, RFC 8725): signature, then claims. Loaded with the first token, so neither the
// start nor a server with only API keys waits for it.

import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { decodeProtectedHeader } from 'jose/decode/protected_header';
import * as errors from 'jose/errors';
import { jwtVerify } from 'jose/jwt/verify';
import type { UserIdentity } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import { type IdentityClaims, identityOf } from './identity.ts';
import type { JwtKeys, VerificationKeys } from './verification-keys.ts';

const CLOCK_TOLERANCE_S = 5;

/** The most keys tried for a token without `kid`, each with a signature check. */
const KEYS_TRIED_MAX = 8;

export interface TokenCheckOptions {
  readonly keys: VerificationKeys;
  /** The required `iss`; null: not checked. */
  readonly issuer: string | null;
  /** The accepted `aud` values; null: not checked. */
  readonly audiences: readonly string[] | null;
  readonly claims: IdentityClaims;
  readonly clock: Clock;
}

export interface CheckedToken {
  readonly user: UserIdentity;
  readonly keys: JwtKeys;
  /** The token's `exp`, by the wall clock. */
  readonly expiresAtMs: number;
}

/** Checks a token. Throws an IssuerOutage. */
export type CheckToken = (token: string) => Promise<Result<CheckedToken, Problem>>;

export function createTokenCheck(checkOptions: TokenCheckOptions): CheckToken {
  const { keys: verificationKeys, issuer, audiences, claims, clock } = checkOptions;
  return async (token) => {
    const alg = algorithmOf(token);
    if (alg === null) return err({ code: 'invalid_token', reason: 'malformed' });
    // Jose checks this, too, but only after fetching keys. A token that no key could verify must cause no fetch.
    if (!verificationKeys.algorithms.includes(alg))
      return err({ code: 'invalid_token', reason: 'algorithm not accepted' });
    const options: JWTVerifyOptions = {
      algorithms: [...verificationKeys.algorithms],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(clock.nowMs()),
      ...(issuer !== null && { issuer }),
      ...(audiences !== null && { audience: [...audiences] }),
    };
    let keys = await verificationKeys.get();
    let verified = await verifyWith(keys, token, options);
    if (!verified.ok && mayHaveNewerKey(verified.error, token)) {
      const newer = await verificationKeys.refreshedAfter(keys);
      if (newer !== keys) verified = await verifyWith(newer, token, options);
      keys = newer;
    }
    if (!verified.ok) return err(problemOf(verified.error));
    const user = identityOf(verified.value, claims);
    if (!user.ok) return user;
    const expiresAtMs = Number(verified.value.exp) * 1000; // required and checked above
    return ok({ user: user.value, keys, expiresAtMs });
  };
}

/** Returns the header's `alg`; null if it has none, or the token is no JWT. */
function algorithmOf(token: string): string | null {
  try {
    return decodeProtectedHeader(token).alg ?? null;
  } catch {
    return null;
  }
}

async function verifyWith(
  keys: JwtKeys,
  token: string,
  options: JWTVerifyOptions,
): Promise<Result<JWTPayload, unknown>> {
  if (typeof keys !== 'function') return tryEach(keys, token, options);
  try {
    return ok((await jwtVerify(token, keys, options)).payload);
  } catch (error) {
    return error instanceof errors.JWKSMultipleMatchingKeys ? tryEach(error, token, options) : err(error);
  }
}

/** Tries up to KEYS_TRIED_MAX keys that fit a token. The first that verifies the signature decides. */
async function tryEach(
  candidates: Iterable<Uint8Array> | errors.JWKSMultipleMatchingKeys,
  token: string,
  options: JWTVerifyOptions,
): Promise<Result<JWTPayload, unknown>> {
  let tries = 0;
  for await (const key of candidates) {
    tries += 1;
    if (tries > KEYS_TRIED_MAX) break;
    try {
      return ok((await jwtVerify(token, key, options)).payload);
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) return err(error);
    }
  }
  return err(new errors.JWSSignatureVerificationFailed());
}

/** Returns whether the issuer may have signed with a key that isn't in the set yet. */
const mayHaveNewerKey = (error: unknown, token: string): boolean =>
  error instanceof errors.JWKSNoMatchingKey ||
  (error instanceof errors.JWSSignatureVerificationFailed && decodeProtectedHeader(token).kid === undefined);

// Only jose's messages about claims quote nothing of the token. Errors not of jose come from an unusable key.
const problemOf = (error: unknown): Problem => ({
  code: 'invalid_token',
  ...(error instanceof errors.JWTExpired && { expired: true }),
  reason:
    error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired
      ? error.message
      : error instanceof errors.JOSEError
        ? error.code
        : 'unusable key',
});
