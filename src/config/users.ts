// Who signs user tokens, and what these must say.

import type { EnvReader } from './env.ts';
import { issuerText, outlinedUrl, shownUrl, trustedUrl } from './urls.ts';

/** How user JWTs are verified: a shared secret, or the key set of an issuer. */
export type JwtConfig =
  | { readonly kind: 'secret'; readonly secret: string; readonly previous: string | null } // signed with the first
  | { readonly kind: 'dev-secret' } // made at first start, kept in a file
  | { readonly kind: 'jwks'; readonly url: URL }
  | { readonly kind: 'discovery'; readonly issuer: string }; // the issuer's metadata names the key set

export const JWT_SECRET_BYTES_MIN = 32; // HS256 needs a key at least as long as the hash (RFC 7518 §3.2)

/** What examples have in place of a secret, which everybody knows. */
const PLACEHOLDER = /^(change[-_]?me|your-)/i;

export interface UserTokens {
  readonly jwt: JwtConfig;
  readonly jwtIssuer: string | null;
  readonly jwtAudience: string | null;
  /** The issuer that OAuth clients are sent to. Null: they are never challenged. */
  readonly authorizationServer: string | null;
}

/** `demandedIn`: the environment in which something must say it. In `production` no secret may be an example's. */
export function userTokens(
  { text, parsed, fault }: EnvReader,
  demandedIn: string | null,
  production: boolean,
): UserTokens {
  const secret = text('JWT_SECRET');
  const previous = text('JWT_SECRET_PREVIOUS');
  const jwksUrl = parsed('JWT_JWKS_URL', 'an https URL (http on loopback only)', trustedUrl, outlinedUrl);
  const jwtAudience = text('JWT_AUDIENCE');
  if (secret !== null) {
    for (const name of ['JWT_SECRET', 'JWT_SECRET_PREVIOUS'] as const) {
      const value = text(name);
      if (value !== null && new TextEncoder().encode(value).length < JWT_SECRET_BYTES_MIN) {
        fault(name, `at least ${JWT_SECRET_BYTES_MIN} bytes (the value is not shown)`);
      } else if (value !== null && production && PLACEHOLDER.test(value)) {
        fault(name, 'a secret of your own, and it begins as examples do (`openssl rand -base64 32` makes one)');
      }
    }
    const url = text('JWT_JWKS_URL');
    if (url !== null) {
      fault('JWT_JWKS_URL', 'to be unset while JWT_SECRET is set: one of the two decides', shownUrl(url));
    }
    return {
      jwt: { kind: 'secret', secret, previous },
      jwtIssuer: text('JWT_ISSUER'),
      jwtAudience,
      authorizationServer: null,
    };
  }
  if (previous !== null) fault('JWT_SECRET_PREVIOUS', 'to be unset without JWT_SECRET (the value is not shown)');
  const expected = 'an https URL (http on loopback only) without query and fragment';
  const issuer = parsed('JWT_ISSUER', expected, issuerText, outlinedUrl);
  if (demandedIn !== null && text('JWT_JWKS_URL') === null && text('JWT_ISSUER') === null) {
    fault('JWT_SECRET', `JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in ${demandedIn}`);
  }
  return { jwt: issuerKeys(jwksUrl, issuer), jwtIssuer: issuer, jwtAudience, authorizationServer: issuer };
}

function issuerKeys(jwksUrl: URL | null, issuer: string | null): JwtConfig {
  if (jwksUrl !== null) return { kind: 'jwks', url: jwksUrl };
  return issuer !== null ? { kind: 'discovery', issuer } : { kind: 'dev-secret' };
}
