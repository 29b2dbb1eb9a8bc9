// Exchanges counts with the database: each exchange adds what this process has counted, and reads the totals of all
// processes. Exchanges are numbered: one whose outcome is unknown is sent again unchanged, and is idempotent. There is
// never a write per call, and an outage only delays exchanges.

import { DAY_S, dayAt } from '../ground/limits/rates.ts';
import { outageIn } from '../ground/result.ts';
import { type Cancel, type Clock, nextTurn, sleep, withTimeout } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { Holder, WindowUsage } from './holder.ts';
import type { Holders } from './holders.ts';
import type { ExchangedUses, HolderId, UsesStore, WindowUses } from './store.ts';

/** Holders that wait during an outage: about 30 MB. Further ones count in this process alone. */
const WAITING_MAX = 100_000;
/** How long a stop waits for the next exchange to be complete. */
const STOP_MS_MAX = 3000;

/** What was sent, until the database is known to have it. */
interface Sent extends ExchangedUses {
  readonly holders: readonly Holder[];
  /** One for each of `windows`; null: nothing was counted in it. */
  readonly usages: readonly (WindowUsage | null)[];
}

/** The state of the schedule. When a `scheduled` exchange is due, it sends all waiting holders, or only the early ones. */
type Phase =
  | { readonly is: 'idle' }
  | { readonly is: 'scheduled'; readonly cancel: Cancel }
  | { readonly is: 'under_way'; readonly done: Promise<void> };

const IDLE: Phase = { is: 'idle' };

interface ExchangeOptions {
  readonly store: UsesStore;
  readonly holders: Holders;
  /** A random id of this process. */
  readonly instance: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Takes each holder whose totals were read. */
  readonly onTotals: (holder: Holder) => void;
}

