// Notes last uses of keys, counts uses, and holds keys and their owners to limits and quotas, for all processes on a
// database. A call is decided in memory: by what this process has counted, and what the others had when last read
// (exchange.ts).

import { createLruCache } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import { createCalendar } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { limitOf, type Quota, type RateLimit, type RateLimitStates } from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, RandomBytes } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { decide, type HolderLease, leasesOf, refusalOf, roomFor, statesOf } from './decision.ts';
import { Exchange } from './exchange.ts';
import { Holder, type Plan, planOf } from './holder.ts';
import { usesOf } from './shown-uses.ts';
import type { CountsAsOf, DefaultCounts, KeyCounts, UsesStore } from './store.ts';
import { unitsIn } from './windows.ts';

/** Owners whose counts are remembered, some 30 MB: those that have limits, and keys that are remembered. */
const OWNERS_MAX = 100_000;
/** From these parts of an owner's quota on there is a log line, once a period. */
const SHARES_LOGGED = [100, 80];

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
  /** Null: a replica doesn't know. */
  readonly counts: KeyCounts | null;
  /** As `counts`, of all keys of the owner together. */
  readonly ownerCounts: KeyCounts | null;
}

/** True unless what is known was read later. */
const isNewer = (position: FeedPosition, known: FeedPosition | null): boolean =>
  known?.databaseId !== position.databaseId || position.seq >= known.seq;

export type Usage = ReturnType<typeof createUsage>;

/** A limit as it is configured; 0 requests: none. */
interface ConfiguredLimit {
  readonly requests: number;
  readonly windowMs: number;
}

