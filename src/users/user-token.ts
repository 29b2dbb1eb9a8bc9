// Decides by its header and claims whether a JWT can be a user's token, before anything is fetched or verified. Pure.

import type { JsonObject } from '../ground/text.ts';

/** The latest `exp`. A later one is in milliseconds, and would be good for thousands of years. */
const EXP_S_MAX = 1e11;

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
