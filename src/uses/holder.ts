// A holder of limits: a key, or an owner with all keys together. Keeps its limits, and its counts in each window that
// they need, and for the day. A count is the last known total of all processes, which includes what this one has sent, plus
// this process's units since. The sum never exceeds what was used, so nobody is refused too early.

import type { FeedPosition } from '../ground/change-feed.ts';
import { type Calendar, contains, DAY_S, lengthS, type Period, resetS, type Window } from '../ground/limits/rates.ts';
import {
  type LimitName,
  type Limits,
  limitOf,
  type Quota,
  type RateLimit,
  type RateLimitState,
  SHARED_WINDOW_S_MIN,
} from '../ground/rate-limit.ts';
import type { CountsAsOf, KeyCounts } from './store.ts';

/** The part of a limit that, used since the last exchange, makes the next one due early. */
const EXCHANGE_PART = 1 / 32;

/** What a holder may use. Most keys share one object, the server's allowance. */
export interface Allowance {
  readonly limit: RateLimit | null;
  readonly quota: Quota | null;
  /** Windows that are counted: always the day first, then those of the limits. */
  readonly periods: readonly Period[];
  /** Units since the last exchange that make another due early. */
  readonly unitsMax: number;
}

export function allowanceOf({ rateLimit: limit, quota }: Limits): Allowance {
  const periods = new Set<Period>([DAY_S]);
  if (limit !== null) periods.add(limit.windowS);
  if (quota !== null) periods.add(periodOf(quota));
  const shared = limit !== null && limit.windowS >= SHARED_WINDOW_S_MIN ? limit.requests : Infinity;
  const unitsMax = Math.max(1, Math.min(shared, quota?.requests ?? Infinity) * EXCHANGE_PART);
  return { limit, quota, periods: [...periods], unitsMax };
}

const periodOf = ({ period }: Quota): Period => (period === 'day' ? DAY_S : period);

/** The units in one window. */
export interface WindowUsage {
  readonly window: Window;
  /** The last known units of all processes, with what this one has sent. */
  total: number;
  /** Units of this process that aren't in `total`. */
  pending: number;
}

const beginWindow = (window: Window): WindowUsage => ({ window, total: 0, pending: 0 });

export const unitsIn = ({ total, pending }: WindowUsage): number => total + pending;

/** A limit or quota in force, with the window in which it counts. */
export interface Bound {
  readonly name: LimitName;
  readonly limit: RateLimit;
  readonly usage: WindowUsage;
}

export const hasRoom = ({ limit, usage }: Bound, units: number): boolean => unitsIn(usage) + units <= limit.requests;

export const remainingOf = ({ limit, usage }: Bound): number => Math.max(0, limit.requests - unitsIn(usage));

export const stateOf = (bound: Bound, nowMs: number): RateLimitState => ({
  name: bound.name,
  limit: bound.limit,
  remaining: remainingOf(bound),
  resetS: resetS(bound.usage.window, nowMs),
});

/** The names of its limit and its quota. */
const NAMES = { key: ['key', 'quota'], owner: ['owner', 'owner-quota'] } as const;

/** The shares of a quota (percent, descending) that are logged when reached, once a period. */
const SHARES_LOGGED = [100, 80];

const NONE: readonly WindowUsage[] = [];

export class Holder {
  /** When the key was last verified, as far as this process knows; 0: never. Calls refused afterwards count, too. */
  usedAtMs = 0;
  /** One window for each period of the allowance, in the same order. */
  #windows: readonly WindowUsage[];
  /** Days that are over, with units that the database may lack. Nearly all holders share the empty list. */
  #pastDays = NONE;
  /** Its limit and its quota, if any. */
  bounds: readonly Bound[] = [];
  /** Whether the database may lack what was sent. */
  #isSending = false;
  /** The number of the exchange that it was last sent with; 0: none. */
  #sentWith = 0;
  #unitsSince = 0;
  /** How many need it: cached records and exchanges; of an owner, his keys. */
  keepers = 0;
  /** The position of the change feed when its allowance was read. */
  position: FeedPosition | null = null;
  /** The name of a key's owner; empty until its record was read, and for owners. */
  userId = '';
  /** The key's owner, if limits apply to all his keys together; null for owners. */
  owner: Holder | null = null;
  /** The highest share logged, of which quota, and in which period it was reached. */
  #loggedShare: { readonly usage: WindowUsage; readonly requests: number; readonly share: number } | null = null;

  constructor(
    readonly kind: keyof typeof NAMES,
    /** The key's id, or the owner's name. */
    readonly id: string,
    readonly createdAtMs: number,
    public allowance: Allowance,
    calendar: Calendar,
  ) {
    this.#windows = [beginWindow(calendar(DAY_S))];
    this.setAllowance(allowance, calendar);
  }

