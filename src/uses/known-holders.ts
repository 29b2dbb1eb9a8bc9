// Caches the limits and counts of keys and owners: merges what each read of a key brings, and returns the holders whose
// limits a use of a key counts for.

import { createLruCache, type LruCache } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import { type Calendar, createCalendar } from '../ground/limits/rates.ts';
import { limitOf, type Quota, type RateLimit } from '../ground/rate-limit.ts';
import type { Clock } from '../ground/runtime.ts';
import { Holder, type Plan, planOf } from './holder.ts';
import type { CountsAsOf, DefaultCounts, KeyCounts } from './store.ts';

/** Owners whose counts are cached, some 30 MB: those that have limits, and cached keys. */
const OWNERS_MAX = 100_000;

/** A key's or owner's own limits; null: the server's. */
interface OwnLimits {
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
}

export interface CountedKey extends OwnLimits {
  readonly id: string;
  readonly createdAtMs: number;
  readonly userId: string;
  /** The limits on all keys of its owner together; null: none are set. */
  readonly owner: OwnLimits | null;
}

/** A key as it was read; its record is null if there is none. */
export interface Found {
  readonly record: CountedKey | null;
  readonly position: FeedPosition;
  /** The key's counts; null: a replica doesn't know. */
  readonly counts: KeyCounts | null;
  /** The counts of all the owner's keys together; null: not counted, or a replica doesn't know. */
  readonly ownerCounts: KeyCounts | null;
}

/** Returns whether nothing newer is known. */
const isNewer = (position: FeedPosition, known: FeedPosition | null): boolean =>
  known?.databaseId !== position.databaseId || position.seq >= known.seq;

/** A configured limit; 0 requests: none. */
interface ConfiguredLimit {
  readonly requests: number;
  readonly windowMs: number;
}

export interface HoldersOptions {
  /** The limit of keys without their own. */
  readonly rateLimit: ConfiguredLimit;
  readonly keyQuota: Quota | null;
  /** The limit on all keys together of an owner without his own; null: no limit. */
  readonly ownerRateLimit: RateLimit | null;
  readonly ownerQuota: Quota | null;
  /** Keys whose counts are cached, some 300 bytes each: as many as the key cache holds. */
  readonly keysMax: number;
}

const limitFrom = ({ requests, windowMs }: ConfiguredLimit): RateLimit | null =>
  requests === 0 ? null : limitOf(requests, windowMs / 1000);

const countedBy = ({ limit, quota }: Plan): DefaultCounts => ({
  windowS: limit?.windowS ?? 0,
  hasMonth: quota?.period === 'month',
});

const isUnlimited = ({ limit, quota }: Plan): boolean => limit === null && quota === null;

export class KnownHolders {
  readonly #clock: Clock;
  readonly #calendar: Calendar;
  readonly #serverPlan: Plan;
  readonly #ownersPlan: Plan;
  readonly #keys: LruCache<Holder>;
  readonly #owners = createLruCache<Holder>({ entries: OWNERS_MAX, keyOf: ({ id }) => id });

  constructor({ rateLimit, keyQuota, ownerRateLimit, ownerQuota, keysMax }: HoldersOptions, clock: Clock) {
    this.#keys = createLruCache({ entries: keysMax, keyOf: ({ id }) => id });
    this.#clock = clock;
    this.#calendar = createCalendar(clock);
    this.#serverPlan = planOf(limitFrom(rateLimit), keyQuota);
    this.#ownersPlan = planOf(ownerRateLimit, ownerQuota);
  }

  /** Returns the holder of a key. A new or evicted one begins without counts: the next read of its record brings them. */
  keyOf(id: string, createdAtMs = 0): Holder {
    const known = this.#keys.get(id);
    if (known !== undefined) return known;
    const key = new Holder('key', id, createdAtMs, this.#serverPlan, this.#calendar);
    this.#keys.set(id, key);
    return key;
  }

  /** Returns the holder of a key; undefined: it isn't cached. */
  find = (keyId: string): Holder | undefined => this.#keys.get(keyId);

  /** Returns the holder of an owner; undefined: it isn't cached, or nothing is counted for all keys together. */
  findOwner = (owner: string): Holder | undefined => this.#owners.get(owner);

  /** Returns the holders whose limits a use of this key counts for, with the current windows. */
  holdersOf(key: Holder): readonly Holder[] {
    const nowMs = this.#clock.nowMs();
    const { owner } = key;
    return owner === null
      ? [this.#withCurrentWindows(key, nowMs)]
      : [this.#withCurrentWindows(key, nowMs), this.#withCurrentWindows(this.#cached(owner), nowMs)];
  }

  /** Returns which counts to read with each key. */
  countsAsOf(nowMs: number): CountsAsOf {
    const owner = isUnlimited(this.#ownersPlan) ? null : countedBy(this.#ownersPlan);
    return { nowMs, key: countedBy(this.#serverPlan), owner };
  }

  /**
   * Merges what was read as of `nowMs`; plans only if nothing newer is known. Returns holders whose counts are in doubt,
   * which must be exchanged even if nobody uses them.
   */
  merge({ record, position, counts, ownerCounts }: Found, nowMs: number): readonly Holder[] {
    if (record === null) return [];
    const key = this.keyOf(record.id, record.createdAtMs);
    const isNews = isNewer(position, key.position);
    if (isNews) key.userId = record.userId;
    this.#mergeInto(key, this.#planFor(record), position, counts, nowMs);
    const plan = this.#ownerPlanFor(record);
    const owner = isUnlimited(plan) ? null : this.#ownerOf(record.userId, plan);
    if (isNews) key.owner = owner;
    if (owner === null) return key.isInDoubt ? [key] : [];
    this.#mergeInto(owner, plan, position, ownerCounts, nowMs);
    return [key, owner].filter(({ isInDoubt }) => isInDoubt);
  }

  #mergeInto(holder: Holder, plan: Plan, position: FeedPosition, counts: KeyCounts | null, nowMs: number): void {
    holder.openWindows(this.#calendar);
    if (isNewer(position, holder.position)) {
      holder.position = position;
      holder.setPlan(plan, this.#calendar);
    }
    if (counts === null) holder.askForTotals();
    else holder.mergeCounts(counts, plan.limit?.windowS, nowMs);
  }

  #planFor({ rateLimit, quota }: CountedKey): Plan {
    if (rateLimit === null && quota === null) return this.#serverPlan;
    return planOf(rateLimit ?? this.#serverPlan.limit, quota ?? this.#serverPlan.quota);
  }

  /** Returns the plan for all keys of the owner together. Without limits nothing is counted for them. */
  #ownerPlanFor({ owner }: CountedKey): Plan {
    const { rateLimit = null, quota = null } = owner ?? {};
    if (rateLimit === null && quota === null) return this.#ownersPlan;
    return planOf(rateLimit ?? this.#ownersPlan.limit, quota ?? this.#ownersPlan.quota);
  }

  #ownerOf(name: string, plan: Plan): Holder {
    return this.#owners.get(name) ?? this.#cached(new Holder('owner', name, 0, plan, this.#calendar));
  }

  /** Returns the one holder of an owner, cached while in use. */
  #cached(owner: Holder): Holder {
    const known = this.#owners.get(owner.id);
    if (known !== undefined) return known;
    this.#owners.set(owner.id, owner);
    return owner;
  }

  #withCurrentWindows(holder: Holder, nowMs: number): Holder {
    if (holder.isDue(nowMs)) holder.openWindows(this.#calendar);
    return holder;
  }
}
