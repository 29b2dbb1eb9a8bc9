// Verifying user JWTs: by a shared secret, or against an issuer's key set (RFC 7519, RFC 7517, RFC 8725).
// Where the keys come from is key-set.ts. The signature of a token is checked once, not on every call.

import { hash } from 'node:crypto';
import { errors, type JWTPayload, type JWTVerifyGetKey, type JWTVerifyOptions, jwtVerify } from 'jose';
import type { Clock } from '../clock.ts';
import { err, ok, type Problem, type Result } from '../problem.ts';
import { isSubject, SUBJECT_CHARS_MAX } from '../subject.ts';
import { KeySetUnavailable } from './key-set.ts';
import type { VerifyUserJwt } from './user-jwt.ts';

/** Nothing about a key set's keys may say HS256: then a public key would be a shared secret (RFC 8725 §2.1). */
const ASYMMETRIC = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];
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
  /** `exp`, by the wall clock. */
  readonly expiresAtMs: number;
  /** End of VERDICT_FOR_MS, by the monotonic clock, so that a clock set back prolongs nothing. */
  readonly untilMs: number;
}

export interface JwtVerifierOptions {
  /** The HS256 secret, or the getter of a key set. */
  readonly key: Uint8Array | JWTVerifyGetKey;
  /** Required `iss`; null: not compared. */
  readonly issuer: string | null;
  /** Accepted `aud` values, asked at each use; null: not compared. */
  readonly audiences: () => readonly string[] | null;
  readonly clock: Clock;
}

export interface JwtVerifier {
  readonly verify: VerifyUserJwt;
  /** To be called when keys may have left the key set: forgets every verdict. */
  forget(): void;
}

export function createJwtVerifier({ key, issuer, audiences, clock }: JwtVerifierOptions): JwtVerifier {
  // By the token's hash, so that no token stands in memory longer than its request.
  const verdicts = new Map<string, Verdict>();
  let generation = 0; // a verdict reached under an older one is not kept

  function known(tokenHash: string): Verdict | undefined {
    const verdict = verdicts.get(tokenHash);
    if (verdict === undefined) return undefined;
    if (clock.nowMs() < verdict.expiresAtMs && clock.monotonicMs() < verdict.untilMs) return verdict;
    verdicts.delete(tokenHash);
    return undefined;
  }

  async function check(token: string, tokenHash: string): Promise<Result<{ subject: string }, Problem>> {
    const startedIn = generation;
    const accepted = audiences();
    const options: JWTVerifyOptions = {
      algorithms: key instanceof Uint8Array ? ['HS256'] : ASYMMETRIC,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(clock.nowMs()),
      ...(issuer !== null && { issuer }),
      ...(accepted !== null && { audience: [...accepted] }),
    };
    let payload: JWTPayload;
    try {
      payload = await verifySignature(token, key, options);
    } catch (error) {
      return err(problemOf(error));
    }
    const { sub: subject, exp } = payload;
    if (typeof subject !== 'string' || !isSubject(subject)) {
      return err({
        code: 'invalid_token',
        reason: `sub must be 1 to ${SUBJECT_CHARS_MAX} characters without controls`,
      });
    }
    if (!isUtf8Payload(token)) return err({ code: 'invalid_token', reason: 'payload is not UTF-8' });
    if (generation === startedIn) {
      const oldest = verdicts.size >= VERDICTS_MAX ? verdicts.keys().next().value : undefined;
      if (oldest !== undefined) verdicts.delete(oldest);
      verdicts.set(tokenHash, {
        subject,
        expiresAtMs: Number(exp) * 1000, // required and checked to be a number above
        untilMs: clock.monotonicMs() + VERDICT_FOR_MS,
      });
    }
    return ok({ subject });
  }

  return {
    verify(token) {
      if (!COMPACT_JWS.test(token)) return err({ code: 'invalid_token', reason: 'malformed' });
      if (token.length > TOKEN_CHARS_MAX) return err({ code: 'invalid_token', reason: 'too long' });
      const tokenHash = hash('sha256', token, 'base64url');
      const verdict = known(tokenHash);
      return verdict !== undefined ? ok({ subject: verdict.subject }) : check(token, tokenHash);
    },
    forget() {
      generation += 1;
      verdicts.clear();
    },
  };
}

async function verifySignature(
  token: string,
  key: Uint8Array | JWTVerifyGetKey,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  if (key instanceof Uint8Array) return (await jwtVerify(token, key, options)).payload;
  try {
    return (await jwtVerify(token, key, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    let tries = 0;
    for await (const candidate of error) {
      tries += 1;
      if (tries > KEYS_TRIED_MAX) break;
      try {
        return (await jwtVerify(token, candidate, options)).payload;
      } catch (failure) {
        if (!(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure;
      }
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

function problemOf(error: unknown): Problem {
  if (error instanceof KeySetUnavailable) return { code: 'auth_unavailable', reason: error.message };
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) {
    return { code: 'auth_unavailable', reason: error.code };
  }
  // jose names claims and algorithms in its messages, never values. Anything else is a key that can't be used.
  return { code: 'invalid_token', reason: error instanceof errors.JOSEError ? error.message : 'unusable key' };
}

// jose decodes leniently, which would make different broken subjects one person.
function isUtf8Payload(token: string): boolean {
  const payload = token.split('.', 2)[1] ?? '';
  const bytes = Uint8Array.from(atob(payload.replace(/-/g, '+').replace(/_/g, '/')), (char) => char.charCodeAt(0));
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return true;
  } catch {
    return false;
  }
}
