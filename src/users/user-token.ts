// Decides by its header and claims whether a JWT is a user's token, or can be one, before anything is fetched or verified.
// Pure. It is the one place where a user's token could be taken for a workload's, or the other way round.

import type { JsonObject } from '../ground/text.ts';

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
  const { typ } = header;
  if (typeof typ !== 'string') return true;
  const type = typ.toLowerCase().replace(/^application\//, '');
  return type.endsWith('+jwt') && type !== 'at+jwt';
}

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
