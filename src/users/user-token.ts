// Decides by its header and claims whether a JWT is a user's token, or can be one, before anything is fetched or verified; and
// whose token it is: the owner of keys, the person, and what the person may grant. Pure. It is the one place where a user's
// token could be taken for a workload's, or the other way round.

import type { UserIdentity } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { isObject, isScope, isSubject, type JsonObject, SUBJECT_CHARS_MAX, splitScopes } from '../ground/text.ts';

/** The latest `exp`. A later one is in milliseconds, and would be good for thousands of years. */
export const EXP_S_MAX = 1e11;

/** Returns why the JWT can't be a user's token, for the log; null if it can. */
export function whyNoUserToken(header: JsonObject, claims: JsonObject): string | null {
  if (isOfAnotherProfile(header)) return 'header';
  const { exp } = claims;
  if (typeof exp === 'number' && exp > EXP_S_MAX) return '"exp" claim must be in seconds, up to 10^11';
  return null;
}

/**
 * Returns whether `typ` (RFC 7515 §4.1.9) says that the token was made for another purpose (RFC 8725 §3.11): an identity
 * assertion, a logout token or a proof has the issuer's signature and may have its user's `sub` and this server as `aud`.
 */
function isOfAnotherProfile(header: JsonObject): boolean {
  if (!Object.hasOwn(header, 'typ')) return false;
  const type = typeIn(header);
  return typeof type !== 'string' || (type.endsWith('+jwt') && type !== 'at+jwt');
}

/** Returns `typ` without `application/`, in lower case; what is no text, as it is. */
export const typeIn = ({ typ }: JsonObject): unknown =>
  typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : typ;

/** How users' tokens are verified, as far as that decides which JWTs are theirs. `audiences`: the accepted `aud`; null: any. */
export type UserTokens =
  | { readonly by: 'secret'; readonly audiences: readonly string[] | null }
  | { readonly by: 'issuer'; readonly issuer: string; readonly audiences: readonly string[] }
  | { readonly by: 'key_set'; readonly audiences: readonly string[] };

/** Returns whether a JWT is to be verified as a user's token, and as nothing else, by what it says of itself. */
export function isUsers(header: JsonObject, claims: JsonObject, users: UserTokens): boolean {
  switch (users.by) {
    case 'secret':
      return header.alg === 'HS256';
    case 'issuer':
      return claims.iss === users.issuer && hasAudience(claims.aud, users.audiences);
    case 'key_set':
      return true;
  }
}

/** Returns whether a token's `aud`, a text or a list of texts, has one of the audiences (RFC 7519 §4.1.3). */
export const hasAudience = (aud: unknown, audiences: readonly string[]): boolean =>
  (Array.isArray(aud) ? aud : [aud]).some((one) => typeof one === 'string' && audiences.includes(one));

// Whose token it is.

export interface IdentityClaims {
  readonly owner: string;
  /** The claim with the scopes that the person may grant; null: anybody may grant any. */
  readonly scope: string | null;
  /** The claim of admins and its value; null: there are no admins. */
  readonly admin: { readonly name: string; readonly value: string } | null;
}

export function identityOf(claims: JsonObject, names: IdentityClaims): Result<UserIdentity, Problem> {
  const actor = subjectIn(claims, 'sub');
  if (!actor.ok) return actor;
  const subject = subjectIn(claims, names.owner); // no fallback: keys would change owners later
  if (!subject.ok) return subject;
  const grantable = names.scope === null ? null : textsIn(claimIn(claims, names.scope)).filter(isScope);
  const isAdmin = names.admin !== null && textsIn(claimIn(claims, names.admin.name)).includes(names.admin.value);
  return ok({ subject: subject.value, actor: actor.value, grantable, isAdmin });
}

/** Returns the claim of exactly this name, else the one at a path with dots (`realm_access.roles`). */
function claimIn(claims: JsonObject, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let found: unknown = claims;
  for (const part of name.split('.')) {
    if (!isObject(found) || !Object.hasOwn(found, part)) return undefined;
    found = found[part];
  }
  return found;
}

function subjectIn(claims: JsonObject, name: string): Result<string, Problem> {
  const value = claimIn(claims, name);
  if (typeof value === 'string' && isSubject(value)) return ok(value);
  const reason = `${name} must be 1 to ${SUBJECT_CHARS_MAX} characters without controls`;
  return err({ code: 'invalid_token', reason });
}

/** Returns the words of a claim: text separated by spaces, or an array of texts. Anything else has none. */
function textsIn(claim: unknown): readonly string[] {
  const texts: unknown = typeof claim === 'string' ? splitScopes(claim) : claim;
  return Array.isArray(texts) && texts.every((text) => typeof text === 'string') ? texts : [];
}
