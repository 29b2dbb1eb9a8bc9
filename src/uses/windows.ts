// The calendar of limits and quotas, in UTC. Pure. A window or day is known by its number, counted from the Unix epoch.

import { MS_PER_DAY } from '../lib/duration.ts';
import { memoize } from '../lib/memoize.ts';

export const DAY_S = MS_PER_DAY / 1000;

export const windowAt = (ms: number, windowS: number): number => Math.floor(ms / (windowS * 1000));

export const dayAt = (ms: number): number => windowAt(ms, DAY_S);

export interface Month {
  /** The number of its first day. */
  readonly firstDay: number;
  /** The first millisecond after it. */
  readonly endsAtMs: number;
  readonly lengthS: number;
}

/** The UTC month in which a day lies: one object, however many keys have it. */
export const monthOf = (day: number): Month => monthFrom(String(day));

const monthFrom = memoize((day: string): Month => {
  const date = new Date(Number(day) * MS_PER_DAY);
  const startsAtMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1);
  const endsAtMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
  return { firstDay: dayAt(startsAtMs), endsAtMs, lengthS: (endsAtMs - startsAtMs) / 1000 };
});

/** `2026-11-23`. */
export const dayText = (day: number): string => new Date(day * MS_PER_DAY).toISOString().slice(0, 10);
