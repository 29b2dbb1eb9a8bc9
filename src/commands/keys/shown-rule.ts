// Formats a rule as an object and as table cells, for `keys rule list` and `keys show`. Never shows its hash, nor a key set.

import type { StoredRule } from '../../doors/rules/index.ts';

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
