// Assembles the key domain over a store: what owners do with keys, verification, and the change feed.

import { LIMITS } from '../ground/limits/index.ts';
import { createTokenBuckets, type TokenBuckets } from '../ground/limits/rates.ts';
import { createUsage, type UsageOptions } from '../uses/usage.ts';
import { createPersonBudget, type OriginOf } from './actor.ts';
import type { Audience } from './audience.ts';
import { createCheckBlock } from './blocked-owners.ts';
import { createChanges, createRevokeSecrets } from './changes.ts';
import { Feed, type FeedOptions } from './feed.ts';
import { createGrantFor, type KeyCeilings } from './grants.ts';
import { createLists } from './listing.ts';
import { createMinting } from './minting.ts';
import type { OwnerDefaults, PlanOf } from './plans.ts';
import type { MintOptions } from './record.ts';
import { createRotate } from './rotating.ts';
import type { DerivedKeys, KeyStore } from './store.ts';
import { createReadKeys, createUnknownKeys } from './unknown-keys.ts';
import { createVerifier, type Rules } from './verify.ts';

/** What an owner does with keys. Every change is logged. */
export type Keys = ReturnType<typeof createKeyDomain>['keys'] & { readonly planOf: PlanOf };

/** What rules need of the key domain. */
export interface RuleParts {
  readonly feed: Feed;
  /** The look-ups of uncached keys and codes that each address may make. */
  readonly lookupBudgets: TokenBuckets;
}

interface KeyDomainOptions extends UsageOptions, FeedOptions, MintOptions {
  readonly store: KeyStore;
  readonly derived: DerivedKeys;
  readonly originOf: OriginOf;
  readonly audience: Audience;
  readonly keyCeilings: KeyCeilings;
  /** Opens the rules that let tokens of other issuers in; by default there are none. */
  readonly openRules?: ((parts: RuleParts) => Rules) | undefined;
  readonly keyCacheBytes: number;
  readonly ownerDefaults: OwnerDefaults;
}

export function createKeyDomain(options: KeyDomainOptions) {
  const { store, clock, log, openRules } = options;
  const usage = createUsage(options);
  const feed = new Feed(options);
  const lookupBudgets = createTokenBuckets(LIMITS.unknownKeys, clock);
  const readKeys = createReadKeys(store, feed, usage);
  const rules = openRules?.({ feed, lookupBudgets });
  const parts = {
    ...options,
    feed,
    usage,
    readKeys,
    unknownKeys: createUnknownKeys(readKeys, 'any', lookupBudgets, clock, log),
    rules,
    grantFor: createGrantFor(options.keyCeilings, options.audience, log),
    failedChanges: createPersonBudget([LIMITS.failedChanges], clock, log),
    creations: createPersonBudget([LIMITS.creations, LIMITS.creationsOfDay], clock, log),
  };
  const verifier = createVerifier(parts);
  return {
    keys: {
      ...createMinting(parts),
      rotate: createRotate(parts),
      ...createChanges(parts),
      ...createLists(parts),
      /** Uses of a key today (UTC), counted over all processes as far as this one knows. */
      usesToday: usage.usesToday,
    },
    verifier,
    checkBlock: createCheckBlock(store, feed),
    isOfRule: rules?.isOfRule,
    feed,
    usage,
    creations: parts.creations,
    grantFor: parts.grantFor,
    lookupBudgets,
    revokeSecrets: createRevokeSecrets(createUnknownKeys(readKeys, 'primary', lookupBudgets, clock, log), parts),
    /** Stops polling and writes what is pending. The store stays open. */
    async stop(): Promise<void> {
      feed.stop();
      await usage.stop();
    },
  };
}
