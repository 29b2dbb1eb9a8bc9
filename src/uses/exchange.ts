// Exchanges the uses of keys with the database: each exchange adds what this process has counted, and is told what all
// have. They have numbers, one after the other: one whose outcome is unknown is sent again as it was, and adds nothing
// if it was carried out. Never a write per call; a database that is away delays it.

import { outageIn } from '../ground/result.ts';
import { type Cancel, type Clock, nextTurn, sleep, withTimeout } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import { type KeyUsage, learn, type WindowUsage } from './key-usage.ts';
import type { ExchangedUses, LastUse, UsesStore, WindowUses } from './store.ts';

/** After a first use. 5 s are promised: that leaves time for the slices. */
const EXCHANGE_AFTER_MS = 3000;
/** Between two exchanges of keys that have used a part of their limit. */
const EARLY_EVERY_MS = 250;
/** All that wait are written in slices, spread over this time: a query meanwhile waits for one slice at most. */
const SPREAD_MS = 1000;
/** Between two slices: a few need not be spread over all of that time. */
const PAUSE_MS_MAX = 5;
/** Keys that wait while the database is away: about 30 MB. Uses of further keys count here, but are not written. */
const WAITING_MAX = 100_000;
/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

/** What was sent, until the database is known to have it. */
interface Sent extends ExchangedUses {
  readonly keys: readonly KeyUsage[];
  /** As `windows`. */
  readonly usages: readonly WindowUsage[];
}

interface ExchangeOptions {
  readonly store: Pick<UsesStore, 'usesPerWrite' | 'addUses' | 'totalsOf'>;
  /** This process, by a random text. */
  readonly instance: string;
  readonly clock: Clock;
  readonly log: Log;
}

export function createExchange({ store, instance, clock, log }: ExchangeOptions) {
  /** Keys with uses that were not sent, and of those the ones that are not to wait. */
  const waiting = new Set<KeyUsage>();
  let early = new Set<KeyUsage>();
  let sent: Sent | null = null;
  let number = 0;
  let dueAtMs = Number.POSITIVE_INFINITY;
  let earlyAtMs = Number.NEGATIVE_INFINITY; // the last one
  let cancel: Cancel | undefined;
  let underWay: Promise<void> | undefined;
  let dropped = 0;
  let stopping = false;

  /** The key was used, or checked: the next exchange has it, an early one if it has used a part of its limit. */
  function used(key: KeyUsage): void {
    if (!waiting.has(key)) {
      if (waiting.size >= WAITING_MAX) {
        dropped += 1;
        return;
      }
      waiting.add(key);
      if (waiting.size === 1) schedule();
    }
    if (key.uses < key.inForce.usesMax) return;
    key.uses = 0;
    early.add(key);
    if (early.size === 1) schedule();
  }

  const isDone = () => waiting.size === 0 && sent === null;

  function schedule(): void {
    cancel?.();
    cancel = undefined;
    if (isDone()) dueAtMs = Number.POSITIVE_INFINITY;
    if (underWay !== undefined || stopping || isDone()) return;
    const nowMs = clock.monotonicMs();
    dueAtMs = Math.min(dueAtMs, nowMs + EXCHANGE_AFTER_MS);
    const atMs = early.size > 0 ? Math.min(dueAtMs, earlyAtMs + EARLY_EVERY_MS) : dueAtMs;
    cancel = clock.after(Math.max(0, atMs - nowMs), () => {
      run(clock.monotonicMs() >= dueAtMs).catch((error) => log.error('counts not exchanged', { error }));
    });
  }

  /** Exchanges all that wait, or those that are not to wait. Resolves when done, or when the store refused; rejects with a bug. */
  function run(all: boolean): Promise<void> {
    cancel?.();
    underWay ??= begin(all);
    return underWay;
  }

  async function begin(all: boolean): Promise<void> {
    try {
      await (all ? exchangeAll() : exchangeEarly());
    } catch (error) {
      const { reason } = outageIn(error); // what was not sent still waits
      if (all) log.warnOnce('uses kept for later', { count: waiting.size + (sent?.keys.length ?? 0), reason });
    } finally {
      underWay = undefined;
      schedule();
    }
  }

  async function exchangeAll(): Promise<void> {
    if (dropped > 0) log.warn('uses not written', { count: dropped });
    dropped = 0;
    dueAtMs = Number.POSITIVE_INFINITY;
    const pauseMs = Math.min(PAUSE_MS_MAX, SPREAD_MS / Math.ceil(waiting.size / store.usesPerWrite));
    await exchange([]);
    const keys = [...waiting];
    let left = keys.length;
    for (const slice of slicesOf(keys.values(), store.usesPerWrite, ({ createdAtMs }) => createdAtMs)) {
      await exchange(slice);
      await exchangeEarly();
      left -= slice.length;
      if (left > 0 && !stopping) await sleep(pauseMs);
    }
  }

  async function exchangeEarly(): Promise<void> {
    if (early.size === 0 || clock.monotonicMs() < earlyAtMs + EARLY_EVERY_MS) return;
    earlyAtMs = clock.monotonicMs();
    const keys = [...early];
    early = new Set();
    for (let from = 0; from < keys.length; from += store.usesPerWrite) {
      if (from > 0) await nextTurn();
      await exchange(keys.slice(from, from + store.usesPerWrite));
    }
  }

  /** What was sent before; then of these keys, those that still wait. */
  async function exchange(keys: readonly KeyUsage[]): Promise<void> {
    if (sent !== null) await send(sent);
    const left = keys.filter((key) => waiting.delete(key));
    if (left.length > 0) await send(take(left));
  }

  function take(keys: readonly KeyUsage[]): Sent {
    const usages: WindowUsage[] = [];
    const windows: WindowUses[] = [];
    for (const key of keys) {
      key.send((usage, pending) => {
        const { period, windowS, first, last } = usage.window;
        usages.push(usage);
        windows.push([key.id, windowS, first, last, period === 'month' ? 0 : pending]); // a month is the sum of its days
      });
    }
    const lastUses = keys.filter(({ usedAtMs }) => usedAtMs > 0).map(({ id, usedAtMs }): LastUse => [id, usedAtMs]);
    number += 1;
    sent = { instance, number, lastUses, windows, keys, usages };
    return sent;
  }

  async function send(uses: Sent): Promise<void> {
    await store.addUses(uses);
    const totals = stopping ? [] : await store.totalsOf(uses.windows);
    for (const [index, usage] of uses.usages.entries()) learn(usage, totals[index] ?? 0);
    for (const key of uses.keys) key.sent();
    sent = null;
  }

  return {
    used,
    flush: () => run(true),
    async stop(): Promise<void> {
      stopping = true;
      // The first call may join an exchange that began before the last uses.
      const last = run(true).then(() => (isDone() ? undefined : run(true)));
      await withTimeout(last, STOP_MS_MAX, undefined);
      cancel?.();
    },
  };
}

/** Keys sorted at once, in a millisecond: 10,000 would hold up the event loop for 12. */
const SORTED_MAX = 2000;

/** Of each SORTED_MAX, oldest first: keys of one age are neighbours in the database, so a write touches few pages. */
function* slicesOf<Key>(keys: IteratorObject<Key>, size: number, createdAtMs: (key: Key) => number): Generator<Key[]> {
  const oldestFirst = () => [...keys.take(SORTED_MAX)].sort((a, b) => createdAtMs(a) - createdAtMs(b));
  for (let sorted = oldestFirst(); sorted.length > 0; sorted = oldestFirst()) {
    for (let from = 0; from < sorted.length; from += size) yield sorted.slice(from, from + size);
  }
}
