// Rules: tokens of other issuers act as keys (src/keys/README.md, Workloads). A door: the server works without it. What
// checks tokens is loaded with the first one that is presented while the database holds a rule.

import { atFirstUse } from '../../ground/first-use.ts';
import type { TokenBuckets } from '../../ground/limits/rates.ts';
import { type Awaitable, chain, outageIn } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Feed } from '../../keys/feed.ts';
import type { FindRule } from '../../keys/verify.ts';
import type { Database } from '../../store/database.ts';
import type { UserJwtConfig } from '../../users/index.ts';
import type { Log } from '../../watch/log.ts';
import type { CheckingOptions } from './checking.ts';

export { workloadGrants } from './grant.ts';
export { RULE_LOOKUP } from './lookup.ts';
export type { StoredRule } from './store.ts';

export interface RulesOptions extends Omit<CheckingOptions, 'feed' | 'budgets'> {
  /** Returns the feed. It is called with the first token. */
  readonly feed: () => Feed;
  /** Returns the budgets of unknown keys. It is called with the first token. */
  readonly budgets: () => TokenBuckets;
}

export interface Rules {
  readonly findRule: FindRule;
  /** Returns whether a token is to be looked at as a workload's, and not as a user's. */
  isOfRule(token: string): Awaitable<boolean>;
}

const HOLDS_RULES = 'SELECT EXISTS (SELECT 1 FROM rules) AS holds_rules';

/** Warns at the start of rules that the settings make vain. */
export async function warnOfRules(
  db: Database,
  config: UserJwtConfig,
  address: CheckingOptions['address'],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  try {
    const [row] = await db.read({ sql: HOLDS_RULES });
    if (row?.holds_rules !== 1) return;
    const { createRuleStore, ruleSettings, vainRules } = await import('./operating.ts');
    const rules = await createRuleStore(db).list(clock.nowMs());
    for (const { rule, keyId, reason } of vainRules(rules, ruleSettings(config, address))) {
      log.warn('rule without effect', { rule, keyId, reason });
    }
  } catch (error) {
    outageIn(error); // the change feed logs it
  }
}

/** Loads what operators do with rules (commands/keys/rule.ts). */
export const operatingRules = () => import('./operating.ts');

export function openRules({ feed, budgets, ...options }: RulesOptions): Rules {
  const lazily = atFirstUse('doors/rules', import.meta.url);
  const tokens = lazily(async () => {
    const { createChecking } = await import('./checking.ts');
    return createChecking({ ...options, feed: feed(), budgets: budgets() });
  });
  return {
    findRule: (token, caller) => chain(tokens(), ({ find }) => find(token, caller)),
    isOfRule: (token) =>
      chain(feed().holdsRules(), (hasRules) => hasRules && chain(tokens(), ({ isOfRule }) => isOfRule(token))),
  };
}
