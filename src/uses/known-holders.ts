// The keys and owners whose counts this process knows: what each may use, learned with each read of a key, and who is held
// to limits when a key is used.

import { createLruCache, type LruCache } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import { type Calendar, createCalendar } from '../ground/limits/rates.ts';
import { limitOf, type Quota, type RateLimit } from '../ground/rate-limit.ts';
import type { Clock } from '../ground/runtime.ts';
import { Holder, type Plan, planOf } from './holder.ts';
import type { CountsAsOf, DefaultCounts, KeyCounts } from './store.ts';

/** Owners whose counts are remembered, some 30 MB: those that have limits, and keys that are remembered. */
const OWNERS_MAX = 100_000;

/** What somebody may use by himself; null: the server's. */
interface OwnLimits {
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
}

export interface CountedKey extends OwnLimits {
  readonly id: string;
  readonly createdAtMs: number;
  readonly userId: string;
  /** What all keys of its owner may use together; null: nothing is set. */
  readonly owner: OwnLimits | null;
}

/** A key as it was read; null: there is none. */
export interface Found {
  readonly record: CountedKey | null;
  readonly position: FeedPosition;
  /** What was counted for the key; null: a replica doesn't know. */
  readonly counts: KeyCounts | null;
  /** What was counted for all keys of the owner together; null: not counted, or a replica doesn't know. */
  readonly ownerCounts: KeyCounts | null;
}

/** Returns true unless what is known was read later. */
const isNewer = (position: FeedPosition, known: FeedPosition | null): boolean =>
  known?.databaseId !== position.databaseId || position.seq >= known.seq;

/** A limit as it is configured; 0 requests: none. */
interface ConfiguredLimit {
  readonly requests: number;
  readonly windowMs: number;
}

export interface HoldersOptions {
  /** The limit of keys that have none of their own. */
  readonly rateLimit: ConfiguredLimit;
  readonly keyQuota: Quota | null;
  /** The limit on all keys together of an owner who has none of his own; null: no limit. */
  readonly ownerRateLimit: RateLimit | null;
  readonly ownerQuota: Quota | null;
  /** Keys whose counts are remembered, some 300 bytes each: as many as are known. */
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
  readonly #ofServer: Plan;
  readonly #ofOwners: Plan;
  readonly #keys: LruCache<Holder>;
  readonly #owners = createLruCache<Holder>({ entries: OWNERS_MAX, keyOf: ({ id }) => id });

  constructor({ rateLimit, keyQuota, ownerRateLimit, ownerQuota, keysMax }: HoldersOptions, clock: Clock) {
    this.#keys = createLruCache({ entries: keysMax, keyOf: ({ id }) => id });
    this.#clock = clock;
    this.#calendar = createCalendar(clock);
    this.#ofServer = planOf(limitFrom(rateLimit), keyQuota);
    this.#ofOwners = planOf(ownerRateLimit, ownerQuota);
  }

  /**
   * Returns the counts of a key. One that is read for the first time, or was evicted, begins without: the next read of
   * its record brings them.
   */
  keyOf(id: string, createdAtMs = 0): Holder {
    const known = this.#keys.get(id);
    if (known !== undefined) return known;
    const key = new Holder('key', id, createdAtMs, this.#ofServer, this.#calendar);
    this.#keys.set(id, key);
    return key;
  }

  /** Returns the key's holder; undefined: its counts are not in this process's memory. */
  find = (keyId: string): Holder | undefined => this.#keys.get(keyId);

  /** Returns who is held to limits when this key is used, in the windows of now. */
  holdersOf(key: Holder): readonly Holder[] {
    const nowMs = this.#clock.nowMs();
    const { owner } = key;
    return owner === null
      ? [this.#turned(key, nowMs)]
      : [this.#turned(key, nowMs), this.#turned(this.#remembered(owner), nowMs)];
  }

  /** Returns what counts are asked for with each key that is read at this time. */
  countsAsOf(nowMs: number): CountsAsOf {
    const owner = isUnlimited(this.#ofOwners) ? null : countedBy(this.#ofOwners);
    return { nowMs, key: countedBy(this.#ofServer), owner };
  }

  /**
   * Takes over what was read as of `nowMs`; plans only if nothing newer is known. Returns those whose counts are in
   * doubt, which have to be exchanged although nobody uses them.
   */
  merge({ record, position, counts, ownerCounts }: Found, nowMs: number): readonly Holder[] {
    if (record === null) return [];
    const key = this.keyOf(record.id, record.createdAtMs);
    const isNews = isNewer(position, key.position);
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
    if (rateLimit === null && quota === null) return this.#ofServer;
    return planOf(rateLimit ?? this.#ofServer.limit, quota ?? this.#ofServer.quota);
  }

  /** Returns the plan for all keys of the owner together. If it has no limits, nothing is counted for them. */
  #ownerPlanFor({ owner }: CountedKey): Plan {
    const { rateLimit = null, quota = null } = owner ?? {};
    if (rateLimit === null && quota === null) return this.#ofOwners;
    return planOf(rateLimit ?? this.#ofOwners.limit, quota ?? this.#ofOwners.quota);
  }

  #ownerOf(name: string, plan: Plan): Holder {
    return this.#owners.get(name) ?? this.#remembered(new Holder('owner', name, 0, plan, this.#calendar));
  }

  /** Returns an owner, who is remembered while in use, and is one holder for all keys. */
  #remembered(owner: Holder): Holder {
    const known = this.#owners.get(owner.id);
    if (known !== undefined) return known;
    this.#owners.set(owner.id, owner);
    return owner;
  }

  #turned(holder: Holder, nowMs: number): Holder {
    if (holder.isDue(nowMs)) holder.openWindows(this.#calendar);
    return holder;
  }
}
