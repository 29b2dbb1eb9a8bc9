// Counts units in one window of time: the last known total of all processes, which includes what this one has sent, plus
// this process's units since. The sum never exceeds what was used, so nobody is refused too early.

import type { Calendar, Period, Window } from '../ground/limits/rates.ts';

export interface WindowUsage {
  readonly window: Window;
  /** The last known units of all processes, with what this one has sent. */
  total: number;
  /** Units of this process that aren't in `total`. */
  pending: number;
  /** Whether the database may have less than `total`. */
  isInDoubt: boolean;
}

export const unitsIn = ({ total, pending }: WindowUsage): number => total + pending;

export const beginWindow = (period: Period, calendar: Calendar): WindowUsage => ({
  window: calendar(period),
  total: 0,
  pending: 0,
  isInDoubt: false,
});

/** Returns the same window, or a new one if it is over. */
export function currentWindow(usage: WindowUsage, calendar: Calendar): WindowUsage {
  const { period } = usage.window;
  return calendar(period) === usage.window ? usage : beginWindow(period, calendar);
}

/** Takes over a total that has all that was sent. */
export function replaceTotal(usage: WindowUsage, total: number): void {
  usage.total = total;
  usage.isInDoubt = false;
}

/** Merges a total that may lack what was sent. A lower one is in doubt until the next that has all of it. */
export function raiseTotal(usage: WindowUsage, total: number): void {
  if (total < usage.total) usage.isInDoubt = true;
  else usage.total = total;
}

/** Merges the total of an exchange, which has all that was sent. It only falls when in doubt: if counts were deleted. */
export function settleTotal(usage: WindowUsage, total: number): void {
  usage.total = usage.isInDoubt ? total : Math.max(usage.total, total);
  usage.isInDoubt = false;
}
