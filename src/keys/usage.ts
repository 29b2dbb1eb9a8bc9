// Counts the uses of keys, and holds them to their limits and quotas, for all processes on a database together. A call is
// decided in memory: what this process has counted, and what the others had when they were last asked. Every few seconds,
// sooner for a key that nears its limit, all that changed is written in one statement, and what the others have is read in
// another. A database that is away changes nothing but that.

import { repeat } from '../lib/background.ts';
import { createLruCache } from '../lib/lru-cache.ts';
import { memoize } from '../lib/memoize.ts';
import type { RateLimit, RateLimitState } from '../lib/rate-limit.ts';
import { err, ok, type Result } from '../lib/result.ts';
import type { Cancel, Clock, RandomBytes } from '../lib/runtime.ts';
import { nextTurn, sleep, withTimeout } from '../lib/timeout.ts';
import type { Quota } from '../limits/key-limits.ts';
import type { Log } from '../log/log.ts';
import type { Problem, StoreUnavailable } from '../problem.ts';
import type { ApiKeyRecord, Count, CountedWindow, CountsAsOf, DayUses, Found, KeyStore } from './record.ts';
import { slicesOf } from './slices.ts';
import { Counted, type Tally, type Times } from './tally.ts';
import { dayAt } from './windows.ts';

/** After a first use. With what an exchange takes, less than 5 s. */
const EXCHANGE_AFTER_MS = 3000;
/** Between two early exchanges, of keys that have used a part of their limit. */
const EARLY_EVERY_MS = 250;
/** Slices of a flush are spread over this time. */
const SPREAD_MS = 1000;
const PAUSE_MS_MAX = 5;
/** Keys whose counts are remembered: twice as many as records (verify.ts), of which half are certain to stay. */
const COUNTED_MAX = 400_000;
/** Keys with uses that are not written, while the database is away: about 50 MB. Uses of further keys hold, but get lost. */
const PENDING_MAX = 100_000;
/** Uses of a day are written until so many days later. They are summed after that (store/counts.ts). */
const LATE_DAYS_MAX = 2;
/** Days that lists show. */
export const DAYS_SHOWN = 30;
/** Keys whose days are read by one statement: some 5,000 counts, in 2 ms. */
const KEYS_READ_MAX = 200;
/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

/** Uses of a key in days of UTC. */
export interface Uses {
  readonly today: number;
  /** At most 30 numbers, today first, without the zeros at the end. */
  readonly last30Days: readonly number[];
}

export interface Usage {
  /**
   * Counts a call, if limit and quota admit it: neither is spent by one that either refuses. The state of both, for the
   * response. Reads and writes nothing.
   */
  admit(keyId: string): Result<RateLimitState | undefined, Problem>;
  /** Of today (UTC), by all processes as far as is known. */
  usesToday(keyId: string): number;
  /** A store that has counts read with each record, so that a quota goes on where it was. */
  reading(store: KeyStore): KeyStore;
  /** Of those of these keys that were used in 30 days: this process's uses at once, the others' as last written. */
  usesOf(keyIds: readonly string[]): Promise<Result<ReadonlyMap<string, Uses>, StoreUnavailable>>;
  /** The quota in force. */
  quotaOf(record: Pick<ApiKeyRecord, 'quota'>): Quota | null;
  /** What this process counts as in the database. */
  readonly instance: number;
  /** Exchanges all that changed; resolves when done, or when the store refused. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export interface UsageOptions {
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Log;
  /** Of keys without one of their own; 0 requests: none. */
  readonly rateLimit: { readonly requests: number; readonly windowMs: number };
  readonly keyQuota: Quota | null;
}

interface Known extends Counted {
  /** Where the change feed stood when its limits were read. */
  position?: { readonly databaseId: string; readonly seq: number };
}

type Counts = Map<string, Known>;

