// What an operator should know of rules that let nobody in: by the settings, by their key, by their issuer, or beside others.

import { memoize } from '../../ground/cache.ts';
import type { Clock } from '../../ground/runtime.ts';
import { issuerOutageIn } from '../../users/verification-keys.ts';
import type { Log } from '../../watch/log.ts';
import { createKeySets, type KeySets } from './key-sets.ts';
import { type RulesOptions, ruleSettings } from './settings.ts';
import { createRuleStore, type StoredRule } from './store.ts';

export interface Warning {
  readonly rule: string;
  readonly keyId: string;
  readonly reason: string;
}

export interface WarningsOptions extends RulesOptions {
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the rules that the settings leave without effect. */
export async function rulesWithoutEffect(options: WarningsOptions): Promise<readonly Warning[]> {
  return withoutEffectIn(await createRuleStore(options.db).list(options.clock.nowMs()), options);
}

function withoutEffectIn(rules: readonly StoredRule[], options: RulesOptions): readonly Warning[] {
  const { whyWithoutEffect } = ruleSettings(options);
  return rules.flatMap((rule) => {
    const reason = whyWithoutEffect(rule);
    return reason === null ? [] : [warning(rule, reason)];
  });
}

/** Returns all warnings. It fetches each issuer's key set, unless the operator gave it. */
export async function warningsOf(options: WarningsOptions): Promise<readonly Warning[]> {
  const store = createRuleStore(options.db);
  const [rules, meeting] = await Promise.all([store.list(options.clock.nowMs()), store.meeting()]);
  const keySetsFor = memoize(() => createKeySets(options)); // each its own: an issuer that hangs delays nobody
  const away = await Promise.all(rules.map((rule) => outageOf(rule, keySetsFor(rule.issuer))));
  return [
    ...withoutEffectIn(rules, options),
    ...rules.flatMap((rule) => {
      const other = meeting.get(rule.id);
      return [
        ...(rule.refused === null ? [] : [warning(rule, `its key is ${rule.refused}`)]),
        ...(other === undefined ? [] : [warning(rule, `a token could fit rule ${other} beside it`)]),
      ];
    }),
    ...away.flat(),
  ];
}

const warning = ({ id, keyId }: StoredRule, reason: string): Warning => ({ rule: id, keyId, reason });

async function outageOf(rule: StoredRule, keySets: KeySets): Promise<readonly Warning[]> {
  try {
    await keySets.of(rule).get();
    return [];
  } catch (error) {
    return [warning(rule, `the key set of ${rule.issuer} can't be fetched: ${issuerOutageIn(error).reason}`)];
  }
}
