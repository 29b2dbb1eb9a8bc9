// Counts uses of keys, notes last uses, and enforces limits and quotas of keys and their owners, shared by all processes
// on a database. Each call is decided in memory, by what this process has counted and what the others had at the last
// exchange (exchange.ts).

import type { Problem } from '../ground/problem.ts';
import type { Quota, RateLimitState, RateLimitStates } from '../ground/rate-limit.ts';
import type { RandomBytes } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { Exchange } from './exchange.ts';
import { type Bound, type Holder, hasRoom, remainingOf, stateOf, unitsIn } from './holder.ts';
import { type CountedKey, Holders, type HoldersOptions, type ReadCounts } from './holders.ts';
import { createShownUses } from './shown-uses.ts';
import type { CountsAsOf, UsesStore } from './store.ts';

export type Usage = ReturnType<typeof createUsage>;

export interface UsageOptions extends HoldersOptions {
  readonly store: UsesStore;
  readonly random: RandomBytes;
  readonly log: Log;
}

export function createUsage(options: UsageOptions) {
  const { store, clock, random, log, keyDefaults } = options;
  const known = new Holders(options);
  const instance = random(8).toHex();
  const exchange = new Exchange({ store, holders: known, instance, clock, log, onTotals: logShare });

  const holdersOf = (key: Holder, nowMs = clock.nowMs()) => known.holdersOf(key, nowMs);

  function count(holders: readonly Holder[], units: number): void {
    for (const holder of holders) {
      holder.count(units);
      exchange.queue(holder);
      logShare(holder);
    }
  }

  /** Logs which share of an owner's quota is reached: by uses here or elsewhere, or because it was lowered. */
  function logShare(holder: Holder): void {
    if (holder.kind !== 'owner') return;
    const share = holder.quotaShareReached();
    if (share !== null) log.info('Owner quota', { owner: holder.id, share });
  }

  return {
    ...forRecords(known, exchange),

    /** Notes the last use of a verified key, whether or not the call is admitted. In memory only. */
    note(holder: Holder, usedAtMs: number): void {
      const key = known.current(holder);
      if (usedAtMs > key.usedAtMs) key.usedAtMs = usedAtMs;
      exchange.queue(key);
    },

    /** Returns when a key was last used, as stored or as noted by this process, whichever is later. Null: never. */
    lastUsedAt({ id, lastUsedAtMs }: { readonly id: string; readonly lastUsedAtMs: number | null }): number | null {
      const usedAtMs = known.find(id)?.usedAtMs ?? 0;
      return usedAtMs > (lastUsedAtMs ?? 0) ? usedAtMs : lastUsedAtMs;
    },

    /** Counts a call if all limits admit its units. Returns the state of all limits, and why it is refused. In memory only. */
    admit(holder: Holder, units = 1) {
      const nowMs = clock.nowMs();
      const holders = holdersOf(holder, nowMs);
      const refusal = refusalOf(holders, units, nowMs);
      if (refusal === null) count(holders, units);
      else for (const one of holders) logShare(one);
      return { limits: statesOf(holders, nowMs), refusal };
    },

    /**
     * Counts units that a service admitted from memory and reports later, as far as all limits have room. Returns how many
     * found none. The last use is now. In memory only.
     */
    countReported(holder: Holder, units: number): number {
      const nowMs = clock.nowMs();
      const key = known.current(holder);
      const holders = holdersOf(key, nowMs);
      const counted = roomFor(holders, units);
      key.usedAtMs = Math.max(key.usedAtMs, nowMs);
      count(holders, counted);
      return units - counted;
    },

    holdersOf,
    quotaOf: ({ quota }: Pick<CountedKey, 'quota'>): Quota | null => quota ?? keyDefaults.quota,
    /** Returns the state of all limits of a key, like `admit`, but counts nothing. */
    limitsOf: (key: Holder): RateLimitStates => statesOf(holdersOf(key), clock.nowMs()),

    /** Returns today's units (UTC) of all processes, as far as this one knows. */
    usesToday(keyId: string): number {
      const kept = known.find(keyId);
      const [key] = kept === undefined ? [] : holdersOf(kept);
      return key === undefined ? 0 : unitsIn(key.day);
    },

    ...createShownUses(store, clock, {
      key: known.find,
      owner: known.findOwner,
      unsent: (owners) => exchange.unsentOf(owners),
    }),
    /** Exchanges everything that changed. Resolves when done, or when the store is out of reach. */
    flush: () => exchange.flush(),
    stop: () => exchange.stop(),
  };
}

/** Creates what the cache of keys does with holders. */
const forRecords = (known: Holders, exchange: Exchange) => ({
  /** Returns as of when the counts of a read that begins now are to be read. */
  countsAsOf: (): CountsAsOf => known.countsAsOf(exchange.complete),

  /**
   * Returns the holder of a key that was read, with the counts that came with it, so that quotas continue. `isCurrent`:
   * every later change will be reported.
   */
  holderOf(record: CountedKey, read: ReadCounts, isCurrent: boolean): Holder {
    const key = known.holderOf(record, read, isCurrent);
    for (const holder of [key, key.owner]) if (holder?.isEarly) exchange.queue(holder);
    return key;
  },

  /** Keeps the holder of a cached record, until `drop`. Returns the one to use from now on. */
  keep: (holder: Holder): Holder => known.keep(holder),
  drop: (holder: Holder, isEvicted: boolean): void => known.drop(holder, isEvicted),

  /** Returns whether the records of a replica will do, which come without counts: only while memory had room for all. */
  knowsAllCounts: (): boolean => !known.hasForgotten,
});

// Decides whether a call is admitted: one pass over all limits of all its holders, all or nothing. Pure.

/** Returns why a call isn't admitted; null: it is. One that costs more than a limit never will be. */
function refusalOf(holders: readonly Holder[], units: number, nowMs: number): Problem | null {
  if (haveRoom(holders, units)) return null;
  const full = holders.flatMap(({ bounds }) => bounds.filter((bound) => !hasRoom(bound, units)));
  const isOverQuota = full.some(isQuota);
  const waitedFor = full.filter((bound) => isQuota(bound) === isOverQuota);
  const isTooCostly = full.some(({ limit }) => units > limit.requests);
  const retryAfterS = Math.max(...waitedFor.map((bound) => stateOf(bound, nowMs).resetS));
  return {
    code: isOverQuota ? 'quota_exceeded' : 'rate_limited',
    retryAfterS: isTooCostly ? null : retryAfterS,
    ...(full.every(isOwners) && { of: 'owner' as const }),
    ...(waitedFor.every(isOwners) && { waitsFor: 'owner' as const }),
  };
}

/** Returns whether all limits have room. Loops, because closures would double the cost of each call's decision. */
function haveRoom(holders: readonly Holder[], units: number): boolean {
  for (const { bounds } of holders) for (const bound of bounds) if (!hasRoom(bound, units)) return false;
  return true;
}

const isQuota = ({ name }: Bound): boolean => name === 'quota' || name === 'owner-quota';

const isOwners = ({ name }: Bound): boolean => name === 'owner' || name === 'owner-quota';

const statesOf = (holders: readonly Holder[], nowMs: number): RateLimitStates => {
  const states: RateLimitState[] = [];
  for (const { bounds } of holders) for (const bound of bounds) states.push(stateOf(bound, nowMs));
  return states;
};

/** Returns how many of the units fit in all limits. */
const roomFor = (holders: readonly Holder[], units: number): number =>
  Math.min(units, ...holders.flatMap(({ bounds }) => bounds.map(remainingOf)));
