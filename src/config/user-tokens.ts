// Decides who signs user tokens, from the configured secret, key set or issuer, and what the tokens must have.

import { dirname } from 'node:path';
import { isIssuer, outlinedUrl, shownUrl } from '../ground/urls.ts';
import type { NoteFault } from '../ground/wording.ts';
import type { JwtConfig } from '../users/index.ts';
import type { Values } from './env.ts';

/** Matches what examples have in place of a secret. */
const PLACEHOLDER = /change[-_ ]?(me|this)|^your[-_ ]|replace[-_ ]?(me|this)|placeholder/i;

export interface UserTokens {
  readonly jwt: JwtConfig;
  readonly jwtIssuer: string | null;
  readonly jwtAudience: string | null;
  /** The issuer to which OAuth clients are sent. Null: none. */
  readonly authorizationServer: string | null;
}

/**
 * Returns how user tokens are verified. `demandedIn`: the environment, if it must configure that. In `production` no
 * secret may be an example's.
 */
export function userTokens(
  values: Values,
  { demandedIn, production }: { readonly demandedIn: string | null; readonly production: boolean },
  fault: NoteFault,
): UserTokens {
  const { JWT_SECRET: secret, JWT_SECRET_PREVIOUS: previous, JWT_JWKS_URL: jwksUrl, JWT_ISSUER: issuer } = values;
  const jwtAudience = values.JWT_AUDIENCE;
  if (secret !== null) {
    for (const name of ['JWT_SECRET', 'JWT_SECRET_PREVIOUS'] as const) {
      if (production && PLACEHOLDER.test(values[name] ?? '')) {
        fault(name, 'a secret that nobody can guess, and it reads like an example (`openssl rand -hex 32` makes one)');
      }
    }
    if (jwksUrl !== null) {
      fault('JWT_JWKS_URL', 'to be unset while JWT_SECRET is set: one of the two decides', shownUrl(jwksUrl.href));
    }
    if (issuer?.includes('*')) fault('JWT_ISSUER', 'no *: no pattern is read here', outlinedUrl(issuer));
    return { jwt: { kind: 'secret', secret, previous }, jwtIssuer: issuer, jwtAudience, authorizationServer: null };
  }
  if (previous !== null) fault('JWT_SECRET_PREVIOUS', 'to be unset without JWT_SECRET (the value is not shown)');
  if (issuer !== null && !isIssuer(issuer)) {
    fault('JWT_ISSUER', 'an https URL (http on loopback only) without query, fragment and *', outlinedUrl(issuer));
  }
  if (demandedIn !== null && jwksUrl === null && issuer === null) {
    fault('JWT_SECRET', `JWT_SECRET, JWT_JWKS_URL or JWT_ISSUER to be set in ${demandedIn}`);
  }
  return {
    jwt: issuerKeys(jwksUrl, issuer, values.DATABASE_URL),
    jwtIssuer: issuer,
    jwtAudience,
    authorizationServer: issuer,
  };
}

function issuerKeys(jwksUrl: URL | null, issuer: string | null, database: Values['DATABASE_URL']): JwtConfig {
  if (jwksUrl !== null) return { kind: 'jwks', url: jwksUrl };
  if (issuer !== null) return { kind: 'discovery', issuer };
  return { kind: 'dev-secret', folder: database.mode === 'embedded' ? dirname(database.path) : './data' };
}