export interface UsageOptions {
  readonly store: UsesStore;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
  /** Of keys without one of their own. */
  readonly rateLimit: ConfiguredLimit;
  readonly keyQuota: Quota | null;
  /** Of all keys together of owners without one of their own; null: none. */
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

export function createUsage(options: UsageOptions) {
  const { store, clock, random, log, keyQuota } = options;
  const ofServer = planOf(limitFrom(options.rateLimit), keyQuota);
  const ofOwners = planOf(options.ownerRateLimit, options.ownerQuota);
  const calendar = createCalendar(clock);
  const keys = createLruCache<Holder>({ entries: options.keysMax, keyOf: ({ id }) => id });
  const owners = createLruCache<Holder>({ entries: OWNERS_MAX, keyOf: ({ id }) => id });
  const exchange = new Exchange({ store, instance: random(8).toHex(), clock, log });

  const hasOwnerDefaults = ofOwners.limit !== null || ofOwners.quota !== null;
  const ownersCounted = hasOwnerDefaults ? countedBy(ofOwners) : null;

  const planFor = ({ rateLimit, quota }: CountedKey): Plan =>
    rateLimit === null && quota === null ? ofServer : planOf(rateLimit ?? ofServer.limit, quota ?? keyQuota);

  /** Null: the owner has no limits, so that nothing is counted for all keys together. */
  function ownerPlanFor({ owner }: CountedKey): Plan | null {
    const own = owner?.rateLimit != null || owner?.quota != null;
    const plan = own ? planOf(owner.rateLimit ?? ofOwners.limit, owner.quota ?? ofOwners.quota) : ofOwners;
    return plan.limit === null && plan.quota === null ? null : plan;
  }

  /** A key that is read for the first time; or one whose counts were evicted: the next read of its record brings them. */
  function add(id: string, createdAtMs = 0): Holder {
    const key = new Holder('key', id, createdAtMs, ofServer, calendar);
    keys.set(id, key);
    return key;
  }

  /** Takes over what was read as of `nowMs`; plans only if nothing newer is known. */
  function learn({ record, position, counts, ownerCounts }: Found, nowMs: number): void {
    if (record === null) return;
    const key = keys.get(record.id) ?? add(record.id, record.createdAtMs);
    const isNews = isNewer(position, key.position);
    learnOf(key, planFor(record), position, counts, nowMs);
    const plan = ownerPlanFor(record);
    const owner = plan === null ? null : (owners.get(record.userId) ?? addOwner(record.userId, plan));
    if (isNews) key.owner = owner;
    if (owner !== null && plan !== null) learnOf(owner, plan, position, ownerCounts, nowMs);
  }

  function learnOf(holder: Holder, plan: Plan, position: FeedPosition, counts: KeyCounts | null, nowMs: number): void {
    holder.turn(calendar);
    if (isNewer(position, holder.position)) {
      holder.position = position;
      holder.setPlan(plan, calendar);
    }
    if (counts === null) holder.askForTotals();
    else holder.learn(counts, plan.limit?.windowS, nowMs);
  }

  function addOwner(name: string, plan: Plan): Holder {
    const owner = new Holder('owner', name, 0, plan, calendar);
    owners.set(name, owner);
    return owner;
  }

  function turnIfDue(holder: Holder, nowMs: number): Holder {
    if (holder.isDue(nowMs)) holder.turn(calendar);
    return holder;
  }

  /** Returns who is held to limits when this key is used, in the windows of now. */
  const holdersOf = (key: Holder, nowMs: number): readonly Holder[] =>
    key.owner === null ? [turnIfDue(key, nowMs)] : [turnIfDue(key, nowMs), turnIfDue(rememberedOf(key.owner), nowMs)];

  /** An owner who is in use is remembered, and is one holder for all keys. */
  function rememberedOf(owner: Holder): Holder {
    const known = owners.get(owner.id);
    if (known !== undefined) return known;
    owners.set(owner.id, owner);
    return owner;
  }

  /** As `holdersOf`; none of a key that isn't known. */
  function knownHoldersOf(keyId: string): readonly Holder[] {
    const key = keys.get(keyId);
    return key === undefined ? [] : holdersOf(key, clock.nowMs());
  }

  function count(holders: readonly Holder[], units: number): void {
    for (const holder of holders) {
      holder.count(units);
      exchange.used(holder);
      if (holder.kind === 'owner') logShare(holder);
    }
  }

  function logShare(owner: Holder): void {
    const share = owner.quotaShareReached(SHARES_LOGGED);
    if (share !== null) log.info('Owner quota', { owner: owner.id, share });
  }

  return {
    /** Notes that a key was found good: its last use, whether the call is admitted or not. Reads and writes nothing. */
    note({ id, createdAtMs }: Pick<CountedKey, 'id' | 'createdAtMs'>, usedAtMs: number): void {
      const key = keys.get(id) ?? add(id, createdAtMs);
      if (usedAtMs > key.usedAtMs) key.usedAtMs = usedAtMs;
      exchange.used(key);
    },

    /** The later of a key's stored last use, and of what this process has noted. Null: never used. */
    lastUsedAt({ id, lastUsedAtMs }: { readonly id: string; readonly lastUsedAtMs: number | null }): number | null {
      const usedAtMs = keys.get(id)?.usedAtMs ?? 0;
      return usedAtMs > (lastUsedAtMs ?? 0) ? usedAtMs : lastUsedAtMs;
    },

    /** Counts a call if all limits admit its units. Returns the state of all limits. Reads and writes nothing. */
    admit(keyId: string, units = 1): Result<RateLimitStates, Problem> {
      const nowMs = clock.nowMs();
      const holders = holdersOf(keys.get(keyId) ?? add(keyId), nowMs);
      const decision = decide(holders, units);
      if (decision.is !== 'admitted') return err(refusalOf(decision, statesOf(holders, nowMs), units, nowMs));
      count(holders, units);
      return ok(statesOf(holders, nowMs));
    },

    /**
     * Counts units that a service has let in from memory and tells of, as far as all limits still have room. Returns how
     * many it dropped for want of room. The last use is now. Reads and writes nothing.
     */
    tell(keyId: string, units: number): number {
      const nowMs = clock.nowMs();
      const key = keys.get(keyId) ?? add(keyId);
      const holders = holdersOf(key, nowMs);
      const counted = roomFor(holders, units);
      key.usedAtMs = Math.max(key.usedAtMs, nowMs);
      count(holders, counted);
      return units - counted;
    },

    /** Returns what a service may let in from memory for each holder of limits of this key. Counts nothing. */
    leasesOf: (keyId: string): HolderLease[] => leasesOf(knownHoldersOf(keyId)),

    /** A read of keys that begins now. Counts are read with each key, so that a quota goes on where it was. */
    beginRead() {
      const nowMs = clock.nowMs();
      const asOf: CountsAsOf = { nowMs, key: countedBy(ofServer), owner: ownersCounted };
      return { asOf, learn: (found: Found) => learn(found, nowMs) };
    },

    /** The quota in force. */
    quotaOf: ({ quota }: Pick<CountedKey, 'quota'>): Quota | null => quota ?? keyQuota,
    /** Returns the state of all limits of a key, as `admit` does. Counts, reads and writes nothing. */
    limitsOf: (keyId: string): RateLimitStates => statesOf(knownHoldersOf(keyId), clock.nowMs()),

    /** Units of today (UTC), by all processes as far as is known. */
    usesToday(keyId: string): number {
      const [key] = knownHoldersOf(keyId);
      return key === undefined ? 0 : unitsIn(key.day);
    },

    /** Of keys that were used in 30 days: this process's uses as of now, the others' as last written. */
    usesOf: (keyIds: readonly string[]) => usesOf(keyIds, { store, clock, known: keys.get }),
    /** Exchanges all that changed; resolves when done, or when the store refused. */
    flush: () => exchange.flush(),
    stop: () => exchange.stop(),
  };
}
