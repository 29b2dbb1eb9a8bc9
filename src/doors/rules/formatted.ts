// Formats rules, and what a test of a token found, for operators. Never shows a rule's hash, nor a key set.

import type { Database } from '../../store/database.ts';
import { isGiven } from './key-sets.ts';
import { createRuleStore, type StoredRule } from './store.ts';
import type { TestedCheck, TestedToken } from './test-token.ts';

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

export const checkCells = ({ check, rule, verdict, found, expected, help }: TestedCheck): readonly string[] => [
  verdict,
  rule === undefined ? check : `${check} of rule ${rule}`,
  verdict === 'ok' ? found : `found ${found}; expected ${expected}. ${help}`,
];

/** Returns a sentence that says whose the token would be. */
export function whoseWords({ as, rule, key }: TestedToken): string {
  if (as === 'user') return 'it is looked at as a user token, and as nothing else';
  if (key === undefined) return 'it would be nobody';
  const { id, name, owner, scopes, until } = key;
  const who = `key ${id} (${JSON.stringify(name)} of ${JSON.stringify(owner)}, ${scopes.join(' ') || 'no scopes'})`;
  return `rule ${rule} lets it act as ${who} until ${until}; an X-API-Key beside it would count first`;
}