  /** Sets the allowance. Counts of a window continue unless its length is no longer counted. */
  setAllowance(allowance: Allowance, calendar: Calendar): void {
    this.#windows = allowance.periods.map(
      (period) => this.#windows.find(({ window }) => window.period === period) ?? this.#beginning(period, calendar),
    );
    this.allowance = allowance;
    this.#setBounds();
  }

  /** Begins a window; a month with the units of its days that are in no total yet. */
  #beginning(period: Period, calendar: Calendar): WindowUsage {
    const usage = beginWindow(calendar(period));
    if (period !== 'month') return usage;
    for (const { window, pending } of this.days) if (window.first >= usage.window.first) usage.pending += pending;
    return usage;
  }

  #setBounds(): void {
    const { limit, quota, periods } = this.allowance;
    const [limitName, quotaName] = NAMES[this.kind];
    const bounds: Bound[] = [];
    const usageIn = (period: Period) => this.#windows[periods.indexOf(period)] as WindowUsage; // each period has one
    if (limit !== null) bounds.push({ name: limitName, limit, usage: usageIn(limit.windowS) });
    if (quota !== null) {
      const usage = usageIn(periodOf(quota));
      bounds.push({ name: quotaName, limit: limitOf(quota.requests, lengthS(usage.window)), usage });
    }
    this.bounds = bounds;
  }

  /**
   * Merges what the database had. `periods`: the windows that were read. If the read began after the last exchange was
   * complete, it has all that was sent, so that counts that were deleted are gone here, too. If not, and it has less than is
   * known here, the next exchange decides.
   */
  mergeCounts(counts: KeyCounts, { periods }: Allowance, { nowMs, exchanged }: CountsAsOf): void {
    const hasAll = this.#sentWith <= exchanged;
    for (const usage of this.#windows) {
      const { period } = usage.window;
      if (!contains(usage.window, nowMs) || !periods.includes(period)) continue;
      const total = period === DAY_S ? counts.day : period === 'month' ? counts.month : counts.window;
      if (hasAll || total >= usage.total) usage.total = total;
      else this.makeEarly();
    }
  }

  /** Makes an early exchange due, which reads the totals, if it has a limit or quota that needs it. */
  makeEarly(): void {
    if (this.allowance.unitsMax < Infinity) this.#unitsSince = this.allowance.unitsMax;
  }

  /** Returns whether an early exchange is due, as it has used enough of its limit, or its counts are unknown. */
  get isEarly(): boolean {
    return this.#unitsSince >= this.allowance.unitsMax;
  }

  /** Returns whether a window is over, or the wall clock was set back. */
  isDue(nowMs: number): boolean {
    for (const { window } of this.#windows) if (!contains(window, nowMs)) return true;
    return false;
  }

  /** Replaces windows that are over by the current ones. */
  openWindows(calendar: Calendar): void {
    const { day } = this;
    this.#windows = this.#windows.map((usage) => {
      const window = calendar(usage.window.period);
      return window === usage.window ? usage : beginWindow(window);
    });
    if (this.day !== day && (day.pending > 0 || this.#isSending)) this.#pastDays = [...this.#pastDays, day];
    this.#setBounds();
  }

  get day(): WindowUsage {
    return this.#windows[0] as WindowUsage; // every allowance has a day
  }

  /** Returns the days whose units the database may lack. */
  get days(): readonly WindowUsage[] {
    return [...this.#pastDays, this.day];
  }

  /** Returns the highest of SHARES_LOGGED that its quota newly reached in this period; null: none. */
  quotaShareReached(): number | null {
    const { quota } = this.allowance;
    const usage = this.bounds.at(-1)?.usage; // the quota is last
    if (quota === null || usage === undefined) return null;
    const { requests } = quota;
    const share = SHARES_LOGGED.find((percent) => unitsIn(usage) * 100 >= requests * percent);
    const logged = this.#loggedShare;
    const isOfSame = logged?.usage === usage && logged.requests === requests; // after an upgrade it is reached anew
    if (share === undefined || (isOfSame && logged.share >= share)) return null;
    this.#loggedShare = { usage, requests, share };
    return share;
  }

  count(units: number): void {
    for (const usage of this.#windows) usage.pending += units;
    this.#unitsSince += units;
  }

  /** Passes the units in each shared window to `to`, and counts them in its total from now on. */
  send(exchange: number, to: (usage: WindowUsage, added: number) => void): void {
    for (const usage of [...this.#pastDays, ...this.#windows]) {
      if (usage.window.windowS < SHARED_WINDOW_S_MIN) continue;
      const { pending } = usage;
      usage.total += pending;
      usage.pending = 0;
      to(usage, pending);
    }
    this.#isSending = true;
    this.#sentWith = exchange;
    this.#unitsSince = 0;
  }

  /** Notes that the database has what was sent. */
  sent(): void {
    this.#isSending = false;
    if (this.#pastDays.length > 0) this.#pastDays = this.#pastDays.filter(({ pending }) => pending > 0);
  }
}
