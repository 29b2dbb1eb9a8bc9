// Finds the key of a rule where keys are found. It is all of this door that every server loads.

import { listIn } from '../../store/database.ts';
import type { RuleLookup } from '../../store/key-reads.ts';
import { scopesFrom } from '../../store/rows.ts';

/** Finds the key of a rule by the rule's hash, as if that were a secret's, with the scopes that the rule gives. */
export const RULE_LOOKUP: RuleLookup = {
  join: (hash) => `LEFT JOIN rules r ON r.hash = ${hash}`,
  column: 'iif(r.id IS NULL, NULL, json_array(r.hash, r.scopes)) AS rule',
  read({ rule }, key) {
    if (rule === null) return key;
    const [presentedHash, scopesJson] = listIn(rule); // written by `column`
    const given: readonly string[] | null = scopesJson === null ? null : scopesFrom(scopesJson);
    const scopes = given === null ? key.scopes : key.scopes.filter((scope) => given.includes(scope));
    return { ...key, scopes, presentedHash, presented: 'rule', secretEndsAtMs: null };
  },
};
