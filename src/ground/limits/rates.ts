// Counts events over time: fixed windows in UTC aligned to the Unix epoch, with counters for one process (uses/ counts
// keys' windows for all), and token buckets.

import { createLruCache } from '../cache.ts';
import type { RateLimit } from '../rate-limit.ts';
import { type Clock, MS_PER_DAY } from '../runtime.ts';

export const DAY_S = MS_PER_DAY / 1000;

export const windowAt = (ms: number, windowS: number): number => Math.floor(ms / (windowS * 1000));

export const dayAt = (ms: number): number => windowAt(ms, DAY_S);

/** Returns the numbers of the first and the last day of a day's month. */
export function monthOf(day: number): { readonly first: number; readonly last: number } {
  const date = new Date(day * MS_PER_DAY);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return { first: dayAt(Date.UTC(year, month, 1)), last: dayAt(Date.UTC(year, month + 1, 1)) - 1 };
}

/** The length of a window: seconds, or a month. */
export type Period = number | 'month';

export interface Window {
  readonly period: Period;
  /** The length of the windows that are counted: a month is counted by the day. */
  readonly windowS: number;
  /** The number of the window, counted from the Unix epoch; for a month, that of its first day. */
  readonly first: number;
  /** The same number as `first`; for a month, that of its last day. */
  readonly last: number;
  readonly startsAtMs: number;
  readonly endsAtMs: number;
  /** Monotonic. Until then, a wall clock that is set back reopens no earlier window. */
  readonly overAtMs: number;
}

export const lengthS = ({ startsAtMs, endsAtMs }: Window): number => (endsAtMs - startsAtMs) / 1000;

export const contains = ({ startsAtMs, endsAtMs }: Window, ms: number): boolean => ms >= startsAtMs && ms < endsAtMs;

/** Returns whole seconds to its end, rounded up: at least 1, at most its length, however the wall clock was set. */
export const resetS = (window: Window, nowMs: number): number =>
  Math.max(1, Math.min(lengthS(window), Math.ceil((window.endsAtMs - nowMs) / 1000)));

/** Returns the current window of a length: one object for all who count in it. */
export type Calendar = (period: Period) => Window;

/** Window lengths cached. If one is evicted, a wall clock that is set back may reopen a window. */
const PERIODS_MAX = 10_000;

export function createCalendar(clock: Clock): Calendar {
  const current = createLruCache<Window>({ entries: PERIODS_MAX });
  return (period) => {
    const nowMs = clock.nowMs();
    const known = current.get(String(period));
    if (known !== undefined && !isOver(known, nowMs, clock)) return known;
    const window = windowOf(period, nowMs, clock.monotonicMs());
    current.set(String(period), window);
    return window;
  };
}

const isOver = (window: Window, nowMs: number, clock: Clock): boolean =>
  nowMs >= window.endsAtMs || (nowMs < window.startsAtMs && clock.monotonicMs() >= window.overAtMs);

function windowOf(period: Period, nowMs: number, monotonicMs: number): Window {
  const windowS = period === 'month' ? DAY_S : period;
  const number = windowAt(nowMs, windowS);
  const { first, last } = period === 'month' ? monthOf(number) : { first: number, last: number };
  const [startsAtMs, endsAtMs] = [first * windowS * 1000, (last + 1) * windowS * 1000];
  return { period, windowS, first, last, startsAtMs, endsAtMs, overAtMs: monotonicMs + endsAtMs - nowMs };
}

/** Buckets kept, about 10 MB. Beyond them, the least recently used may be evicted, and start again empty. */
const BUCKETS_MAX = 100_000;

/** Creates a counter of the calls of each bucket in this process. It counts a call unless the window is full. */
export function createWindowCounter({ requests, windowS }: RateLimit, clock: Clock) {
  const calendar = createCalendar(clock);
  const buckets = createLruCache<{ readonly window: Window; used: number }>({ entries: BUCKETS_MAX });
  return (name: string) => {
    const window = calendar(windowS);
    let bucket = buckets.get(name);
    if (bucket?.window !== window) {
      bucket = { window, used: 0 };
      buckets.set(name, bucket);
    }
    const isAdmitted = bucket.used < requests;
    if (isAdmitted) bucket.used += 1;
    return { isAdmitted, remaining: requests - bucket.used, resetS: resetS(window, clock.nowMs()) };
  };
}

export interface Rate {
  /** The capacity of a bucket; a new one is full. */
  readonly burst: number;
  readonly perS: number;
}

/** Buckets kept, about 2 MB. */
const TOKEN_BUCKETS_MAX = 10_000;

interface Bucket {
  tokens: number;
  /** Monotonic. */
  filledAtMs: number;
}

export type TokenBuckets = ReturnType<typeof createTokenBuckets>;

/** Creates token buckets. Beyond `TOKEN_BUCKETS_MAX`, the least recently used are evicted, and start again full. */
export function createTokenBuckets({ perS, burst }: Rate, clock: Clock) {
  const buckets = createLruCache<Bucket>({ entries: TOKEN_BUCKETS_MAX });

  function bucketOf(who: string): Bucket {
    const nowMs = clock.monotonicMs();
    const known = buckets.get(who);
    if (known === undefined) {
      const full: Bucket = { tokens: burst, filledAtMs: nowMs };
      buckets.set(who, full);
      return full;
    }
    known.tokens = Math.min(burst, known.tokens + ((nowMs - known.filledAtMs) / 1000) * perS);
    known.filledAtMs = nowMs;
    return known;
  }

  const waitIn = ({ tokens }: Bucket) => Math.max(0, 1 - tokens) / perS;

  return {
    /** Takes a token and returns 0; or takes none, and returns the seconds until there is one. */
    take(who: string): number {
      const bucket = bucketOf(who);
      const seconds = waitIn(bucket);
      if (seconds === 0) bucket.tokens -= 1;
      return seconds;
    },
    /** Returns what `take` would return, but takes nothing. */
    waitS: (who: string): number => waitIn(bucketOf(who)),
    /** Puts tokens that were not needed back into the bucket. */
    give(who: string, count: number): void {
      const bucket = bucketOf(who);
      bucket.tokens = Math.min(burst, bucket.tokens + count);
    },
  };
}

export interface SlidingRate {
  /** The most that is taken in any `inS` seconds. */
  readonly most: number;
  readonly inS: number;
}
