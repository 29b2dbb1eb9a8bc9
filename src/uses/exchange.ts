// Exchanges the uses of keys with the database. Every few seconds, last uses and counts that changed are written, and
// what the other processes have counted is read; sooner for keys that have used a part of their limit. Never a write
// per call; a database that is away delays it.

import { repeat } from '../lib/background.ts';
import { ok } from '../lib/result.ts';
import type { Cancel, Clock } from '../lib/runtime.ts';
import { slicesOf } from '../lib/slices.ts';
import { nextTurn, sleep, withTimeout } from '../lib/timeout.ts';
import type { Log } from '../log/log.ts';
import type { StoreResult } from '../problem.ts';
import type { Count, CountedWindow, UsesStore } from './store.ts';
import { type Counted, isBehind, type Tally } from './tally.ts';
import { dayAt } from './windows.ts';

/** After a first use. 5 s are promised: that leaves time for the slices. */
const EXCHANGE_AFTER_MS = 3000;
/** Between two early exchanges, of keys that have used a part of their limit. */
const EARLY_EVERY_MS = 250;
/** A flush is written in slices, spread over this time: a query meanwhile waits for one slice at most. */
const SPREAD_MS = 1000;
/** Between two slices: a few need not be spread over all of that time. */
const PAUSE_MS_MAX = 5;
/** Keys that wait while the database is away: about 50 MB. Uses of further keys count here, but are not written. */
const PENDING_MAX = 100_000;
/** Uses of a day are written until so many days later. They are summed after that (store/counts.ts). */
export const LATE_DAYS_MAX = 2;
/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

export interface Exchange {
  /** The key was used: the next flush writes it. */
  used(key: Counted): void;
  /** The key was counted: as `used`, and at once if it has used a part of its limit. */
  counted(key: Counted): void;
  waiting(keyId: string): Counted | undefined;
  /** Exchanges all that changed; resolves when done, or when the store refused. */
  flush(): Promise<void>;
  stop(): Promise<void>;
}

export interface ExchangeOptions {
  readonly store: Pick<UsesStore, 'usesPerWrite' | 'recordLastUses' | 'recordCounts' | 'countsOf'>;
  /** What this process counts as in the database. */
  readonly instance: number;
  readonly clock: Clock;
  readonly log: Log;
}

