// Verifying user JWTs (RFC 7519, RFC 8725): signature, then claims. The keys are signing-keys.ts; a signature is checked
// once and its verdict remembered, not on every call.

import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { decodeProtectedHeader } from 'jose/decode/protected_header';
import * as errors from 'jose/errors';
import { jwtVerify } from 'jose/jwt/verify';
import type { Clock, Sha256 } from '../clock.ts';
import { err, ok, type Problem, type Result } from '../problem.ts';
import { createRecent } from '../recent.ts';
import { isSubject, SUBJECT_CHARS_MAX } from '../subject.ts';
import type { Keys, SigningKeys } from './signing-keys.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/** RFC 7515 §7.1. The library would also take padding and white space: one token would have many spellings. */
const COMPACT_JWS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const CLOCK_TOLERANCE_S = 5;
const TOKEN_CHARS_MAX = 16 * 1024; // tokens of large issuers stay far below
/** Keys tried for a token that names none (`kid`), each a signature check. */
const KEYS_TRIED_MAX = 8;

const VERDICT_FOR_MS = 5 * 60_000;
const VERDICTS_MAX = 10_000; // about 3 MB

interface Verdict {
  readonly subject: string;
  /** What it was reached with: with other keys in force it counts no more. */
  readonly keys: Keys;
  /** `exp`, by the wall clock. */
  readonly expiresAtMs: number;
  /** End of VERDICT_FOR_MS, by the monotonic clock, so that a clock set back prolongs nothing. */
  readonly untilMs: number;
}

export interface JwtVerifierOptions {
  readonly keys: SigningKeys;
  /** Required `iss`; null: not compared. */
  readonly issuer: string | null;
  /** Accepted `aud` values, asked at each use; null: not compared. */
  readonly audiences: () => readonly string[] | null;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

export function createJwtVerifier(options: JwtVerifierOptions): VerifyUserJwt {
  const { keys: signing, issuer, audiences, clock, sha256 } = options;
  // By the token's hash, so that no token stands in memory longer than its request.
  const verdicts = createRecent<Verdict>({ entries: VERDICTS_MAX });

  function known(tokenHash: string): Verdict | undefined {
    const verdict = verdicts.get(tokenHash);
    if (verdict === undefined) return undefined;
    const counts =
      verdict.keys === signing.inForce() &&
      clock.nowMs() < verdict.expiresAtMs &&
      clock.monotonicMs() < verdict.untilMs;
    if (counts) return verdict;
    verdicts.delete(tokenHash);
    return undefined;
  }

  async function check(token: string, tokenHash: string): Promise<Result<{ subject: string }, Problem>> {
    const alg = algorithmOf(token);
    if (alg === null) return err({ code: 'invalid_token', reason: 'malformed' });
    // Also jose's check; made before it, so that what no key can help is refused without asking for keys.
    if (!signing.algorithms.includes(alg)) return err({ code: 'invalid_token', reason: 'algorithm not accepted' });
    const accepted = audiences();
    const options: JWTVerifyOptions = {
      algorithms: [...signing.algorithms],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(clock.nowMs()),
      ...(issuer !== null && { issuer }),
      ...(accepted !== null && { audience: [...accepted] }),
    };
    let keys = await signing.get();
    if (!keys.ok) return keys;
    let verified = await verifyWith(keys.value, token, options);
    if (!verified.ok && mayHaveNewerKey(verified.error, token)) {
      const newer = await signing.newerThan(keys.value);
      if (!newer.ok) return newer;
      if (newer.value !== keys.value) verified = await verifyWith(newer.value, token, options);
      keys = newer;
    }
    if (!verified.ok) return err(problemOf(verified.error));
    const { sub: subject, exp } = verified.value;
    if (typeof subject !== 'string' || !isSubject(subject)) {
      return err({
        code: 'invalid_token',
        reason: `sub must be 1 to ${SUBJECT_CHARS_MAX} characters without controls`,
      });
    }
    verdicts.set(tokenHash, {
      subject,
      keys: keys.value,
      expiresAtMs: Number(exp) * 1000, // required and checked to be a number above
      untilMs: clock.monotonicMs() + VERDICT_FOR_MS,
    });
    return ok({ subject });
  }

  return (token) => {
    if (!COMPACT_JWS.test(token)) return err({ code: 'invalid_token', reason: 'malformed' });
    if (token.length > TOKEN_CHARS_MAX) return err({ code: 'invalid_token', reason: 'too long' });
    const tokenHash = sha256(token, 'base64url');
    const verdict = known(tokenHash);
    return verdict !== undefined ? ok({ subject: verdict.subject }) : check(token, tokenHash);
  };
}

/** What the header says; null for what is no JWT. */
function algorithmOf(token: string): string | null {
  try {
    return decodeProtectedHeader(token).alg ?? null;
  } catch {
    return null;
  }
}

/** The claims of a valid token, or jose's error. */
async function verifyWith(keys: Keys, token: string, options: JWTVerifyOptions): Promise<Result<JWTPayload, unknown>> {
  try {
    return ok((await jwtVerify(token, keys, options)).payload);
  } catch (error) {
    return error instanceof errors.JWKSMultipleMatchingKeys ? tryEach(error, token, options) : err(error);
  }
}

/** For a token that several keys fit: the first whose signature it is. */
async function tryEach(
  candidates: errors.JWKSMultipleMatchingKeys,
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

/** True when the issuer may have begun to sign with a key that was not in the set yet. */
const mayHaveNewerKey = (error: unknown, token: string): boolean =>
  error instanceof errors.JWKSNoMatchingKey ||
  (error instanceof errors.JWSSignatureVerificationFailed && decodeProtectedHeader(token).kid === undefined);

// Of jose's messages only those about claims are free of what the token says. Not jose's: a key that can't be used.
const problemOf = (error: unknown): Problem => ({
  code: 'invalid_token',
  reason:
    error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired
      ? error.message
      : error instanceof errors.JOSEError
        ? error.code
        : 'unusable key',
});
