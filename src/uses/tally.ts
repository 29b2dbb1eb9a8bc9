// What is counted of one key: uses in its day, in its limit's window and in its month. Those of this process are exact,
// those of others as last read: together never more than there were, so nobody is refused too early.

import type { FeedPosition } from '../lib/change-feed.ts';
import { memoize } from '../lib/memoize.ts';
import type { Quota, RateLimit, RateLimitState } from '../lib/rate-limit.ts';
import type { KeyCounts, Shares } from './store.ts';
import { DAY_S, dayAt, type Month, monthOf, windowAt } from './windows.ts';

/** Shorter windows are over before others could know of them: each process counts them for itself. */
export const SHARED_WINDOW_S_MIN = 10;

export interface Tally {
  readonly windowS: number;
  readonly number: number;
  /**
   * The UTC day of its own uses. A process counts as another instance each day (store/counts.ts), so in a window that
   * goes on at midnight its uses so far become those of others.
   */
  readonly day: number;
  /** Monotonic. Before it, a wall clock that is set back reopens no earlier window. */
  readonly overAtMs: number;
  own: number;
  others: number;
  /** Of its own uses, those that the database is known to have. */
  written: number;
}

export interface Times {
  readonly nowMs: number;
  readonly monotonicMs: number;
}

export interface InForce {
  readonly limit: RateLimit | null;
  readonly quota: Quota | null;
}

function tallyAt(windowS: number, { nowMs, monotonicMs }: Times, day: number): Tally {
  const number = windowAt(nowMs, windowS);
  const overAtMs = monotonicMs + endOf({ windowS, number }) - nowMs;
  return { windowS, number, day, overAtMs, own: 0, others: 0, written: 0 };
}

const startOf = ({ windowS, number }: Pick<Tally, 'windowS' | 'number'>): number => number * windowS * 1000;

const endOf = ({ windowS, number }: Pick<Tally, 'windowS' | 'number'>): number => (number + 1) * windowS * 1000;

/** A window that has begun stays until it is over, also when the wall clock is set back. */
function isOver({ windowS, number, overAtMs }: Tally, { nowMs, monotonicMs }: Times): boolean {
  const numberNow = windowAt(nowMs, windowS);
  return numberNow > number || (numberNow < number && monotonicMs >= overAtMs);
}

/** Counts only grow, so the larger is the newer. */
function raise(tally: Tally, { own, others }: Shares): void {
  tally.own = Math.max(tally.own, own);
  tally.written = Math.max(tally.written, own);
  tally.others = Math.max(tally.others, others);
}

const usesIn = ({ own, others }: Tally): number => own + others;

const isShared = ({ windowS }: Tally): boolean => windowS >= SHARED_WINDOW_S_MIN;

/** Whether the database may lack uses of it. */
export const isBehind = ({ own, written }: Tally): boolean => own > written;

const isSpent = (tally: Tally, limit: RateLimit): boolean => usesIn(tally) >= limit.requests;

const limitFrom = memoize((text: string): RateLimit => {
  const [requests, windowS] = text.split('/').map(Number) as [number, number];
  return { requests, windowS };
});

/** One object for equal limits, however many keys have them. */
export const limitOf = (requests: number, windowS: number): RateLimit => limitFrom(`${requests}/${windowS}`);

const EXCHANGE_PART = 1 / 32;

const NONE: readonly Tally[] = [];

/** The uses of one key: how many, and the last. */
export class Counted {
  /** When it was last found good, as far as this process knows; 0: never. A call that is refused later counts, too. */
  usedAtMs = 0;
  /** As far as the database is known to have it. */
  usedAtWrittenMs = 0;
  day: Tally;
  /** Of the limit in force; that of the day if it is as long. */
  window: Tally | null = null;
  /** The month's uses on the days before. */
  before = 0;
  month: Month;
  limit: RateLimit | null = null;
  quota: Quota | null = null;
  #quotaLimit: RateLimit | null = null;
  /** Of days that are over, and not written. */
  earlier: readonly Tally[] = NONE;
  /** Since the last exchange. */
  uses = 0;
  /** With so many uses it is time for an exchange. */
  usesMax = Infinity;
  /** The exchange that it waits for, or waited for last; 0: none yet. */
  exchange = 0;
  /** Where the change feed stood when its limits were read. */
  position: FeedPosition | null = null;
  #turnsAtMs = 0;
  #turnsBeforeMs = 0;

  constructor(
    readonly id: string,
    readonly createdAtMs: number,
    times: Times,
  ) {
    this.day = tallyAt(DAY_S, times, dayAt(times.nowMs));
    this.month = monthOf(this.day.number);
    this.#setTurn();
  }

