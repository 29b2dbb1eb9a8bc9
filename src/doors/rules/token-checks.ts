// Parses a workload's token, and checks it in order, but for its signature and its key. Pure. The server stops at the first
// check that fails; `keys rule test` says all of them in words (test-token.ts).

import { strictObject } from '../../ground/strict-json.ts';
import type { JsonObject } from '../../ground/text.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';
import { hasAudience, isUsers, typeIn, type UserTokens } from '../../users/user-token.ts';
import { COMPACT_JWS, TOKEN_CHARS_MAX } from '../../users/verifier.ts';
import { fitsClaim, fitsSubject, isSubject, type Rule } from './rule.ts';

/** A token that was parsed, and not verified. */
export interface ParsedToken {
  readonly header: JsonObject;
  readonly payload: JsonObject;
}

/**
 * Parses a JWT in compact form (RFC 7515 §7.1). Returns header and payload; null: the text isn't of this form, too long,
 * or has a member twice, at any depth.
 */
export function parseToken(text: string): ParsedToken | null {
  if (text.length > TOKEN_CHARS_MAX || !COMPACT_JWS.test(text)) return null;
  const [first = '', second = ''] = text.split('.');
  const [header, payload] = [objectIn(first), objectIn(second)];
  return header === null || payload === null ? null : { header, payload };
}

function objectIn(base64url: string) {
  try {
    return strictObject(Uint8Array.fromBase64(base64url, { alphabet: 'base64url', lastChunkHandling: 'loose' }));
  } catch {
    return null;
  }
}

/** Returns the rules that may let a token in, by what it says of itself; null: it is a user's, or nobody's. */
export function candidatesOf<R extends Rule>(
  { header, payload }: ParsedToken,
  byIssuer: ReadonlyMap<string, readonly R[]>,
  users: UserTokens,
): readonly R[] | null {
  const { iss } = payload;
  if (typeof iss !== 'string' || isUsers(header, payload, users)) return null;
  return byIssuer.get(iss) ?? null;
}

/** How far the issuer's clock may be ahead. */
export const AHEAD_S_MAX = 5;
/** Managed identities are good for a day and some minutes. */
export const LIFE_S_MAX = 25 * 60 * 60;
const TYPES: readonly unknown[] = ['jwt', 'jose', 'at+jwt'];

/** What needs no signature. Each check returns why the token is refused; null: it passes. */
export const EARLY_CHECKS = { header: headerRefusal, times: timesRefusal, bearer: bearerRefusal } as const;

function headerRefusal({ header }: ParsedToken) {
  const { alg } = header;
  const isFit =
    typeof alg === 'string' &&
    ASYMMETRIC.includes(alg) &&
    (!Object.hasOwn(header, 'typ') || TYPES.includes(typeIn(header))) &&
    !Object.hasOwn(header, 'crit');
  return isFit ? null : 'header';
}

function timesRefusal({ payload }: ParsedToken, nowMs: number) {
  const { exp, iat } = payload;
  const nbf = Object.hasOwn(payload, 'nbf') ? payload.nbf : 0;
  const nowS = nowMs / 1000;
  if (!isTime(exp) || !isTime(iat) || !isTime(nbf)) return 'lifetime';
  if (nowS >= exp) return 'expired';
  if (Math.max(iat, nbf) > nowS + AHEAD_S_MAX) return 'not yet';
  return exp - iat > LIFE_S_MAX ? 'lifetime' : null;
}

export const isTime = (value: unknown): value is number => Number.isFinite(value); // JSON's 1e400 is read as Infinity

function bearerRefusal({ payload }: ParsedToken) {
  return boundBy(payload).length === 0 && isSubject(payload.sub) ? null : 'claims';
}

/** Returns the claims by which a token is no bearer credential: of a proof, or of a person's sign-in. */
export const boundBy = (payload: JsonObject): readonly string[] =>
  ['cnf', 'nonce'].filter((name) => Object.hasOwn(payload, name));

/** Returns what of a rule a token fits, the key aside. `audiences`: those that the rule accepts (settings.ts). */
export const fitOf = ({ subject, claims }: Rule, { payload }: ParsedToken, audiences: readonly string[]) => ({
  audience: hasAudience(payload.aud, audiences),
  subject: isSubject(payload.sub) && fitsSubject(subject, payload.sub),
  claims: claims.every((claim) => fitsClaim(claim, payload)),
});

export const isFit = (rule: Rule, token: ParsedToken, audiences: readonly string[]): boolean =>
  Object.values(fitOf(rule, token, audiences)).every(Boolean);
