// Parses a workload's token, and checks it in order, but for its signature and its key: each check says what was found, what
// was expected and what to do. The server stops at the first that fails; `keys rule test` shows all. Pure.

import type { TokenRefusal } from '../../ground/problem.ts';
import { strictObject } from '../../ground/strict-json.ts';
import type { JsonObject } from '../../ground/text.ts';
import { ASYMMETRIC } from '../../users/jwks.ts';
import { hasAudience, isUsers, typeIn, type UserTokens } from '../../users/user-token.ts';
import { COMPACT_JWS, TOKEN_CHARS_MAX } from '../../users/verifier.ts';
import { fitsClaim, fitsSubject, isSubject, memberAt, nameOf, type Rule } from './rule.ts';

export interface Finding {
  readonly check: string;
  /** Why the token fails this check; null: it passes. */
  readonly refusal: TokenRefusal | null;
  /** Says it in words, which the server doesn't need: an issuer may have a thousand rules. */
  words(): Words;
}

export interface Words {
  readonly found: string;
  readonly expected: string;
  readonly help: string;
}

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
const AHEAD_S_MAX = 5;
/** Managed identities are good for a day and some minutes. */
const LIFE_S_MAX = 25 * 60 * 60;
const TYPES: readonly unknown[] = ['jwt', 'jose', 'at+jwt'];

/** Checks what needs no signature. */
export const EARLY_CHECKS = [checkHeader, checkTimes, checkBearer] as const;

function checkHeader({ header }: ParsedToken): Finding {
  const { alg, typ } = header;
  const isFit =
    typeof alg === 'string' &&
    ASYMMETRIC.includes(alg) &&
    (!Object.hasOwn(header, 'typ') || TYPES.includes(typeIn(header))) &&
    !Object.hasOwn(header, 'crit');
  return {
    check: 'header',
    refusal: isFit ? null : 'header',
    words: () => ({
      found: `alg ${shown(alg)}, typ ${shown(typ)}, crit ${shown(header.crit)}`,
      expected: `alg ${ASYMMETRIC.join(', ')}; typ absent, JWT, JOSE or at+jwt; no crit`,
      help: 'Ask the platform for a token for its workload, signed by its key set',
    }),
  };
}

function checkTimes({ payload }: ParsedToken, nowMs: number): Finding {
  const { exp, iat, nbf } = payload;
  const refusal = timesRefusal(exp, iat, Object.hasOwn(payload, 'nbf') ? nbf : 0, nowMs / 1000);
  return {
    check: 'times',
    refusal,
    words: () => ({
      found: `iat ${shownTime(iat)}, nbf ${shownTime(nbf)}, exp ${shownTime(exp)}, now ${shownTime(nowMs / 1000)}`,
      expected: `numbers; now before exp; iat and nbf at most ${AHEAD_S_MAX} s ahead; at most ${LIFE_S_MAX / 3600} h from iat to exp`,
      help: refusal === null ? '' : TIMES_HELP[refusal],
    }),
  };
}

const TIMES_HELP = {
  lifetime: 'Ask the issuer for tokens with iat and exp that are good for at most 25 hours',
  expired: 'Ask for a new token shortly before it is needed',
  'not yet': 'Set the clocks of the issuer and of this server',
} as const;

function timesRefusal(exp: unknown, iat: unknown, nbf: unknown, nowS: number): keyof typeof TIMES_HELP | null {
  if (!isTime(exp) || !isTime(iat) || !isTime(nbf)) return 'lifetime';
  if (nowS >= exp) return 'expired';
  if (Math.max(iat, nbf) > nowS + AHEAD_S_MAX) return 'not yet';
  return exp - iat > LIFE_S_MAX ? 'lifetime' : null;
}

const isTime = (value: unknown): value is number => Number.isFinite(value); // JSON's 1e400 is read as Infinity

function checkBearer({ payload }: ParsedToken): Finding {
  const unfit = ['cnf', 'nonce'].filter((name) => Object.hasOwn(payload, name));
  const isFit = unfit.length === 0 && isSubject(payload.sub);
  return {
    check: 'bearer',
    refusal: isFit ? null : 'claims',
    words: () => ({
      found: unfit.length > 0 ? unfit.join(' and ') : `sub ${shown(payload.sub)}`,
      expected: 'a sub of 1 to 512 characters without controls; no cnf, no nonce',
      help: 'Ask for a token of the workload itself: this one is bound to a proof, or to a sign-in',
    }),
  };
}

type RuleCheck = (rule: Rule, payload: JsonObject, audiences: readonly string[]) => Finding;

const RULE_CHECKS: readonly RuleCheck[] = [checkAudience, checkSubject, checkClaims];

function checkAudience(_rule: Rule, { aud }: JsonObject, audiences: readonly string[]): Finding {
  return {
    check: 'audience',
    refusal: hasAudience(aud, audiences) ? null : 'no rule',
    words: () => ({
      found: `aud ${shown(aud)}`,
      expected: audiences.join(' or '),
      help: `Ask the platform for a token with the audience ${audiences[0]}`,
    }),
  };
}

function checkSubject({ subject }: Rule, { sub }: JsonObject): Finding {
  return {
    check: 'subject',
    refusal: isSubject(sub) && fitsSubject(subject, sub) ? null : 'no rule',
    words: () => ({
      found: `sub ${shown(sub)}`,
      expected: subject,
      help: 'Add a rule with this subject, if this workload may act as the key',
    }),
  };
}

function checkClaims({ claims }: Rule, payload: JsonObject): Finding {
  return {
    check: 'claims',
    refusal: claims.every((claim) => fitsClaim(claim, payload)) ? null : 'no rule',
    words: () => ({
      found: claims.map((claim) => `${nameOf(claim)} ${shown(memberAt(nameOf(claim), payload))}`).join(', '),
      expected: claims.join(', '),
      help: 'Add a rule with these claims, if this workload may act as the key',
    }),
  };
}

/** Checks the token against one rule. `audiences`: those that the rule accepts (`audiencesOf` in settings.ts). */
export const fitOf = (rule: Rule, { payload }: ParsedToken, audiences: readonly string[]): readonly Finding[] =>
  RULE_CHECKS.map((check) => check(rule, payload, audiences));

/** Returns whether a rule lets the token in, its key aside. */
export const isFit = (rule: Rule, { payload }: ParsedToken, audiences: readonly string[]): boolean =>
  RULE_CHECKS.every((check) => check(rule, payload, audiences).refusal === null);

const SHOWN_CHARS_MAX = 200;

/** Returns a value as JSON shows it, or its beginning. */
export const shown = (value: unknown): string =>
  value === undefined ? 'absent' : JSON.stringify(value).slice(0, SHOWN_CHARS_MAX);

/** The latest time that a Date can hold, in seconds. */
const DATE_S_MAX = 8.64e12;

function shownTime(value: unknown): string {
  if (!isTime(value) || Math.abs(value) > DATE_S_MAX) return shown(value);
  return new Date(value * 1000).toISOString();
}
