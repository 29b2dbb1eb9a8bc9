// What operators do with rules. Loaded by commands, and by a start that finds rules, to warn of vain ones.

export { addRule } from './adding.ts';
export { doubtsOf, vainRules } from './doubts.ts';
export { checkCells, RULE_HEADS, ruleCells, ruleObject, rulesPart, whoseWords } from './shown.ts';
export { createRuleStore } from './store.ts';
export { readKeySetSource, readTerms } from './terms.ts';
export { testToken } from './testing.ts';
