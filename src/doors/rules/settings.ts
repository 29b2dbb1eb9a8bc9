// What of the configuration decides about rules: which tokens are users', and which audiences a rule has by default. Pure.

import { OWN_PATHS, type ServerAddress } from '../../ground/server-address.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import type { Database } from '../../store/database.ts';
import { type UserJwtConfig, userTokensOf } from '../../users/index.ts';
import type { RuleTerms } from './rule.ts';

/** The rules of a database, and what decides about them. */
export interface RulesOptions {
  readonly db: Database;
  readonly config: UserJwtConfig;
  readonly address: Pick<ServerAddress, 'origins' | 'path'>;
}

export function ruleSettings({ config, address }: Omit<RulesOptions, 'db'>) {
  const users = userTokensOf(config, address);
  const own = address.origins.flatMap((origin) => OWN_PATHS.flatMap((end) => withSlash(origin + address.path + end)));

  /** Returns the audiences of a rule that names none, by the server that its key is good for (null: any). */
  const defaultAudiences = (resource: string | null): readonly string[] =>
    resource === null || resource === THIS_SERVER ? own : withSlash(resource);

  /** Returns why no token can be let in by a rule; null: one can. `resource`: the server that its key is good for. */
  function whyWithoutEffect({ issuer, audiences: named }: RuleTerms, resource: string | null): string | null {
    if (users.by === 'key_set') return 'JWT_JWKS_URL takes every token for a user’s: set JWT_ISSUER, too';
    if (users.by !== 'issuer' || users.issuer !== issuer) return null;
    const isUsers = (audience: string) => users.audiences.includes(audience);
    // By default a rule accepts many spellings of the server's URL: if users' tokens have some, nobody asks for the rest.
    const isWithoutEffect = named.length > 0 ? named.every(isUsers) : defaultAudiences(resource).some(isUsers);
    return isWithoutEffect
      ? 'its tokens are users’, since JWT_ISSUER makes them for an audience of users: give --audience another'
      : null;
  }

  /** Returns the audiences of a rule, by the server that its key is good for (null: any). */
  const audiencesOf = ({ audiences }: RuleTerms, resource: string | null): readonly string[] =>
    audiences.length > 0 ? audiences : defaultAudiences(resource);

  return { users, audiencesOf, whyWithoutEffect };
}

const withSlash = (url: string): readonly string[] => [url, `${url}/`];