export class Exchange {
  readonly #options: ExchangeOptions;
  /** Holders with unsent uses, and among them those whose exchange is due early. */
  readonly #waiting = new Set<Holder>();
  #early = new Set<Holder>();
  /** An exchange whose outcome is unknown: it is sent again first. */
  #unconfirmed: Sent | null = null;
  #number = 0;
  #phase = IDLE;
  #isStopping = false;
  /** When the first of the waiting holders began to wait; infinity: none waits. */
  #waitingSinceMs = Number.POSITIVE_INFINITY;
  /** When the last early exchange began. */
  #earlyAtMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** Queues a holder for the next exchange, or for an early one if it has used enough of its limit. */
  queue(holder: Holder): void {
    if (!this.#waiting.has(holder)) {
      if (this.#waiting.size >= WAITING_MAX) {
        this.#dropped += 1;
        return;
      }
      this.#waiting.add(this.#options.holders.keep(holder));
      if (this.#waiting.size === 1) this.#schedule();
    }
    if (!holder.isEarly || this.#early.has(holder)) return;
    this.#early.add(holder);
    if (this.#early.size === 1) this.#schedule();
  }

  /** Returns the keys of these owners with uses that the database may lack. Copies none of the others: many may wait. */
  unsentOf(owners: ReadonlySet<string>): ReadonlySet<Holder> {
    const unsent = new Set<Holder>();
    for (const holders of [this.#waiting, this.#unconfirmed?.holders ?? []]) {
      for (const holder of holders) if (holder.kind === 'key' && owners.has(holder.userId)) unsent.add(holder);
    }
    return unsent;
  }

  /** Returns the number of the last exchange that is complete; 0: none. */
  get complete(): number {
    return this.#unconfirmed === null ? this.#number : this.#number - 1;
  }

  /** Exchanges all waiting holders. Resolves when done, or when the store is out of reach; rejects on a bug. */
  flush(): Promise<void> {
    return this.#run('all');
  }

  /** Exchanges all waiting holders now, and schedules nothing more. Gives up on a store that hangs, not on a slow one. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    // The first call may join an exchange that began before the last uses.
    const last = this.#run('all').then(() => (this.#isDone ? undefined : this.#run('all')));
    const done = last.then(() => true);
    for (let complete = -1; complete < this.complete; ) {
      complete = this.complete;
      if (await withTimeout(done, STOP_MS_MAX, false)) break;
    }
  }

  get #isDone(): boolean {
    return this.#waiting.size === 0 && this.#unconfirmed === null;
  }

  #cancel(): void {
    if (this.#phase.is !== 'scheduled') return;
    this.#phase.cancel();
    this.#phase = IDLE;
  }

  /** Schedules the next exchange, unless one is under way: its end schedules the next. */
  #schedule(): void {
    const { clock, log } = this.#options;
    this.#cancel();
    if (this.#isDone) this.#waitingSinceMs = Number.POSITIVE_INFINITY;
    if (this.#phase.is === 'under_way' || this.#isStopping || this.#isDone) return;
    const nowMs = clock.monotonicMs();
    this.#waitingSinceMs = Math.min(this.#waitingSinceMs, nowMs);
    const atMs = this.#early.size > 0 ? Math.min(this.#dueAtMs, this.#earlyAtMs + EARLY_EVERY_MS) : this.#dueAtMs;
    const cancel = clock.after(Math.max(0, atMs - nowMs), () => {
      this.#phase = IDLE;
      this.#exchangeDue().catch((error) => log.error('counts not exchanged', { error }));
    });
    this.#phase = { is: 'scheduled', cancel };
  }

  /** Returns when all waiting holders are due. If more come until then, it is later. */
  get #dueAtMs(): number {
    return this.#waitingSinceMs + waitMsOf(this.#waiting.size);
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

  /** Exchanges waiting holders. What an outage keeps from the store stays queued. */
  async #exchangeOrKeep(which: 'all' | 'early'): Promise<void> {
    await Promise.resolve(); // lets `#run` set the phase first
    try {
      await (which === 'all' ? this.#exchangeAll() : this.#exchangeEarly());
    } catch (error) {
      const { reason } = outageIn(error);
      const count = this.#waiting.size + (this.#unconfirmed?.holders.length ?? 0);
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
    this.#waitingSinceMs = Number.POSITIVE_INFINITY;
    const holders = [...this.#waiting];
    const pauseMs = pauseMsOf(holders.length, store.usesPerWrite);
    await this.#resend();
    let left = holders.length;
    for (const batch of batchesOf(holders.values(), store.usesPerWrite)) {
      await this.#exchange(batch);
      await this.#exchangeEarly();
      left -= batch.length;
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

  /** Sends those of these holders that still wait, after the exchange with an unknown outcome. */
  async #exchange(holders: readonly Holder[]): Promise<void> {
    await this.#resend();
    const left = holders.filter((holder) => this.#waiting.delete(holder));
    if (left.length > 0) await this.#send(this.#take(left));
  }

  /** Sends the exchange with an unknown outcome again, if there is one. */
  async #resend(): Promise<void> {
    if (this.#unconfirmed !== null) await this.#send(this.#unconfirmed);
  }

  #take(holders: readonly Holder[]): Sent {
    this.#number += 1;
    const taken = holders.flatMap((holder) => takenFrom(holder, this.#number));
    const { instance } = this.#options;
    const windows = taken.map(([, window]) => window);
    const sent = { instance, number: this.#number, windows, holders, usages: taken.map(([usage]) => usage) };
    this.#unconfirmed = sent;
    return sent;
  }

  async #send(sent: Sent): Promise<void> {
    const { store, holders, onTotals } = this.#options;
    await store.addUses(sent);
    if (!this.#isStopping) {
      const totals = await store.totalsOf(sent.windows);
      for (const [index, usage] of sent.usages.entries()) if (usage !== null) usage.total = totals[index] ?? 0;
    }
    for (const holder of sent.holders) {
      holder.sent();
      onTotals(holder);
      holders.drop(holder);
    }
    this.#unconfirmed = null;
  }
}

const idOf = ({ kind, id }: Holder): HolderId => (kind === 'key' ? [id, null] : [null, id]);

/** Takes a holder's counts. Its last use is sent with that day's count, or alone if that day isn't sent. */
function takenFrom(holder: Holder, exchange: number): [WindowUsage | null, WindowUses][] {
  const { usedAtMs } = holder;
  const usedOn = usedAtMs > 0 ? dayAt(usedAtMs) : null;
  const taken: [WindowUsage | null, WindowUses][] = [];
  let isUseTaken = false;
  holder.send(exchange, (usage, pending) => {
    const { period, windowS, first, last } = usage.window;
    const isDayOfUse = period === DAY_S && first === usedOn;
    const added = period === 'month' ? 0 : pending; // a month is the sum of its days
    taken.push([usage, [...idOf(holder), windowS, first, last, added, isDayOfUse ? usedAtMs : null]]);
    isUseTaken ||= isDayOfUse;
  });
  if (usedOn !== null && !isUseTaken) {
    taken.push([null, [...idOf(holder), DAY_S, usedOn, usedOn, 0, usedAtMs]]);
  }
  return taken;
}

// Decides when counts are exchanged, and in which batches: soon while few keys wait, and as rarely as promised while many
// do, so that the writes per second grow little with the keys in use.

/** The wait after a first use. 5 s are promised, which leaves time for the batches. */
const EXCHANGE_AFTER_MS = 3000;
/** If more wait than this, their last uses may take 60 s. */
const FEW = 1000;
/** The longest wait. 60 s are promised, which leaves time for 100,000 in batches. */
const WAIT_MS_MAX = 30_000;

/** The least time between two early exchanges. */
const EARLY_EVERY_MS = 250;

/** The pause between batches of few keys. */
const PAUSE_MS = 5;
/** The part of their wait over which the batches of many are spread. */
const SPREAD_PART = 1 / 3;

/** Returns how long holders wait, from the first of them. `count`: how many wait. */
const waitMsOf = (count: number): number =>
  count <= FEW ? EXCHANGE_AFTER_MS : Math.min(WAIT_MS_MAX, (EXCHANGE_AFTER_MS * count) / FEW);

/** Returns the pause between two batches, in which everything else has a turn. */
const pauseMsOf = (count: number, perBatch: number): number =>
  count <= FEW ? PAUSE_MS : (waitMsOf(count) * SPREAD_PART) / Math.ceil(count / perBatch);

/** Keys sorted at once, in a millisecond: sorting 10,000 would block the event loop for 12. */
const SORTED_MAX = 2000;

/** Yields batches, oldest first within each SORTED_MAX: keys of one age share database pages, so a write touches few. */
function* batchesOf(holders: IteratorObject<Holder>, size: number): Generator<Holder[]> {
  const oldestFirst = () => [...holders.take(SORTED_MAX)].sort((a, b) => a.createdAtMs - b.createdAtMs);
  for (let sorted = oldestFirst(); sorted.length > 0; sorted = oldestFirst()) {
    for (let from = 0; from < sorted.length; from += size) yield sorted.slice(from, from + size);
  }
}
