// Checks a user JWT with jose (RFC 7519, RFC 8725): signature, then claims. Loaded with the first token, so neither the
// start nor a server with only API keys waits for it.

import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { decodeProtectedHeader } from 'jose/decode/protected_header';
import * as errors from 'jose/errors';
import { decodeJwt } from 'jose/jwt/decode';
import { jwtVerify } from 'jose/jwt/verify';
import type { UserIdentity } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock } from '../ground/runtime.ts';
import type { JsonObject } from '../ground/text.ts';
import { type Verdict, verifySigned } from './signature.ts';
import { type IdentityClaims, identityOf, whyNoUserToken } from './user-token.ts';
import type { VerificationKeys } from './verification-keys.ts';

const CLOCK_TOLERANCE_S = 5;

export interface TokenCheckOptions {
  readonly keys: VerificationKeys;
  /** The required `iss`; null: not checked. */
  readonly issuer: string | null;
  /** The accepted `aud` values; null: not checked. */
  readonly audiences: readonly string[] | null;
  readonly claims: IdentityClaims;
  readonly clock: Clock;
}

/** Creates the check of a token, which throws an IssuerOutage. */
export function createTokenCheck({ keys: verificationKeys, issuer, audiences, claims, clock }: TokenCheckOptions) {
  return async (token: string): Promise<Result<Verdict<UserIdentity>, Problem>> => {
    // First what needs no key set: a token that no key could verify, or that is no user's, must cause no fetch.
    const fault = unverifiedFault(token, verificationKeys.algorithms);
    if (fault !== null) return err({ code: 'invalid_token', reason: fault });
    const options: JWTVerifyOptions = {
      algorithms: [...verificationKeys.algorithms],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(clock.nowMs()),
      ...(issuer !== null && { issuer }),
      ...(audiences !== null && { audience: [...audiences] }),
    };
    const verified = await verifySigned(verificationKeys, token, (getKey) => jwtVerify(token, getKey, options));
    if (!verified.ok) return err(problemOf(verified.error, claims));
    const {
      value: { payload },
      by,
    } = verified.value;
    const user = identityOf(payload, claims);
    if (!user.ok) return user;
    const endsAtMs = Number(payload.exp) * 1000; // required and checked above
    return ok({ value: user.value, endsAtMs, by });
  };
}

/** Returns what is wrong with a token before its signature is looked at; null if nothing is. */
function unverifiedFault(token: string, algorithms: readonly string[]): string | null {
  try {
    const header = decodeProtectedHeader(token);
    if (!algorithms.includes(header.alg ?? '')) return 'algorithm not accepted';
    return whyNoUserToken(header as JsonObject, decodeJwt(token));
  } catch {
    return 'malformed';
  }
}

// Only jose's messages about claims quote nothing of the token. Errors not of jose come from an unusable key.
const problemOf = (error: unknown, claims: IdentityClaims): Problem => ({
  code: 'invalid_token',
  ...(error instanceof errors.JWTExpired && { expired: true, ...ownerIn(error.payload, claims) }),
  reason:
    error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired
      ? error.message
      : error instanceof errors.JOSEError
        ? error.code
        : 'unusable key',
});

/** Returns the owner that an expired token names: jose looks at `exp` last. */
function ownerIn(payload: JWTPayload, claims: IdentityClaims): { readonly userId?: string } {
  const user = identityOf(payload, claims);
  return user.ok ? { userId: user.value.subject } : {};
}
