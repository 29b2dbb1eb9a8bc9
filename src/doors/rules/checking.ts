// Assembles what checks tokens.

import type { TokenBuckets } from '../../ground/limits/rates.ts';
import type { Clock, Sha256 } from '../../ground/runtime.ts';
import type { ServerAddress } from '../../ground/server-address.ts';
import type { Feed } from '../../keys/feed.ts';
import type { Database } from '../../store/database.ts';
import type { UserJwtConfig } from '../../users/index.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets } from './key-sets.ts';
import { createRuleSets } from './rule-sets.ts';
import { ruleSettings } from './settings.ts';
import { createSignatures } from './signatures.ts';
import { createRuleStore } from './store.ts';
import { type CountToken, createTokens } from './tokens.ts';

export interface CheckingOptions {
  readonly db: Database;
  readonly config: UserJwtConfig;
  readonly address: Pick<ServerAddress, 'origins' | 'path'>;
  readonly feed: Feed;
  /** The budgets of unknown keys. */
  readonly lookupBudgets: TokenBuckets;
  /** A clock that also counts while the machine sleeps. */
  readonly ageClock: Clock;
  readonly sha256: Sha256;
  readonly log: Log;
  readonly watch: { readonly token: CountToken };
}

export function createChecking(options: CheckingOptions) {
  const { db, config, address, feed, lookupBudgets, ageClock: clock, sha256, log, watch } = options;
  const keySets = createKeySets({ clock, log });
  const { users, defaultAudiences } = ruleSettings(config, address);
  return createTokens({
    ruleSets: createRuleSets({ store: createRuleStore(db), feed, clock, onRead: keySets.keepOnly }),
    keySets,
    users,
    defaultAudiences,
    signatures: createSignatures(lookupBudgets),
    clock,
    sha256,
    log,
    count: watch.token,
  });
}
