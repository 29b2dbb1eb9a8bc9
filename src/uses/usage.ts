// Notes last uses of keys, counts uses, and holds keys to limits and quotas, for all processes on a database. A call is
// decided in memory: by what this process has counted, and what the others had when last read (exchange.ts).

import { createLruCache } from '../ground/cache.ts';
import type { FeedPosition } from '../ground/change-feed.ts';
import { createCalendar } from '../ground/limits/rates.ts';
import type { Problem } from '../ground/problem.ts';
import { limitOf, type Quota, type RateLimit, type RateLimitStates } from '../ground/rate-limit.ts';
import { err, ok, type Result } from '../ground/result.ts';
import type { Clock, RandomBytes } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { createExchange } from './exchange.ts';
import { type InForce, inForce, KeyUsage, usesIn } from './key-usage.ts';
import { usesOf } from './shown-uses.ts';
import type { CountsAsOf, KeyCounts, UsesStore } from './store.ts';

/** Keys whose counts are remembered, some 80 MB. Half are certain to stay: as many as keys/key-cache.ts holds. */
const KEYS_MAX = 270_000;

export interface CountedKey {
  readonly id: string;
  readonly createdAtMs: number;
  /** Its own; null: the server's. */
  readonly rateLimit: RateLimit | null;
  readonly quota: Quota | null;
}

/** A key as it was read; null: there is none. */
export interface Found {
  readonly record: CountedKey | null;
  readonly position: FeedPosition;
  /** Null: a replica doesn't know. */
  readonly counts: KeyCounts | null;
}

export type Usage = ReturnType<typeof createUsage>;

export interface UsageOptions {
  readonly store: UsesStore;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
  /** Of keys without one of their own; 0 requests: none. */
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  readonly keyQuota: Quota | null;
}

export function createUsage(options: UsageOptions) {
  const { store, clock, random, log, rateLimit, keyQuota } = options;
  const defaultLimit: RateLimit | null =
    rateLimit.requests === 0 ? null : limitOf(rateLimit.requests, rateLimit.windowMs / 1000);
  const calendar = createCalendar(clock);
  const keys = createLruCache<KeyUsage>({ entries: KEYS_MAX, keyOf: ({ id }) => id });
  const exchange = createExchange({ store, instance: random(8).toHex(), clock, log });

  const ofServer = inForce(defaultLimit, keyQuota);

  const inForceOf = ({ rateLimit: own, quota }: CountedKey): InForce =>
    own === null && quota === null ? ofServer : inForce(own ?? defaultLimit, quota ?? keyQuota);

  /** A key that is read for the first time; or one whose counts were evicted: the next read of its record brings them. */
  function add(id: string, createdAtMs = 0): KeyUsage {
    const key = new KeyUsage(id, createdAtMs, ofServer, calendar);
    keys.set(id, key);
    return key;
  }

  /** Takes over what was read as of `nowMs`; limits only if nothing newer is known. */
  function learn({ record, position, counts }: Found, nowMs: number): void {
    if (record === null) return;
    const key = keys.get(record.id) ?? add(record.id, record.createdAtMs);
    key.turn(calendar);
    const limits = inForceOf(record);
    if (key.position?.databaseId !== position.databaseId || position.seq >= key.position.seq) {
      key.position = position;
      key.setLimits(limits, calendar);
    }
    if (counts === null) key.askForTotals();
    else key.learn(counts, limits.limit?.windowS, nowMs);
  }

  function refusal(key: KeyUsage, isOverQuota: boolean, nowMs: number): Problem {
    const limits = key.states(nowMs);
    const over = limits.find(({ name }) => (name === 'quota') === isOverQuota);
    return { code: isOverQuota ? 'quota_exceeded' : 'rate_limited', retryAfterS: over?.resetS ?? 1, limits };
  }

  /** As of now. */
  function current(keyId: string): KeyUsage | undefined {
    const key = keys.get(keyId);
    if (key?.isDue(clock.nowMs())) key.turn(calendar);
    return key;
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

    /** Counts a call if limit and quota both admit it. Returns the state of both. Reads and writes nothing. */
    admit(keyId: string): Result<RateLimitStates, Problem> {
      const nowMs = clock.nowMs();
      const key = keys.get(keyId) ?? add(keyId);
      if (key.isDue(nowMs)) key.turn(calendar);
      const { isOverQuota } = key;
      if (isOverQuota || key.isOverLimit) return err(refusal(key, isOverQuota, nowMs));
      key.count();
      exchange.used(key);
      return ok(key.states(nowMs));
    },

    /** A read of keys that begins now. Counts are read with each key, so that a quota goes on where it was. */
    beginRead() {
      const nowMs = clock.nowMs();
      const asOf: CountsAsOf = { nowMs, windowS: defaultLimit?.windowS ?? 0 };
      return { asOf, learn: (found: Found) => learn(found, nowMs) };
    },

    /** The quota in force. */
    quotaOf: ({ quota }: Pick<CountedKey, 'quota'>): Quota | null => quota ?? keyQuota,
    /** Of its limit and quota, as `admit` returns it. Counts, reads and writes nothing. */
    limitsOf: (keyId: string): RateLimitStates => current(keyId)?.states(clock.nowMs()) ?? [],

    /** Of today (UTC), by all processes as far as is known. */
    usesToday(keyId: string): number {
      const key = current(keyId);
      return key === undefined ? 0 : usesIn(key.day);
    },

    /** Of keys that were used in 30 days: this process's uses as of now, the others' as last written. */
    usesOf: (keyIds: readonly string[]) => usesOf(keyIds, { store, clock, known: keys.get }),
    /** Exchanges all that changed; resolves when done, or when the store refused. */
    flush: exchange.flush,
    stop: exchange.stop,
  };
}
