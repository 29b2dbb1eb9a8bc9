// Reads all rules together, and keeps them until one changes.

import { singleFlights } from '../../ground/cache.ts';
import { RULES_CHANGED } from '../../ground/change-feed.ts';
import type { Awaitable } from '../../ground/result.ts';
import type { Clock } from '../../ground/runtime.ts';
import type { Feed } from '../../keys/feed.ts';
import type { RuleOfToken } from '../../keys/verify.ts';
import { createVerdicts, type Verdicts } from '../../users/verifier.ts';
import type { RuleStore, StoredRule } from './store.ts';

/** All rules as of one reading. Another reading is another object. */
export interface RuleSet {
  readonly byIssuer: ReadonlyMap<string, readonly StoredRule[]>;
  /** The hashes by which the feed announces a change of a rule. */
  readonly hashes: ReadonlySet<string>;
  readonly letIn: Verdicts<RuleOfToken>;
}

/** Creates what keeps the rules. */
export function createRuleSets(store: RuleStore, feed: Feed, clock: Clock) {
  let rules: RuleSet | null = null;
  const reads = singleFlights<RuleSet>((_, set) => {
    rules = set;
  });

  function forget(): void {
    rules = null;
    reads.forgetAll();
  }

  feed.subscribe({
    onChanges(hashes) {
      // While rules are being read, any hash may be one of theirs.
      if (rules === null || hashes.some((hash) => hash === RULES_CHANGED || rules?.hashes.has(hash))) forget();
    },
    onReset: forget,
  });

  async function readRules(): Promise<RuleSet> {
    const list = await store.list(clock.nowMs(), null, feed.queryTimeoutMs);
    return {
      byIssuer: Map.groupBy(list, ({ issuer }) => issuer),
      hashes: new Set(list.map(({ hash }) => hash)),
      letIn: createVerdicts(clock),
    };
  }

  return {
    /** Returns the rules that are kept; null: they have to be read. */
    kept: (): RuleSet | null => rules,
    get: (): Awaitable<RuleSet> => rules ?? reads.run('all', readRules),
  };
}