export function createExchange(options: ExchangeOptions): Exchange {
  const { store, instance, clock, log } = options;
  /** Of the exchange that `pending` waits for: to mark 90,000 keys as no longer pending would take milliseconds. */
  let number = 1;
  let pending = new Map<string, Counted>();
  /** Taken from `pending`, and not known to be written yet. */
  let flushing = new Map<string, Counted>();
  let early = new Map<string, Counted>();
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

  /** False: too many wait. */
  function wait(key: Counted): boolean {
    if (key.exchange === number) return true;
    if (pending.size + flushing.size >= PENDING_MAX && !flushing.has(key.id)) return false;
    keep(key);
    return true;
  }

  function keep(key: Counted): void {
    pending.set(key.id, key);
    key.exchange = number;
    exchanges.wake();
  }

  function hurry(key: Counted): void {
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
    exchangeHot(hot)
      .catch((error) => log.error('counts not exchanged', { error }))
      .finally(() => {
        earlyUnderWay = false;
        const [next] = early.values();
        if (next !== undefined) hurry(next);
      });
  }

  async function exchangeHot(hot: readonly Counted[]): Promise<void> {
    for (let from = 0; from < hot.length; from += store.usesPerWrite) {
      if (from > 0) await nextTurn();
      const done = await exchangeSlice(hot.slice(from, from + store.usesPerWrite));
      if (!done.ok) return; // they still wait for the next flush
    }
  }

  async function exchangeAll(): Promise<void> {
    if (dropped > 0) {
      log.warn('uses not written', { count: dropped });
      dropped = 0;
    }
    flushing = pending;
    pending = new Map();
    number += 1;
    try {
      const [used, counted] = await Promise.all([
        inSlices((slice) => writeLastUses(store, slice)),
        inSlices(exchangeSlice),
      ]);
      const done = used.ok ? counted : used;
      if (done.ok) flushing = new Map();
      else log.warn('uses kept for later', { count: flushing.size + pending.size, reason: done.error.reason });
    } finally {
      for (const key of flushing.values()) if (key.isUnwritten && key.exchange !== number) keep(key);
      flushing = new Map();
    }
  }

  /** Runs `work` for all that is being flushed, until it fails. */
  async function inSlices(work: (slice: readonly Counted[]) => StoreResult<void>): StoreResult<void> {
    const pauseMs = Math.min(PAUSE_MS_MAX, SPREAD_MS / Math.ceil(flushing.size / store.usesPerWrite));
    let left = flushing.size;
    for (const slice of slicesOf(flushing.values(), store.usesPerWrite, ({ createdAtMs }) => createdAtMs)) {
      const done = await work(slice);
      if (!done.ok) return done;
      left -= slice.length;
      if (left > 0 && !stopping) await sleep(pauseMs);
    }
    return ok(undefined);
  }

  async function exchangeSlice(slice: readonly Counted[]): StoreResult<void> {
    const written = await writeCounts(store, instance, slice, dayAt(clock.nowMs()));
    return written.ok && !stopping ? readOthers(store, instance, slice) : written;
  }

  return {
    used(key) {
      if (!wait(key)) dropped += 1;
    },
    counted(key) {
      wait(key);
      if (key.uses >= key.usesMax) hurry(key);
    },
    waiting: (keyId) => pending.get(keyId) ?? flushing.get(keyId),
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

type Store = ExchangeOptions['store'];

async function writeLastUses(store: Store, slice: readonly Counted[]): StoreResult<void> {
  const uses = slice
    .filter(({ usedAtMs, usedAtWrittenMs }) => usedAtMs > usedAtWrittenMs)
    .map((key) => ({ key, usedAtMs: key.usedAtMs }));
  if (uses.length === 0) return ok(undefined);
  const recorded = await store.recordLastUses(uses.map(({ key, usedAtMs }) => [key.id, usedAtMs]));
  if (recorded.ok) for (const { key, usedAtMs } of uses) key.usedAtWrittenMs = usedAtMs;
  return recorded;
}

async function writeCounts(
  store: Store,
  instance: number,
  slice: readonly Counted[],
  today: number,
): StoreResult<void> {
  const counts: Count[] = [];
  const sent: (readonly [tally: Tally, own: number])[] = [];
  for (const key of slice) {
    key.keepEarlier(({ day }) => day >= today - LATE_DAYS_MAX);
    for (const tally of [...key.earlier, ...key.shared]) {
      if (!isBehind(tally)) continue;
      counts.push([key.id, tally.windowS, tally.number, tally.day, tally.own]);
      sent.push([tally, tally.own]);
    }
    key.uses = 0;
  }
  if (counts.length === 0) return ok(undefined);
  const recorded = await store.recordCounts(instance, counts);
  if (!recorded.ok) return recorded;
  for (const [tally, own] of sent) tally.written = Math.max(tally.written, own);
  for (const key of slice) key.keepEarlier(isBehind);
  return ok(undefined);
}

async function readOthers(store: Store, instance: number, slice: readonly Counted[]): StoreResult<void> {
  const windows: CountedWindow[] = [];
  const asked: (readonly [key: Counted, tally: Tally, firstDay: number | null])[] = [];
  for (const key of slice) {
    const firstDay = key.quota?.period === 'month' ? key.month.firstDay : null;
    for (const tally of key.shared) {
      const first = tally === key.day ? firstDay : null;
      windows.push([key.id, tally.windowS, tally.number, tally.day, first]);
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
