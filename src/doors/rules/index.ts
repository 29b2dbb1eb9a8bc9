// Rules: tokens of other issuers act as keys (src/keys/README.md, Workloads). A door: the server works without it. What
// checks tokens is loaded with the first one that is presented while the database holds a rule.

import { parameter, refused } from '../../api/oauth.ts';
import type { GrantTypes, Redeem } from '../../api/token.ts';
import { atFirstUse } from '../../ground/first-use.ts';
import { chain, ok, outageIn } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import { splitScopes } from '../../ground/text.ts';
import type { Caller } from '../../keys/actor.ts';
import type { Rules } from '../../keys/verify.ts';
import { listIn } from '../../store/database.ts';
import type { KeyLookup } from '../../store/key-reads.ts';
import { scopesFrom } from '../../store/rows.ts';
import type { TokensOptions } from './tokens.ts';

export type { StoredRule } from './store.ts';

const HOLDS_RULES = 'SELECT EXISTS (SELECT 1 FROM rules) AS holds_rules';

interface WarnOptions extends Pick<TokensOptions, 'db' | 'config' | 'address' | 'log'> {
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

export function openRules(core: TokensOptions): Rules {
  const { feed } = core;
  const lazily = atFirstUse('doors/rules', import.meta.url);
  const tokens = lazily(async () => (await import('./tokens.ts')).createTokens(core));
  return {
    find: (token, caller) =>
      chain(feed.holdsRules(), (hasRules) =>
        hasRules ? chain(tokens(), ({ find }) => find(token, caller)) : ok(null),
      ),
    isOfRule: (token) =>
      chain(feed.holdsRules(), (hasRules) => hasRules && chain(tokens(), ({ isOfRule }) => isOfRule(token))),
  };
}

/** Finds the key of a rule by the rule's hash, as if that were a secret's, with the scopes that the rule gives. */
export const RULE_LOOKUP: KeyLookup = {
  join: (hash) => `LEFT JOIN rules r ON r.hash = ${hash}`,
  column: 'iif(r.id IS NULL, NULL, json_array(r.hash, r.scopes)) AS rule',
  read({ rule }, key) {
    if (rule === null || key === null) return key;
    const [presentedHash, scopesJson] = listIn(rule); // written by `column`
    const given: readonly string[] | null = scopesJson === null ? null : scopesFrom(scopesJson);
    const scopes = given === null ? key.scopes : key.scopes.filter((scope) => given.includes(scope));
    return { ...key, scopes, presentedHash, presented: 'rule', secretEndsAtMs: null };
  },
};

/** Makes a child of what was presented. `scopes` chooses among those that may be handed on. */
type Delegate = (
  presented: { readonly token: string; readonly isJwt: boolean },
  form: URLSearchParams,
  scopes: (held: readonly string[]) => readonly string[],
  caller: Caller,
) => ReturnType<Redeem>;

/**
 * Returns the grant type `jwt-bearer` (RFC 7523 §2.1): a workload whose token a rule lets in gets a child of the rule's
 * key. It is for programs that want a token response; others send their token itself. Clients ask for all scopes that
 * they read in the metadata, so what isn't held is left out.
 */
export function workloadGrants(delegate: Delegate): GrantTypes {
  const redeem: Redeem = async (form, caller) => {
    const token = parameter(form, 'assertion');
    if (token === null) return refused('invalid_request', 'no assertion');
    const asked = form.get('scope');
    const chosen = asked === null ? null : new Set(splitScopes(asked));
    const presented = { token, isJwt: true };
    return delegate(presented, form, (held) => held.filter((scope) => chosen?.has(scope) ?? true), caller);
  };
  return new Map([['urn:ietf:params:oauth:grant-type:jwt-bearer', redeem]]);
}
