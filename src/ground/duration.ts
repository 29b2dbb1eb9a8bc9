// Spans of time as people write them: `30s`, `5m`, `1h`, `7d`; and times as RFC 3339 has them.

export const MS_PER_HOUR = 60 * 60 * 1000;
export const MS_PER_DAY = 24 * MS_PER_HOUR;

const UNITS_MS = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', MS_PER_HOUR],
  ['d', MS_PER_DAY],
]);

/** As people write it, in the largest unit that it is a whole number of: `90s`, `1h`. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = [...UNITS_MS].findLast(([, size]) => ms % size === 0) ?? ['s', 1000];
  return `${ms / unitMs}${unit}`;
}

/** `<n>s`, `m`, `h` or `d` in milliseconds; null for anything else, zero included. */
export function parseDuration(text: string): number | null {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS_MS.get(unit ?? '') ?? 0);
  return ms > 0 ? ms : null;
}

const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** In UTC with milliseconds. A time that was typed by hand, beyond RFC 3339's years, becomes the first or last one. */
export const rfc3339 = (ms: number): string => new Date(Math.min(Math.max(ms, FIRST_MS), LAST_MS)).toISOString();
