// Exchanges the uses of holders with the database: each exchange adds what this process has counted, and is told what all
// have. They have numbers, one after the other: one whose outcome is unknown is sent again as it was, and adds nothing
// if it was carried out. Never a write per call; a database that is away delays it. pace.ts says when.

import { dayAt } from '../ground/limits/rates.ts';
import { outageIn } from '../ground/result.ts';
import { type Cancel, type Clock, MS_PER_DAY, nextTurn, sleep, withTimeout } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Holder } from './holder.ts';
import { EARLY_EVERY_MS, pauseMsOf, slicesOf, waitMsOf } from './pace.ts';
import type { ExchangedUses, HolderId, UsesStore, WindowUses } from './store.ts';
import { settleTotal, type WindowUsage } from './windows.ts';

/** Holders that wait while the database is out of reach: about 30 MB. Further ones count in this process alone. */
const WAITING_MAX = 100_000;
/** A stop waits this long for a store that hangs. */
const STOP_MS_MAX = 3000;

/** What was sent, until the database is known to have it. */
interface Sent extends ExchangedUses {
  readonly holders: readonly Holder[];
  /** One for each of `windows`; null: nothing was counted in it. */
  readonly usages: readonly (WindowUsage | null)[];
}

/** What is done about those that wait. `scheduled`: at its time all of them, or the early ones, are exchanged. */
type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'scheduled'; readonly cancel: Cancel }
  | { readonly is: 'under_way'; readonly done: Promise<void> };

const IDLE: Phase = { is: 'idle' };

interface ExchangeOptions {
  readonly store: Pick<UsesStore, 'usesPerWrite' | 'addUses' | 'totalsOf'>;
  /** This process, by a random text. */
  readonly instance: string;
  readonly clock: Clock;
  readonly log: Log;
}

