// What an operator should know of rules that let nobody in: by the settings, by their key, by their issuer, or beside others.

import { memoize } from '../../ground/cache.ts';
import type { Clock } from '../../ground/runtime.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets, type KeySets } from './key-sets.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { createRuleStore, type StoredRule } from './store.ts';

export interface Doubt {
  readonly rule: string;
  readonly keyId: string;
  readonly reason: string;
}

export interface DoubtsOptions extends RulesOptions {
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the rules that the settings make vain. */
export async function vainRules(options: DoubtsOptions): Promise<readonly Doubt[]> {
  return vainIn(await createRuleStore(options.db).list(options.clock.nowMs()), options);
}

function vainIn(rules: readonly StoredRule[], options: RulesOptions): readonly Doubt[] {
  const { vainness } = ruleSettings(options);
  return rules.flatMap((rule) => {
    const reason = vainness(rule, rule.resource);
    return reason === null ? [] : [doubt(rule, reason)];
  });
}

/** Returns all doubts. It fetches each issuer's key set, unless the operator gave it. */
export async function doubtsOf(options: DoubtsOptions): Promise<readonly Doubt[]> {
  const store = createRuleStore(options.db);
  const [rules, meeting] = await Promise.all([store.list(options.clock.nowMs()), store.meeting()]);
  const keySetsFor = memoize(() => createKeySets(options)); // each its own: an issuer that hangs has nobody else wait
  const away = await Promise.all(rules.map((rule) => outageOf(rule, keySetsFor(rule.issuer))));
  return [
    ...vainIn(rules, options),
    ...rules.flatMap((rule) => {
      const other = meeting.get(rule.id);
      return [
        ...(rule.refused === null ? [] : [doubt(rule, `its key is ${rule.refused}`)]),
        ...(other === undefined ? [] : [doubt(rule, `a token could fit rule ${other} beside it`)]),
      ];
    }),
    ...away.flat(),
  ];
}

const doubt = ({ id, keyId }: StoredRule, reason: string): Doubt => ({ rule: id, keyId, reason });

async function outageOf(rule: StoredRule, keySets: KeySets): Promise<readonly Doubt[]> {
  try {
    await keySets.of(rule).get();
    return [];
  } catch (error) {
    return [doubt(rule, `the key set of ${rule.issuer} can't be fetched: ${issuerOutageIn(error).reason}`)];
  }
}
