// Formats a rule as an object and as table cells, for `keys rule list` and `keys show`. Never shows its hash, nor a key set.

import { operatingRules, type StoredRule } from '../../doors/rules/index.ts';
import type { Database } from '../../store/database.ts';

/** Returns a rule as JSON shows it. `isGiven` says whether the operator gave the key set itself. */
export const ruleObject = (
  { hash: _, resource: __, keySet, refused, ...rule }: StoredRule,
  isGiven: (keySet: string | null) => boolean,
) => ({
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
export async function rulesPart(
  { db }: { readonly db: Database },
  { id, rules: count }: { readonly id: string; readonly rules: number },
  nowMs: number,
) {
  if (count === 0) return null;
  const { createRuleStore, isGiven } = await operatingRules();
  const rules = (await createRuleStore(db).list(nowMs, id)).map((rule) => ruleObject(rule, isGiven));
  return { object: { rules }, table: [['RULE', ...RULE_HEADS], ...rules.map((rule) => [rule.id, ...ruleCells(rule)])] };
}
