// What one key has used: in its day, in its limit's window, and in its month if it has a quota of that. Of each there is
// what all processes had when last told, with what this one has sent, and this one's uses since: together never more than
// there were, so nobody is refused too early.

import type { FeedPosition } from '../ground/change-feed.ts';
import { type Calendar, contains, DAY_S, lengthS, type Period, resetS, type Window } from '../ground/limits/rates.ts';
import { type LimitName, limitOf, type Quota, type RateLimit, type RateLimitStates } from '../ground/rate-limit.ts';
import type { KeyCounts } from './store.ts';

/** Shorter windows are over before others could know of them: each process counts them for itself. */
export const SHARED_WINDOW_S_MIN = 10;

/** When a key has used this part of its limit since the last exchange, it is time for the next one. */
const EXCHANGE_PART = 1 / 32;

/** The uses of a key in a window. */
export interface WindowUsage {
  readonly window: Window;
  /** Of all processes, as last told, and what this one has sent. */
  total: number;
  /** Of this process, not in `total`. */
  pending: number;
}

export const usesIn = ({ total, pending }: WindowUsage): number => total + pending;

const begin = (window: Window): WindowUsage => ({ window, total: 0, pending: 0 });

/** The same, unless its window is over. */
function moved(usage: WindowUsage, calendar: Calendar): WindowUsage {
  const window = calendar(usage.window.period);
  return window === usage.window ? usage : begin(window);
}

/** What is told may lack what was sent. */
export function learn(usage: WindowUsage, total: number): void {
  usage.total = Math.max(usage.total, total);
}

/** What a key may use. Most keys have the server's, which is one object. */
export interface InForce {
  readonly limit: RateLimit | null;
  readonly quota: Quota | null;
  /** With so many uses since the last exchange it is time for another. */
  readonly usesMax: number;
}

export function inForce(limit: RateLimit | null, quota: Quota | null): InForce {
  const shared = limit !== null && limit.windowS >= SHARED_WINDOW_S_MIN ? limit.requests : Infinity;
  return { limit, quota, usesMax: Math.max(1, Math.min(shared, quota?.requests ?? Infinity) * EXCHANGE_PART) };
}

const NONE: readonly WindowUsage[] = [];

export class KeyUsage {
  /** When it was last found good, as far as this process knows; 0: never. A call that is refused later counts, too. */
  usedAtMs = 0;
  day: WindowUsage;
  /** Of the limit; that of the day if it is as long. */
  #window: WindowUsage | null = null;
  /** Of the quota; that of the day if it is one of a day. */
  #period: WindowUsage | null = null;
  #quotaLimit: RateLimit | null = null;
  /** Of days that are over, with uses that the database may lack. Nearly all keys have none, and share a list. */
  #late = NONE;
  /** Whether the database may lack what was sent. */
  #isSending = false;
  /** Since the last exchange. */
  uses = 0;
  /** Where the change feed stood when its limits were read. */
  position: FeedPosition | null = null;

  constructor(
    readonly id: string,
    readonly createdAtMs: number,
    public inForce: InForce,
    calendar: Calendar,
  ) {
    this.day = begin(calendar(DAY_S));
    this.setLimits(inForce, calendar);
  }

  setLimits(inForce: InForce, calendar: Calendar): void {
    const { limit, quota } = inForce;
    this.#window = limit === null ? null : this.#in(limit.windowS, this.#window, calendar);
    this.#period = quota === null ? null : this.#in(quota.period === 'day' ? DAY_S : 'month', this.#period, calendar);
    this.inForce = inForce;
    this.#setQuotaLimit();
  }

