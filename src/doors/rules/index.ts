// Rules: tokens of other issuers act as keys (src/keys/README.md, Workloads). A door: the server works without it. What
// checks tokens is loaded with the first one that is presented while the database holds a rule.

import { atFirstUse } from '../../ground/first-use.ts';
import { chain, outageIn } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Rules } from '../../keys/verify.ts';
import type { CheckingOptions } from './checking.ts';

export { workloadGrants } from './grant.ts';
export { RULE_LOOKUP } from './lookup.ts';
export type { StoredRule } from './store.ts';

const HOLDS_RULES = 'SELECT EXISTS (SELECT 1 FROM rules) AS holds_rules';

interface WarnOptions extends Pick<CheckingOptions, 'db' | 'config' | 'address' | 'log'> {
  readonly clock: Clock;
}

/** Warns at the start of rules that the settings make vain. */
export async function warnOfRules({ db, config, address, clock, log }: WarnOptions): Promise<void> {
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

export function openRules(core: CheckingOptions): Rules {
  const { feed } = core;
  const lazily = atFirstUse('doors/rules', import.meta.url);
  const tokens = lazily(async () => (await import('./checking.ts')).createChecking(core));
  return {
    findRule: (token, caller) => chain(tokens(), ({ find }) => find(token, caller)),
    isOfRule: (token) =>
      chain(feed.holdsRules(), (hasRules) => hasRules && chain(tokens(), ({ isOfRule }) => isOfRule(token))),
  };
}