export class Exchange {
  readonly #options: ExchangeOptions;
  /** Holders with uses that were not sent, and of those the ones that are not to wait. */
  readonly #waiting = new Set<Holder>();
  #early = new Set<Holder>();
  /** An exchange whose outcome is unknown: it is sent again before anything else. */
  #unknown: Sent | null = null;
  #number = 0;
  #phase = IDLE;
  #isStopping = false;
  /** Since when the first of them waits; infinity: none does. */
  #sinceMs = Number.POSITIVE_INFINITY;
  /** When the last early exchange began. */
  #earlyAtMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** Notes that a holder was used, or checked: the next exchange has it, an early one if it has used a part of its limit. */
  used(holder: Holder): void {
    if (!this.#waiting.has(holder)) {
      if (this.#waiting.size >= WAITING_MAX) {
        this.#dropped += 1;
        return;
      }
      this.#waiting.add(holder);
      if (this.#waiting.size === 1) this.#schedule();
    }
    if (!holder.isEarly || this.#early.has(holder)) return;
    this.#early.add(holder);
    if (this.#early.size === 1) this.#schedule();
  }

  /** Exchanges all that wait. Resolves when done, or when the store refused; rejects with a bug. */
  flush(): Promise<void> {
    return this.#run('all');
  }

  /** Exchanges all that wait, at once, then nothing any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    // The first call may join an exchange that began before the last uses.
    const last = this.#run('all').then(() => (this.#isDone ? undefined : this.#run('all')));
    await withTimeout(last, STOP_MS_MAX, undefined);
    this.#cancel();
  }

  get #isDone(): boolean {
    return this.#waiting.size === 0 && this.#unknown === null;
  }

  #cancel(): void {
    if (this.#phase.is !== 'scheduled') return;
    this.#phase.cancel();
    this.#phase = IDLE;
  }

  /** Schedules the next exchange. From `under_way` nothing is scheduled: its end does it. */
  #schedule(): void {
    const { clock, log } = this.#options;
    this.#cancel();
    if (this.#isDone) this.#sinceMs = Number.POSITIVE_INFINITY;
    if (this.#phase.is === 'under_way' || this.#isStopping || this.#isDone) return;
    const nowMs = clock.monotonicMs();
    this.#sinceMs = Math.min(this.#sinceMs, nowMs);
    const atMs = this.#early.size > 0 ? Math.min(this.#dueAtMs, this.#earlyAtMs + EARLY_EVERY_MS) : this.#dueAtMs;
    const cancel = clock.after(Math.max(0, atMs - nowMs), () => {
      this.#phase = IDLE;
      this.#exchangeDue().catch((error) => log.error('counts not exchanged', { error }));
    });
    this.#phase = { is: 'scheduled', cancel };
  }

  /** Returns when those that wait now are exchanged. More may come until then, and make it later. */
  get #dueAtMs(): number {
    return this.#sinceMs + waitMsOf(this.#waiting.size);
  }

  async #exchangeDue(): Promise<void> {
    if (this.#options.clock.monotonicMs() >= this.#dueAtMs) return this.#run('all');
    if (this.#early.size > 0) return this.#run('early');
    this.#schedule();
  }

  /** Joins the exchange under way, or begins one. */
  #run(which: 'all' | 'early'): Promise<void> {
    if (this.#phase.is === 'under_way') return this.#phase.done;
    this.#cancel();
    const done = this.#exchangeOrKeep(which);
    this.#phase = { is: 'under_way', done };
    return done;
  }

  /** Exchanges those that wait. What the store did not get, because it is out of reach, still waits. */
  async #exchangeOrKeep(which: 'all' | 'early'): Promise<void> {
    await Promise.resolve(); // it is under way from now on
    try {
      await (which === 'all' ? this.#exchangeAll() : this.#exchangeEarly());
    } catch (error) {
      const { reason } = outageIn(error);
      const count = this.#waiting.size + (this.#unknown?.holders.length ?? 0);
      if (which === 'all') this.#options.log.warnOnce('uses kept for later', { count, reason });
    } finally {
      this.#phase = IDLE;
      this.#schedule();
    }
  }

  async #exchangeAll(): Promise<void> {
    const { store, log } = this.#options;
    if (this.#dropped > 0) log.warn('uses not written', { count: this.#dropped });
    this.#dropped = 0;
    this.#sinceMs = Number.POSITIVE_INFINITY;
    const holders = [...this.#waiting];
    const pauseMs = pauseMsOf(holders.length, store.usesPerWrite);
    await this.#exchange([]);
    let left = holders.length;
    for (const slice of slicesOf(holders.values(), store.usesPerWrite, ({ createdAtMs }) => createdAtMs)) {
      await this.#exchange(slice);
      await this.#exchangeEarly();
      left -= slice.length;
      if (left > 0 && !this.#isStopping) await sleep(pauseMs);
    }
  }

  async #exchangeEarly(): Promise<void> {
    const { store, clock } = this.#options;
    if (this.#early.size === 0 || clock.monotonicMs() < this.#earlyAtMs + EARLY_EVERY_MS) return;
    this.#earlyAtMs = clock.monotonicMs();
    const holders = [...this.#early];
    this.#early = new Set();
    for (let from = 0; from < holders.length; from += store.usesPerWrite) {
      if (from > 0) await nextTurn();
      await this.#exchange(holders.slice(from, from + store.usesPerWrite));
    }
  }

  /** Sends what is unknown; then of these holders, those that still wait. */
  async #exchange(holders: readonly Holder[]): Promise<void> {
    if (this.#unknown !== null) await this.#send(this.#unknown);
    const left = holders.filter((holder) => this.#waiting.delete(holder));
    if (left.length > 0) await this.#send(this.#take(left));
  }

  #take(holders: readonly Holder[]): Sent {
    const taken = holders.flatMap(takenFrom);
    this.#number += 1;
    const { instance } = this.#options;
    const windows = taken.map(([, window]) => window);
    const sent = { instance, number: this.#number, windows, holders, usages: taken.map(([usage]) => usage) };
    this.#unknown = sent;
    return sent;
  }

  async #send(sent: Sent): Promise<void> {
    const { store } = this.#options;
    await store.addUses(sent);
    if (!this.#isStopping) {
      const totals = await store.totalsOf(sent.windows);
      for (const [index, usage] of sent.usages.entries()) if (usage !== null) settleTotal(usage, totals[index] ?? 0);
    }
    for (const holder of sent.holders) holder.sent();
    this.#unknown = null;
  }
}

const idOf = ({ kind, id }: Holder): HolderId => (kind === 'key' ? [id, null] : [null, id]);

/** Takes what a holder has counted. Its last use goes with the day in which it was, or alone if that day isn't sent. */
function takenFrom(holder: Holder): [WindowUsage | null, WindowUses][] {
  const { usedAtMs } = holder;
  const usedOn = usedAtMs > 0 ? dayAt(usedAtMs) : null;
  const taken: [WindowUsage | null, WindowUses][] = [];
  let isUseTaken = usedOn === null;
  holder.send((usage, pending) => {
    const { period, windowS, first, last } = usage.window;
    const isDayOfUse = windowS * 1000 === MS_PER_DAY && period !== 'month' && first === usedOn;
    const added = period === 'month' ? 0 : pending; // a month is the sum of its days
    taken.push([usage, [...idOf(holder), windowS, first, last, added, isDayOfUse ? usedAtMs : null]]);
    isUseTaken ||= isDayOfUse;
  });
  if (usedOn !== null && !isUseTaken) {
    taken.push([null, [...idOf(holder), MS_PER_DAY / 1000, usedOn, usedOn, 0, usedAtMs]]);
  }
  return taken;
}