  /** Takes what is in force, and what the database has as of `times`. */
  take({ limit, quota }: InForce, counts: KeyCounts, times: Times): void {
    this.turn(times);
    if (this.window?.windowS !== limit?.windowS) {
      this.window = limit === null ? null : limit.windowS === DAY_S ? this.day : this.#begin(limit.windowS, times);
    }
    this.limit = limit;
    this.quota = quota;
    this.#setQuotaLimit();
    const limitShared = limit !== null && limit.windowS >= SHARED_WINDOW_S_MIN ? limit.requests : Infinity;
    this.usesMax = Math.max(1, Math.min(limitShared, quota?.requests ?? Infinity) * EXCHANGE_PART);
    if (this.day.number === dayAt(times.nowMs)) {
      raise(this.day, counts.day);
      this.before = Math.max(this.before, counts.before);
      const { window } = this;
      if (window !== null && window !== this.day && window.number === windowAt(times.nowMs, window.windowS)) {
        raise(window, counts.window);
      }
    }
    this.#setTurn();
  }

  /** Whether a day or window has ended, or the wall clock was set back. */
  isDue(nowMs: number): boolean {
    return nowMs >= this.#turnsAtMs || nowMs < this.#turnsBeforeMs;
  }

  /** Moves on to the day and window of `times`. */
  turn(times: Times): void {
    const { day, window } = this;
    if (isOver(day, times)) this.#turnDay(times);
    if (window === day) this.window = this.day;
    else if (window !== null && isOver(window, times)) this.window = this.#begin(window.windowS, times);
    else if (window !== null && window.day !== this.day.number && isShared(window)) {
      this.#keep(window);
      this.window = { ...window, day: this.day.number, own: 0, others: usesIn(window), written: 0 };
    }
    this.#setTurn();
  }

  #turnDay(times: Times): void {
    const { day, month } = this;
    this.#keep(day);
    this.day = tallyAt(DAY_S, times, dayAt(times.nowMs));
    this.month = monthOf(this.day.number);
    const isSameMonth = this.month.firstDay === month.firstDay && this.day.number > day.number;
    this.before = isSameMonth ? this.before + usesIn(day) : 0;
    this.#setQuotaLimit();
  }

  #keep(tally: Tally): void {
    if (isBehind(tally)) this.earlier = [...this.earlier, tally];
  }

  /** Forgets the other days that are over. Nearly all keys have none, and share one empty list. */
  keepEarlier(isKept: (tally: Tally) => boolean): void {
    if (this.earlier.length > 0) this.earlier = this.earlier.filter(isKept);
  }

  #begin(windowS: number, times: Times): Tally {
    return tallyAt(windowS, times, this.day.number);
  }

  /** Whether the database may lack anything of it. */
  get isUnwritten(): boolean {
    const { day, window } = this;
    return (
      this.usedAtMs > this.usedAtWrittenMs ||
      isBehind(day) ||
      (window !== null && isShared(window) && isBehind(window)) ||
      this.earlier.some(isBehind)
    );
  }

  get isOverLimit(): boolean {
    return this.limit !== null && this.window !== null && isSpent(this.window, this.limit);
  }

  get isOverQuota(): boolean {
    return this.quota !== null && this.#usesOfPeriod >= this.quota.requests;
  }

  count(): void {
    const { day, window } = this;
    day.own += 1;
    if (window !== null && window !== day) window.own += 1;
    this.uses += 1;
  }

  /** The tallies that others should know of. */
  get shared(): Tally[] {
    const { day, window } = this;
    return window !== null && window !== day && isShared(window) ? [day, window] : [day];
  }

  /** Of its limit, or undefined; `and` of its quota. */
  state(nowMs: number): RateLimitState | undefined {
    const quota = this.#quotaState(nowMs);
    const { limit, window } = this;
    if (limit === null || window === null) return quota;
    const remaining = Math.max(0, limit.requests - usesIn(window));
    const resetS = secondsTo(endOf(window), nowMs, limit.windowS);
    return quota === undefined ? { limit, remaining, resetS } : { limit, remaining, resetS, and: quota };
  }

  get #usesOfPeriod(): number {
    return usesIn(this.day) + (this.quota?.period === 'month' ? this.before : 0);
  }

  #quotaState(nowMs: number): RateLimitState | undefined {
    const limit = this.#quotaLimit;
    if (limit === null) return undefined;
    const endsAtMs = this.quota?.period === 'month' ? this.month.endsAtMs : endOf(this.day);
    const remaining = Math.max(0, limit.requests - this.#usesOfPeriod);
    return { name: 'quota', limit, remaining, resetS: secondsTo(endsAtMs, nowMs, limit.windowS) };
  }

  #setQuotaLimit(): void {
    const { quota, month } = this;
    this.#quotaLimit = quota && limitOf(quota.requests, quota.period === 'month' ? month.lengthS : DAY_S);
  }

  #setTurn(): void {
    const { day, window } = this;
    this.#turnsAtMs = Math.min(endOf(day), endOf(window ?? day));
    this.#turnsBeforeMs = Math.max(startOf(day), startOf(window ?? day));
  }
}

/** Whole seconds, rounded up: 1 at least, and no more than a period has, wherever the wall clock was set. */
const secondsTo = (endMs: number, nowMs: number, mostS: number): number =>
  Math.max(1, Math.min(mostS, Math.ceil((endMs - nowMs) / 1000)));
