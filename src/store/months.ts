// Selects the units of days (UTC) from key_months, where a row has a month of a holder, with a column for each day. A month
// has a number, by which months are ordered: 12 for each year, and one for each month before it in the year.

import { MS_PER_DAY } from '../ground/runtime.ts';

/** The columns of the days of a month. */
const COLUMNS = Array.from({ length: 31 }, (_, at) => `d${at + 1}`);

/** A day as its month has it. */
interface DayOfMonth {
  readonly month: number;
  /** 1 to 31. */
  readonly date: number;
}

/** Returns the month of a day that is counted from 1970. */
export function dayOfMonth(day: number): DayOfMonth {
  const date = new Date(day * MS_PER_DAY);
  return { month: date.getUTCFullYear() * 12 + date.getUTCMonth(), date: date.getUTCDate() };
}

const dayOf = ({ month, date }: DayOfMonth): number => Date.UTC(Math.floor(month / 12), month % 12, date) / MS_PER_DAY;

export const columnOf = ({ date }: DayOfMonth): string => `d${date}`;

/** All days of a row together. */
export const WHOLE = COLUMNS.join(' + ');

/** Selects the units of a row's day with this date; `otherwise`: without a date. */
export const unitsOn = (date: string, otherwise = 'NULL'): string =>
  `CASE ${date} ${COLUMNS.map((column, at) => `WHEN ${at + 1} THEN ${column}`).join(' ')} ELSE ${otherwise} END`;

/** Returns consecutive days, as a statement selects them. */
export function selectedDays(first: number, count: number) {
  const days = Array.from({ length: count }, (_, at) => dayOfMonth(first + at));
  const months = [...new Set(days.map(({ month }) => month))];
  return {
    /** A column for each day. */
    columns: days.map((day) => `m${day.month}.${columnOf(day)}`),
    /** The condition that there is any of these months. */
    isUsed: months.map((at) => `m${at}.row IS NOT NULL`).join(' OR '),
    /** Joins the months of the holder with this row: one row for each. */
    join: (row: string): string =>
      months.map((at) => `LEFT JOIN key_months m${at} ON m${at}.row = ${row} AND m${at}.month = ${at}`).join('\n'),
  };
}

/** Selects the units of key `k` from one day to another, both included; NULL: it was never used. */
export function unitsBetween(from: number, to: number): string {
  const [first, last] = [dayOfMonth(from), dayOfMonth(to)];
  const some = (start: number, end?: number) => COLUMNS.slice(start, end).join(' + ');
  const units =
    first.month === last.month
      ? some(first.date - 1, last.date)
      : `CASE month WHEN ${first.month} THEN ${some(first.date - 1)} WHEN ${last.month} THEN ${some(0, last.date)} ELSE ${WHOLE} END`;
  return `(SELECT sum(${units}) FROM key_months WHERE row = k.row AND month BETWEEN ${first.month} AND ${last.month})`;
}

const FIRST_DATE = `CASE ${COLUMNS.map((column, at) => `WHEN ${column} > 0 THEN ${at + 1}`).join(' ')} END`;

/** Selects the first day on which a holder has used anything, as `dayIn` reads it; NULL: there is none. */
export const firstDayOf = (row: string): string =>
  `(SELECT min(month * 32 + ${FIRST_DATE}) FROM key_months WHERE row = ${row})`;

/** Returns the day that `firstDayOf` has selected. */
export const dayIn = (selected: number): number => dayOf({ month: Math.floor(selected / 32), date: selected % 32 });
