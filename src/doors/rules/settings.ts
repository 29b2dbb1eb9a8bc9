// What of the configuration decides about rules: which tokens are users', and which audiences a rule has by default. Pure.
// It is the one place where a user's token could be taken for a workload's, or the other way round.

import type { ServerAddress } from '../../ground/server-address.ts';
import type { JsonObject } from '../../ground/text.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import { ownAudiences, type UserJwtConfig } from '../../users/index.ts';
import type { RuleTerms } from './rule.ts';

/** How users' tokens are verified, as far as that decides which JWTs are theirs. */
export type UserTokens =
  | { readonly by: 'secret' }
  | { readonly by: 'issuer'; readonly issuer: string; readonly audiences: readonly string[] }
  | { readonly by: 'key_set' };

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

export type RuleSettings = ReturnType<typeof ruleSettings>;

export function ruleSettings(
  { jwt, jwtIssuer, jwtAudience }: UserJwtConfig,
  address: Pick<ServerAddress, 'origins' | 'path'>,
) {
  const isSecret = jwt.kind === 'secret' || jwt.kind === 'dev-secret';
  const audiences = jwtAudience === null ? ownAudiences(address) : [jwtAudience];
  const users: UserTokens = isSecret
    ? { by: 'secret' }
    : jwtIssuer === null
      ? { by: 'key_set' }
      : { by: 'issuer', issuer: jwtIssuer, audiences };
  const own = address.origins.flatMap((origin) =>
    ['', '/mcp', '/sse'].flatMap((end) => withSlash(origin + address.path + end)),
  );

  /** Returns the audiences of a rule that names none, by the server that its key is good for (null: any). */
  const defaultAudiences = (resource: string | null): readonly string[] =>
    resource === null || resource === THIS_SERVER ? own : withSlash(resource);

  /** Returns why no token can be let in by a rule; null: one can. `resource`: the server that its key is good for. */
  function vainness({ issuer, audiences: named }: RuleTerms, resource: string | null): string | null {
    if (users.by === 'key_set') return 'JWT_JWKS_URL takes every token for a user’s: set JWT_ISSUER, too';
    if (users.by !== 'issuer' || users.issuer !== issuer) return null;
    const isUsers = (audience: string) => users.audiences.includes(audience);
    // Of the default it would be good for spellings that nobody asks for.
    const isVain = named.length > 0 ? named.every(isUsers) : defaultAudiences(resource).some(isUsers);
    return isVain
      ? 'its tokens are users’, since JWT_ISSUER makes them for an audience of users: give --audience another'
      : null;
  }

  /** Returns the audiences of a rule, by the server that its key is good for. */
  const audiencesOf = (
    { audiences }: Pick<RuleTerms, 'audiences'>,
    key: { readonly resource: string | null } | null,
  ) => (audiences.length > 0 ? audiences : defaultAudiences(key?.resource ?? null));

  return { users, audiencesOf, vainness };
}

const withSlash = (url: string): readonly string[] => [url, `${url}/`];