  /** What there is of a period, or a beginning. */
  #in(period: Period, before: WindowUsage | null, calendar: Calendar): WindowUsage {
    if (period === DAY_S) return this.day;
    if (before?.window.period === period) return before;
    const usage = begin(calendar(period));
    if (period === 'month') {
      for (const { window, pending } of this.days) {
        if (window.first >= usage.window.first) usage.pending += pending; // no total has those
      }
    }
    return usage;
  }

  /** Takes what the database had at `nowMs`; `windowS`: of the window that was read. */
  learn(counts: KeyCounts, windowS: number | undefined, nowMs: number): void {
    const read: readonly [usage: WindowUsage | null, total: number][] = [
      [this.day, counts.day],
      [this.#window?.window.windowS === windowS ? this.#window : null, counts.window],
      [this.#period?.window.period === 'month' ? this.#period : null, counts.month],
    ];
    for (const [usage, total] of read) if (usage !== null && contains(usage.window, nowMs)) learn(usage, total);
  }

  /** Its next use begins an early exchange, which brings what others have used, if a limit or quota needs that. */
  askForTotals(): void {
    if (this.inForce.usesMax < Infinity) this.uses = this.inForce.usesMax;
  }

  /** Whether a day or window has ended, or the wall clock was set back. */
  isDue(nowMs: number): boolean {
    return !contains(this.day.window, nowMs) || (this.#window !== null && !contains(this.#window.window, nowMs));
  }

  /** Moves on to the windows that have begun. */
  turn(calendar: Calendar): void {
    const { day } = this;
    this.day = moved(day, calendar);
    if (this.day !== day && (day.pending > 0 || this.#isSending)) this.#late = [...this.#late, day];
    if (this.#window !== null) this.#window = this.#window === day ? this.day : moved(this.#window, calendar);
    if (this.#period !== null) this.#period = this.#period === day ? this.day : moved(this.#period, calendar);
    if (this.day !== day) this.#setQuotaLimit();
  }

  /** Of the period: months are of different lengths. */
  #setQuotaLimit(): void {
    const { quota } = this.inForce;
    this.#quotaLimit =
      quota !== null && this.#period !== null ? limitOf(quota.requests, lengthS(this.#period.window)) : null;
  }

  /** The days whose uses may not be in the database. */
  get days(): readonly WindowUsage[] {
    return [...this.#late, this.day];
  }

  /** Sends the uses in each window that all processes share: from now on they are in its total. */
  send(to: (usage: WindowUsage, added: number) => void): void {
    const own = [this.#window, this.#period].filter((usage) => usage !== null && usage !== this.day);
    for (const usage of [...this.days, ...(own as WindowUsage[])]) {
      if (usage.window.windowS < SHARED_WINDOW_S_MIN) continue;
      const { pending } = usage;
      usage.total += pending;
      usage.pending = 0;
      to(usage, pending);
    }
    this.#isSending = true;
    this.uses = 0;
  }

  /** The database has what was sent. */
  sent(): void {
    this.#isSending = false;
    if (this.#late.length > 0) this.#late = this.#late.filter(({ pending }) => pending > 0);
  }

  get isOverLimit(): boolean {
    const { limit } = this.inForce;
    return limit !== null && this.#window !== null && usesIn(this.#window) >= limit.requests;
  }

  get isOverQuota(): boolean {
    const { quota } = this.inForce;
    return quota !== null && this.#period !== null && usesIn(this.#period) >= quota.requests;
  }

  count(): void {
    const { day } = this;
    day.pending += 1;
    if (this.#window !== null && this.#window !== day) this.#window.pending += 1;
    if (this.#period !== null && this.#period !== day) this.#period.pending += 1;
    this.uses += 1;
  }

  /** Returns its limit and its quota, those that it has. */
  states(nowMs: number): RateLimitStates {
    const { limit } = this.inForce;
    return [...stateOf('key', limit, this.#window, nowMs), ...stateOf('quota', this.#quotaLimit, this.#period, nowMs)];
  }
}

const stateOf = (
  name: LimitName,
  limit: RateLimit | null,
  usage: WindowUsage | null,
  nowMs: number,
): RateLimitStates =>
  limit === null || usage === null
    ? []
    : [{ name, limit, remaining: remainingOf(limit, usage), resetS: resetS(usage.window, nowMs) }];

const remainingOf = ({ requests }: RateLimit, usage: WindowUsage): number => Math.max(0, requests - usesIn(usage));
