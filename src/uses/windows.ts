// Counts units in one window of time: the last known total of all processes, which includes what this one has sent, plus
// this process's units since. The sum never exceeds what was used, so nobody is refused too early.

import type { Calendar, Period, Window } from '../ground/limits/rates.ts';

export interface WindowUsage {
  readonly window: Window;
  /** The last known units of all processes, with what this one has sent. */
  total: number;
  /** Units of this process that aren't in `total`. */
  pending: number;
}

export const unitsIn = ({ total, pending }: WindowUsage): number => total + pending;

export const beginWindow = (period: Period, calendar: Calendar): WindowUsage => ({
  window: calendar(period),
  total: 0,
  pending: 0,
});

/** Returns the same window, or a new one if it is over. */
export function currentWindow(usage: WindowUsage, calendar: Calendar): WindowUsage {
  const { period } = usage.window;
  return calendar(period) === usage.window ? usage : beginWindow(period, calendar);
}
