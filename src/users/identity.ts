// Reads a token's claims: the owner of keys, the person, and what the person may grant. Pure; check-token.ts decides
// whether the token is valid.

import type { UserIdentity } from '../calls/user-jwt.ts';
import type { Problem } from '../ground/problem.ts';
import { err, ok, type Result } from '../ground/result.ts';
import { hasLength, isObject, isScope, isStorable, type JsonObject, splitScopes } from '../ground/text.ts';

export interface IdentityClaims {
  readonly owner: string;
  /** The claim with the scopes that the person may grant; null: anybody may grant any. */
  readonly scope: string | null;
  /** The claim of admins and its value; null: there are no admins. */
  readonly admin: { readonly name: string; readonly value: string } | null;
}

export const JWT_SECRET_BYTES_MIN = 32; // HS256 needs a key at least as long as the hash (RFC 7518 §3.2)

export const SUBJECT_CHARS_MAX = 255; // the limit of OpenID Connect Core §2

/** Returns whether the text can be an owner of keys. */
export const isSubject = (sub: string): boolean => hasLength(sub, 1, SUBJECT_CHARS_MAX) && isStorable(sub);

export function identityOf(claims: JsonObject, names: IdentityClaims): Result<UserIdentity, Problem> {
  const actor = subjectIn(claims, 'sub');
  if (!actor.ok) return actor;
  const subject = subjectIn(claims, names.owner); // no fallback: keys would change owners later
  if (!subject.ok) return subject;
  const grantable = names.scope === null ? null : scopesIn(claimIn(claims, names.scope));
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

/** Returns the scopes in a claim. Other words grant nothing. */
const scopesIn = (claim: unknown): readonly string[] => textsIn(claim).filter(isScope);

/** Returns the words of a claim: text separated by spaces, or an array of texts. Anything else has none. */
function textsIn(claim: unknown): readonly string[] {
  const texts: unknown = typeof claim === 'string' ? splitScopes(claim) : claim;
  return Array.isArray(texts) && texts.every((text) => typeof text === 'string') ? texts : [];
}
