// Notes last uses of keys, counts uses, and holds keys and their owners to limits and quotas, for all processes on a
// database. A call is decided in memory: by what this process has counted, and what the others had when last read
// (exchange.ts).

import type { Problem } from '../ground/problem.ts';
import type { Quota, RateLimitStates } from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, RandomBytes } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { decide, type HolderLease, leasesOf, refusalOf, roomFor, statesOf } from './decision.ts';
import { Exchange } from './exchange.ts';
import type { Holder } from './holder.ts';
import { type CountedKey, type Found, type HoldersOptions, KnownHolders } from './known-holders.ts';
import { usesOf } from './shown-uses.ts';
import type { UsesStore } from './store.ts';
import { unitsIn } from './windows.ts';

/** From these parts of an owner's quota on there is a log line, once a period. */
const SHARES_LOGGED = [100, 80];

export type Usage = ReturnType<typeof createUsage>;

export interface UsageOptions extends HoldersOptions {
  readonly store: UsesStore;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
}

export function createUsage(options: UsageOptions) {
  const { store, clock, random, log, keyQuota } = options;
  const known = new KnownHolders(options, clock);
  const exchange = new Exchange({ store, instance: random(8).toHex(), clock, log });

  /** Returns the key's holder and its owner's; none for a key that isn't known. */
  function holdersOf(keyId: string): readonly Holder[] {
    const key = known.find(keyId);
    return key === undefined ? [] : known.holdersOf(key);
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
      const key = known.keyOf(id, createdAtMs);
      if (usedAtMs > key.usedAtMs) key.usedAtMs = usedAtMs;
      exchange.used(key);
    },

    /** Returns the later of a key's stored last use, and of what this process has noted. Null: never used. */
    lastUsedAt({ id, lastUsedAtMs }: { readonly id: string; readonly lastUsedAtMs: number | null }): number | null {
      const usedAtMs = known.find(id)?.usedAtMs ?? 0;
      return usedAtMs > (lastUsedAtMs ?? 0) ? usedAtMs : lastUsedAtMs;
    },

    /** Counts a call if all limits admit its units. Returns the state of all limits. Reads and writes nothing. */
    admit(keyId: string, units = 1): Result<RateLimitStates, Problem> {
      const nowMs = clock.nowMs();
      const holders = known.holdersOf(known.keyOf(keyId));
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
      const key = known.keyOf(keyId);
      const holders = known.holdersOf(key);
      const counted = roomFor(holders, units);
      key.usedAtMs = Math.max(key.usedAtMs, nowMs);
      count(holders, counted);
      return units - counted;
    },

    /** Returns what a service may let in from memory for each holder of limits of this key. Counts nothing. */
    leasesOf: (keyId: string): HolderLease[] => leasesOf(holdersOf(keyId)),

    /** Begins a read of keys. Counts are read with each key, so that a quota goes on where it was. */
    beginRead() {
      const nowMs = clock.nowMs();
      return {
        asOf: known.countsAsOf(nowMs),
        merge(found: Found): void {
          for (const holder of known.merge(found, nowMs)) exchange.used(holder);
        },
      };
    },

    /** Returns the quota in force. */
    quotaOf: ({ quota }: Pick<CountedKey, 'quota'>): Quota | null => quota ?? keyQuota,
    /** Returns the state of all limits of a key, as `admit` does. Counts, reads and writes nothing. */
    limitsOf: (keyId: string): RateLimitStates => statesOf(holdersOf(keyId), clock.nowMs()),

    /** Returns the units of today (UTC), by all processes as far as is known. */
    usesToday(keyId: string): number {
      const [key] = holdersOf(keyId);
      return key === undefined ? 0 : unitsIn(key.day);
    },

    /** Returns the uses of keys that were used in 30 days: this process's as of now, the others' as last written. */
    usesOf: (keyIds: readonly string[]) => usesOf(keyIds, { store, clock, known: known.find }),
    /** Exchanges all that changed; resolves when done, or when the store refused. */
    flush: () => exchange.flush(),
    stop: () => exchange.stop(),
  };
}
