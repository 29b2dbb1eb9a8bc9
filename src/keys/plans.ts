// What is in force for all keys of an owner together (limit, quota, how many keys there may be), as operators set it, and
// how much of it is used.

import type { Metadata } from '../ground/metadata.ts';
import type { Quota, RateLimit } from '../ground/rate-limit.ts';
import type { ShownQuota, Uses } from '../uses/shown-uses.ts';
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
  /** Whether to return only an owner with settings. */
  readonly isSet?: boolean;
  /** How many keys are counted; by default all. */
  readonly keysMax?: number;
}

export interface PlanStore {
  /** Returns an owner by the exact name, even an unknown one. */
  findOwner(owner: string, options?: FindOwner): Promise<StoredOwner | null>;
}

/** What applies to owners without settings. */
interface OwnerDefaults {
  readonly ownerRateLimit: RateLimit | null;
  readonly ownerQuota: Quota | null;
  readonly ownerKeys: number;
}

/** The default maximum of keys of an owner, in any state. Bounds the list, its response, and storage. */
export const KEYS_MAX_DEFAULT = 1000;

/** Owners do not see how many keys they have; whether few or many, decides how their uses are read. */
const COUNTED_KEYS = 500;

/** An owner with the settings in force. */
export interface ShownOwner {
  readonly owner: string;
  readonly blocked: boolean;
  readonly rateLimit: RateLimit | null;
  readonly quota: ShownQuota | null;
  readonly keysMax: number;
  readonly metadata: Metadata | null;
  readonly keys: number;
  /** The sum over all existing keys. */
  readonly uses: Uses;
}

/** Adds to owners what is in force and what was used, with one statement. */
export async function shownOwners(
  owners: readonly StoredOwner[],
  { config: { ownerRateLimit, ownerQuota, ownerKeys }, usage }: ShownPlans,
): Promise<readonly ShownOwner[]> {
  if (owners.length === 0) return [];
  const usedBy = await usage.usesOfOwners(owners);
  return owners.map(({ owner, blocked, keys, settings }) => {
    const { uses, leftOf } = usedBy(owner);
    const quota = settings?.quota ?? ownerQuota;
    return {
      owner,
      blocked,
      rateLimit: settings?.rateLimit ?? ownerRateLimit,
      quota: quota && leftOf(quota),
      keysMax: settings?.keysMax ?? ownerKeys,
      metadata: settings?.metadata ?? null,
      keys,
      uses,
    };
  });
}

export interface ShownPlans {
  /** What owners have without a plan of their own. */
  readonly config: OwnerDefaults;
  readonly usage: Pick<Usage, 'usesOfOwners'>;
}

export interface PlansOptions extends ShownPlans {
  readonly planStore: PlanStore;
}

/** Returns the reader of an owner's plan for the owner; null: nothing is set, neither for this owner nor for all. */
export function createPlanOf(options: PlansOptions) {
  const { ownerRateLimit, ownerQuota, ownerKeys } = options.config;
  const isLimited = ownerRateLimit !== null || ownerQuota !== null || ownerKeys !== KEYS_MAX_DEFAULT;
  return async (owner: string): Promise<ShownOwner | null> => {
    const stored = await options.planStore.findOwner(owner, { isSet: !isLimited, keysMax: COUNTED_KEYS });
    if (stored === null) return null;
    const { rateLimit = null, quota = null, keysMax = null } = stored.settings ?? {};
    if (!isLimited && rateLimit === null && quota === null && keysMax === null) return null;
    const [shown = null] = await shownOwners([stored], options);
    return shown;
  };
}
