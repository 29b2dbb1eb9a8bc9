// What operators do with rules, loaded by the commands alone.

export { addRule } from './adding.ts';
export { doubtsOf, vainRules } from './doubts.ts';
export { isGiven } from './key-sets.ts';
export { ruleSettings } from './settings.ts';
export { createRuleStore } from './store.ts';
export { readKeySetSource, readTerms } from './terms.ts';
export { testToken } from './testing.ts';
