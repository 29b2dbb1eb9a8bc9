// What is in force for all keys of an owner together (limit, quota, how many keys there may be), as operators set it, and
// how much of it is used.

import { KEYS_MAX_DEFAULT, type Limits } from '../ground/rate-limit.ts';
import type { Usage } from '../uses/usage.ts';
import type { OwnerSettings } from './record.ts';

export interface StoredOwner {
  readonly owner: string;
  /** What an operator has set for the owner; null: nothing. */
  readonly settings: OwnerSettings | null;
  readonly blocked: boolean;
  /** How many keys there are, in any state. */
  readonly keys: number;
}

interface FindOwner {
  /** Whether to return only an owner with a limit, a quota or a number of keys of his own. */
  readonly isLimited?: boolean;
  /** How many keys are counted; by default all. */
  readonly counted?: number;
}

export interface PlanStore {
  /** Returns an owner by the exact name, even an unknown one. */
  findOwner(owner: string, options?: FindOwner): Promise<StoredOwner | null>;
}

/** What counts for owners without settings. */
export interface OwnerDefaults extends Limits {
  readonly keysMax: number;
}

export interface ShownPlans {
  readonly config: { readonly ownerDefaults: OwnerDefaults };
  readonly usage: Pick<Usage, 'usesOfOwners'>;
}

/** An owner with the settings in force. */
export type ShownOwner = Awaited<ReturnType<typeof shownOwners>>[number];

/** Adds to owners what is in force and what was used, with one statement. */
export async function shownOwners(owners: readonly StoredOwner[], { config: { ownerDefaults }, usage }: ShownPlans) {
  if (owners.length === 0) return [];
  const usedBy = await usage.usesOfOwners(owners);
  return owners.map(({ owner, blocked, keys, settings }) => {
    const { uses, leftOf } = usedBy(owner);
    const quota = settings?.quota ?? ownerDefaults.quota;
    return {
      owner,
      blocked,
      rateLimit: settings?.rateLimit ?? ownerDefaults.rateLimit,
      quota: quota && leftOf(quota),
      keysMax: settings?.keysMax ?? ownerDefaults.keysMax,
      metadata: settings?.metadata ?? null,
      keys,
      /** The sum over all existing keys. */
      uses,
    };
  });
}

export interface PlansOptions extends ShownPlans {
  readonly planStore: PlanStore;
}

/** Owners don't see the number of keys: it only decides how their uses are read, as of few keys or of many. */
const COUNTED_KEYS = 500;

export type PlanOf = ReturnType<typeof createPlanOf>;

/** Creates the reader of a plan for its owner. It resolves with null if no limit is set, neither for this owner nor for all. */
export function createPlanOf(options: PlansOptions) {
  const { rateLimit, quota, keysMax } = options.config.ownerDefaults;
  const areAll = rateLimit !== null || quota !== null || keysMax !== KEYS_MAX_DEFAULT;
  return async (owner: string): Promise<ShownOwner | null> => {
    const stored = await options.planStore.findOwner(owner, { isLimited: !areAll, counted: COUNTED_KEYS });
    const [shown = null] = await shownOwners(stored === null ? [] : [stored], options);
    return shown;
  };
}
