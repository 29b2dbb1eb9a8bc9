// What is counted in one window of time. There is what all processes had when last told, with what this one has sent, and
// this one's units since: together never more than there were, so nobody is refused too early.

import type { Calendar, Period, Window } from '../ground/limits/rates.ts';

export interface WindowUsage {
  readonly window: Window;
  /** Units of all processes, as last told, with what this one has sent. */
  total: number;
  /** Units of this process that are not in `total`. */
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

/** Returns the same, or a new one if its window is over. */
export function currentWindow(usage: WindowUsage, calendar: Calendar): WindowUsage {
  const { period } = usage.window;
  return calendar(period) === usage.window ? usage : beginWindow(period, calendar);
}

/** Takes over a total, which may lack what was sent. If it is less, the next one that has all of that decides. */
export function raiseTotal(usage: WindowUsage, total: number): void {
  if (total < usage.total) usage.isInDoubt = true;
  else usage.total = total;
}

/** Takes over a total that has all that was sent. It falls only where there is a doubt: what was counted was removed. */
export function settleTotal(usage: WindowUsage, total: number): void {
  usage.total = usage.isInDoubt ? total : Math.max(usage.total, total);
  usage.isInDoubt = false;
}