/** What is shown of uses by day; null: there were none in 30 days. */
export function usesIn(days: ReadonlyMap<number, number>, today: number): Uses | null {
  const last30Days = Array.from({ length: DAYS_SHOWN }, (_, ago) => days.get(today - ago) ?? 0);
  const oldest = last30Days.findLastIndex((count) => count > 0);
  return oldest === -1 ? null : { today: last30Days[0] ?? 0, last30Days: last30Days.slice(0, oldest + 1) };
}

export function createUsage(options: UsageOptions): Usage {
  const { store, clock, random, log, rateLimit, keyQuota } = options;
  const defaultLimit: RateLimit | null =
    rateLimit.requests === 0 ? null : { requests: rateLimit.requests, windowS: rateLimit.windowMs / 1000 };
  const instance = 1 + Number.parseInt(random(6).toHex().slice(1), 16); // 0 is for sums
  const keys = createLruCache<Known>({ entries: COUNTED_MAX });
  let pending: Counts = new Map();
  let early: Counts = new Map();
  let cancelEarly: Cancel | undefined;
  let earlyUnderWay = false;
  let earlyAtMs = Number.NEGATIVE_INFINITY;
  let dropped = 0;
  let stopping = false;

  const exchanges = repeat(
    {
      everyMs: () => (pending.size > 0 ? EXCHANGE_AFTER_MS : null),
      clock,
      log,
      event: 'counts not exchanged',
    },
    exchangeAll,
  );

  const times = (): Times => ({ nowMs: clock.nowMs(), monotonicMs: clock.monotonicMs() });
  /** One object for equal limits, however many keys have them. */
  const limitOf = memoize((text: string): RateLimit => {
    const [requests, windowS] = text.split('/').map(Number) as [number, number];
    return { requests, windowS };
  });
  const ownLimit = ({ requests, windowS }: RateLimit) => limitOf(`${requests}/${windowS}`);
  const quotaOf = ({ quota }: Pick<ApiKeyRecord, 'quota'>) => quota ?? keyQuota;

  function add(id: string, createdAtMs: number, at: Times): Known {
    const key: Known = pending.get(id) ?? new Counted(id, createdAtMs, at);
    keys.set(id, key);
    return key;
  }

  /** Takes over what was read; limits only if nothing newer is known. */
  function learn({ record, position, counts }: Found, asOf: CountsAsOf, at: Times): void {
    if (record === null || counts === null) return;
    const key = keys.get(record.id) ?? add(record.id, record.createdAtMs, at);
    const { position: known } = key;
    const isNewer = known === undefined || known.databaseId !== position.databaseId || position.seq >= known.seq;
    if (isNewer) key.position = position;
    const limit = record.rateLimit === null ? defaultLimit : ownLimit(record.rateLimit);
    const inForce = isNewer ? { limit, quota: quotaOf(record) } : { limit: key.limit, quota: key.quota };
    const isSameWindow = inForce.limit?.windowS === (limit?.windowS ?? asOf.windowS);
    key.take(inForce, isSameWindow ? counts : { ...counts, window: { own: 0, others: 0 } }, at);
  }

  function reading(read: KeyStore): KeyStore {
    function asked(): { asOf: CountsAsOf; at: Times } {
      const at = times();
      return { asOf: { instance, nowMs: at.nowMs, windowS: defaultLimit?.windowS ?? 0 }, at };
    }
    return {
      ...read,
      async findByHash(keyHash, atLeast, withinMs, whose) {
        const { asOf, at } = asked();
        const found = await read.findByHash(keyHash, atLeast, withinMs, whose, asOf);
        if (found.ok) learn(found.value, asOf, at);
        return found;
      },
      async findByHashes(keyHashes, withinMs, whose) {
        const { asOf, at } = asked();
        const found = await read.findByHashes(keyHashes, withinMs, whose, asOf);
        if (found.ok) for (const keyHash of keyHashes) learn(found.value(keyHash), asOf, at);
        return found;
      },
    };
  }

  function admit(keyId: string): Result<RateLimitState | undefined, Problem> {
    const nowMs = clock.nowMs();
    const key = keys.get(keyId) ?? forgotten(keyId);
    if (key.isDue(nowMs)) key.turn(times());
    const { isOverQuota } = key;
    if (isOverQuota || key.isOverLimit) return err(refusal(key, isOverQuota, nowMs));
    key.count();
    if (!key.isPending) wait(key);
    if (key.uses >= key.usesMax) hurry(key);
    return ok(key.state(nowMs));
  }

  /** So many other keys were used meanwhile that this one's counts are gone: the next read of its record brings them. */
  function forgotten(keyId: string): Known {
    const key = add(keyId, 0, times());
    key.limit = defaultLimit;
    return key;
  }

  function refusal(key: Known, isOverQuota: boolean, nowMs: number): Problem {
    const rateLimit = key.state(nowMs);
    const over = isOverQuota ? (rateLimit?.and ?? rateLimit) : rateLimit;
    const retryAfterS = over?.resetS ?? 1;
    const code = isOverQuota ? 'quota_exceeded' : 'rate_limited';
    return { code, retryAfterS, ...(rateLimit && { rateLimit }) };
  }

  function wait(key: Known): void {
    if (pending.size >= PENDING_MAX && !pending.has(key.id)) {
      dropped += 1;
      return;
    }
    pending.set(key.id, key);
    key.isPending = true;
    exchanges.wake();
  }

  function hurry(key: Known): void {
    key.uses = 0;
    early.set(key.id, key);
    if (cancelEarly !== undefined || earlyUnderWay || stopping) return;
    cancelEarly = clock.after(Math.max(0, earlyAtMs + EARLY_EVERY_MS - clock.monotonicMs()), exchangeEarly);
  }

  function exchangeEarly(): void {
    cancelEarly = undefined;
    earlyUnderWay = true;
    earlyAtMs = clock.monotonicMs();
    const hot = [...early.values()];
    early = new Map();
    exchangeSlices(hot, () => 0)
      .catch((error) => log.error('counts not exchanged', { error }))
      .finally(() => {
        earlyUnderWay = false;
        const [next] = early.values();
        if (next !== undefined) hurry(next);
      });
  }

  async function exchangeSlices(hot: readonly Known[], pauseMs: () => number): Promise<void> {
    for (let from = 0; from < hot.length; from += store.usesPerWrite) {
      const done = await exchange(hot.slice(from, from + store.usesPerWrite));
      if (!done.ok) return; // they still wait for the next flush
      await sleep(pauseMs());
    }
  }

  async function exchangeAll(): Promise<void> {
    if (dropped > 0) {
      log.warn('uses not counted', { count: dropped });
      dropped = 0;
    }
    const flushing = pending;
    pending = new Map();
    for (const key of flushing.values()) key.isPending = false;
    const pauseMs = Math.min(PAUSE_MS_MAX, SPREAD_MS / Math.ceil(flushing.size / store.usesPerWrite));
    try {
      for (const slice of slicesOf(flushing.values(), store.usesPerWrite, ({ createdAtMs }) => createdAtMs)) {
        const done = await exchange(slice);
        if (!done.ok) {
          log.warn('uses kept for later', { count: flushing.size + pending.size, reason: done.error.reason });
          return;
        }
        for (const { id } of slice) flushing.delete(id);
        if (!stopping) await sleep(pauseMs);
      }
    } finally {
      for (const key of flushing.values()) wait(key);
    }
  }

  /** Writes what the database doesn't have, then reads what the others have. */
  async function exchange(slice: readonly Known[]): ReturnType<KeyStore['recordCounts']> {
    const today = dayAt(clock.nowMs());
    const counts: Count[] = [];
    const sent: (readonly [tally: Tally, own: number])[] = [];
    for (const key of slice) {
      key.earlier = key.earlier.filter(({ number }) => number >= today - LATE_DAYS_MAX);
      for (const tally of [...key.earlier, ...key.shared]) {
        if (tally.own <= tally.written) continue;
        counts.push([key.id, tally.windowS, tally.number, tally.own]);
        sent.push([tally, tally.own]);
      }
      key.uses = 0;
    }
    if (counts.length > 0) {
      const recorded = await store.recordCounts(instance, counts);
      if (!recorded.ok) return recorded;
      for (const [tally, own] of sent) tally.written = Math.max(tally.written, own);
      for (const key of slice) key.earlier = key.earlier.filter(({ own, written }) => own > written);
    }
    return readOthers(slice);
  }

  async function readOthers(slice: readonly Known[]): ReturnType<KeyStore['recordCounts']> {
    const windows: CountedWindow[] = [];
    const asked: (readonly [key: Known, tally: Tally, firstDay: number | null])[] = [];
    for (const key of slice) {
      const firstDay = key.quota?.period === 'month' ? key.month.firstDay : null;
      for (const tally of key.shared) {
        const first = tally === key.day ? firstDay : null;
        windows.push([key.id, tally.windowS, tally.number, first]);
        asked.push([key, tally, first]);
      }
    }
    const read = await store.countsOf(instance, windows);
    if (!read.ok) return read;
    for (const [index, [key, tally, firstDay]] of asked.entries()) {
      const counts = read.value[index];
      if (!counts) continue; // the key is gone
      tally.others = Math.max(tally.others, counts.others);
      tally.own = Math.max(tally.own, counts.own); // of before the wall clock was set
      if (firstDay !== null && tally === key.day) key.before = Math.max(key.before, counts.before);
    }
    return ok(undefined);
  }

  /** Those whose uses may not be written yet. */
  const lateDays = (today: number) => Array.from({ length: LATE_DAYS_MAX + 1 }, (_, ago) => today - ago);

  /** Null: there were none. */
  function shownUses(stored: readonly DayUses[], here: ReadonlyMap<number, number>, today: number): Uses | null {
    const days = new Map(stored.map(([day, all, own]) => [day, all - own + Math.max(own, here.get(day) ?? 0)]));
    for (const [day, own] of here) if (!days.has(day)) days.set(day, own);
    return usesIn(days, today);
  }

  function ownUses(keyId: string, day: number): number {
    const key = known(keyId);
    if (key === undefined) return 0;
    return [key.day, ...key.earlier].find(({ number }) => number === day)?.own ?? 0;
  }

  const known = (keyId: string) => keys.get(keyId) ?? pending.get(keyId);

  return {
    instance,
    admit,
    reading,
    quotaOf,
    usesToday(keyId) {
      const key = known(keyId);
      if (key === undefined) return 0;
      if (key.isDue(clock.nowMs())) key.turn(times());
      return key.day.own + key.day.others;
    },
    async usesOf(keyIds) {
      const today = dayAt(clock.nowMs());
      const uses = new Map<string, Uses>();
      for (let from = 0; from < keyIds.length; from += KEYS_READ_MAX) {
        const slice = keyIds.slice(from, from + KEYS_READ_MAX);
        // Taken before the read: what is written meanwhile is missing there.
        const own = new Map(slice.map((id) => [id, lateDays(today).map((day) => [day, ownUses(id, day)] as const)]));
        const read = await store.usesByDay(slice, today - DAYS_SHOWN + 1, instance);
        if (!read.ok) return read;
        for (const id of slice) {
          const shown = shownUses(read.value.get(id) ?? [], new Map(own.get(id)), today);
          if (shown !== null) uses.set(id, shown);
        }
        if (from + KEYS_READ_MAX < keyIds.length) await nextTurn();
      }
      return ok(uses);
    },
    flush: exchanges.run,
    async stop() {
      stopping = true;
      cancelEarly?.();
      // The first call may join an exchange that began before the last uses.
      const last = exchanges.run().then(() => (pending.size > 0 ? exchanges.run() : undefined));
      await withTimeout(last, STOP_MS_MAX, undefined);
      exchanges.stop();
    },
  };
}
