// Rules: tokens of other issuers act as keys (src/keys/README.md, Workloads). A door: the server works without it. What
// checks tokens is loaded with the first one that is presented while the database holds a rule.

import { atFirstUse } from '../../ground/first-use.ts';
import { type Awaitable, chain, ok, outageIn } from '../../ground/result.ts';
import type { Rules } from '../../keys/verify.ts';
import type { KeyLookup } from '../../store/key-reads.ts';
import { scopesFrom } from '../../store/rows.ts';
import type { TokensOptions } from './tokens.ts';
import type { WarningsOptions } from './warnings.ts';

const HOLDS_RULES = 'SELECT EXISTS (SELECT 1 FROM rules) AS holds_rules';

/** Warns at the start of rules that the settings leave without effect. */
export async function warnOfRules(core: WarningsOptions): Promise<void> {
  try {
    const [row] = await core.db.read({ sql: HOLDS_RULES });
    if (row?.holds_rules !== 1) return;
    const { rulesWithoutEffect } = await import('./for-operators.ts');
    for (const { rule, keyId, reason } of await rulesWithoutEffect(core)) {
      core.log.warn('rule without effect', { rule, keyId, reason });
    }
  } catch (error) {
    outageIn(error); // the change feed logs it
  }
}

/** Loads what operators do with rules (commands/keys/rule.ts). */
export const loadForOperators = () => import('./for-operators.ts');

export function openRules(core: TokensOptions): Rules {
  const { feed } = core;
  const lazily = atFirstUse('doors/rules', import.meta.url);
  const tokens = lazily(async () => (await import('./tokens.ts')).createTokens(core));
  const ask = <T>(asked: (found: Awaited<ReturnType<typeof tokens>>) => Awaitable<T>, none: T): Awaitable<T> =>
    chain(feed.holdsRules(), (hasRules) => (hasRules ? chain(tokens(), asked) : none));
  return {
    find: (token, caller) => ask(({ find }) => find(token, caller), ok(null)),
    isOfRule: (token) => ask(({ isOfRule }) => isOfRule(token), false),
  };
}

/** Finds the key of a rule by the rule's hash, as if that were a secret's, with the scopes that the rule gives. */
export const RULE_LOOKUP: KeyLookup = {
  join: (hash) => `LEFT JOIN rules r ON r.hash = ${hash}`,
  columns: 'r.hash AS rule_hash, json(r.scopes) AS rule_scopes',
  read({ rule_hash: hash, rule_scopes: scopesJson }, key) {
    if (hash === null || key === null) return key;
    const given = scopesJson === null ? null : scopesFrom(String(scopesJson));
    const scopes = given === null ? key.scopes : key.scopes.filter((scope) => given.includes(scope));
    return { ...key, scopes, presentedHash: String(hash), presented: 'rule', secretEndsAtMs: null };
  },
};
