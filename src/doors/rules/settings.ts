// What of the configuration decides about rules: which tokens are users', and which audiences a rule has by default. Pure.

import { OWN_PATHS, type ServerAddress } from '../../ground/server-address.ts';
import { THIS_SERVER } from '../../keys/audience.ts';
import type { Database } from '../../store/database.ts';
import { type UserJwtConfig, userTokensOf } from '../../users/index.ts';
import type { StoredRule } from './store.ts';

/** The rules of a database, and what decides about them. */
export interface RulesOptions {
  readonly db: Database;
  readonly config: UserJwtConfig;
  readonly address: Pick<ServerAddress, 'origins' | 'path'>;
}

type PlacedRule = Pick<StoredRule, 'issuer' | 'audiences' | 'resource'>;

export function ruleSettings({ config, address }: Omit<RulesOptions, 'db'>) {
  const users = userTokensOf(config, address);
  const own = address.origins.flatMap((origin) => OWN_PATHS.flatMap((end) => withSlash(origin + address.path + end)));

  /** Returns the audiences of a rule: by default those of the server that its key is good for. */
  const audiencesOf = ({ audiences, resource }: PlacedRule): readonly string[] =>
    audiences.length > 0 ? audiences : resource === null || resource === THIS_SERVER ? own : withSlash(resource);

  /** Returns why no token can be let in by a rule; null: one can. */
  function whyWithoutEffect(rule: PlacedRule): string | null {
    if (users.by === 'key_set') return 'JWT_JWKS_URL takes every token for a user’s: set JWT_ISSUER, too';
    if (users.by !== 'issuer' || users.issuer !== rule.issuer) return null;
    const audiences = audiencesOf(rule);
    const isUsers = (audience: string) => users.audiences.includes(audience);
    // By default a rule accepts many spellings of the server's URL: if users' tokens have some, nobody asks for the rest.
    const isWithoutEffect = rule.audiences.length > 0 ? audiences.every(isUsers) : audiences.some(isUsers);
    return isWithoutEffect
      ? 'its tokens are users’, since JWT_ISSUER makes them for an audience of users: give --audience another'
      : null;
  }

  return { users, audiencesOf, whyWithoutEffect };
}

const withSlash = (url: string): readonly string[] => [url, `${url}/`];
