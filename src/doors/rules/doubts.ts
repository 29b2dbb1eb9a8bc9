// What an operator should know of rules that let nobody in: by the settings, by their key, by their issuer, or beside others.

import type { Clock } from '../../ground/runtime.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets, type KeySets } from './key-sets.ts';
import type { RuleSettings } from './settings.ts';
import type { RuleStore, StoredRule } from './store.ts';

export interface Doubt {
  readonly rule: string;
  readonly keyId: string;
  readonly reason: string;
}

/** Returns the rules that the settings make vain. */
export const vainRules = (rules: readonly StoredRule[], settings: RuleSettings): readonly Doubt[] =>
  rules.flatMap((rule) => {
    const reason = settings.vainness(rule, rule.resource);
    return reason === null ? [] : [doubt(rule, reason)];
  });

/** Returns all doubts. It fetches each issuer's key set, unless the operator gave it. */
export async function doubtsOf(
  store: RuleStore,
  settings: RuleSettings,
  context: { readonly clock: Clock; readonly log: Log },
): Promise<readonly Doubt[]> {
  const [rules, meeting] = await Promise.all([store.list(context.clock.nowMs()), store.meeting()]);
  const keySets = createKeySets(context);
  const away = await Promise.all(rules.map((rule) => outageOf(rule, keySets)));
  return [
    ...vainRules(rules, settings),
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
