// What operators do with rules. Loaded by commands, and by a start that finds rules, to warn of those without effect.

export { addRule } from './add-rule.ts';
export { checkCells, RULE_HEADS, ruleCells, ruleObject, rulesPart, whoseWords } from './formatted.ts';
export { readKeySetSource, readTerms } from './rule-options.ts';
export { createRuleStore } from './store.ts';
export { testToken } from './test-token.ts';
export { rulesWithoutEffect, warningsOf } from './warnings.ts';
