// Formats a rule as an object and as table cells, for `keys rule list` and `keys show`. Never shows its hash, nor a key set.

import type { Database } from '../../store/database.ts';
import { isGiven } from './key-sets.ts';
import { createRuleStore, type StoredRule } from './store.ts';

/** Returns a rule as JSON shows it. */
export const ruleObject = ({ hash: _, resource: __, keySet, refused, ...rule }: StoredRule) => ({
  ...rule,
  keySet: isGiven(keySet) ? 'file' : (keySet ?? 'fetch'),
  ...(refused !== null && { refused }),
});

export const RULE_HEADS = ['ISSUER', 'SUBJECT', 'AUDIENCES', 'CLAIMS', 'SCOPES', 'KEY SET', 'REFUSED'];

export const ruleCells = (rule: ReturnType<typeof ruleObject>): readonly string[] => [
  rule.issuer,
  rule.subject,
  rule.audiences.join(' ') || 'default',
  rule.claims.join(' ') || '-',
  rule.scopes?.join(' ') ?? 'all',
  rule.keySet,
  rule.refused ?? '-',
];

/** Returns the rules of a key as `keys show` shows them. */
export async function rulesPart(db: Database, keyId: string, nowMs: number) {
  const rules = (await createRuleStore(db).list(nowMs, keyId)).map(ruleObject);
  return { object: { rules }, table: [['RULE', ...RULE_HEADS], ...rules.map((rule) => [rule.id, ...ruleCells(rule)])] };
}
