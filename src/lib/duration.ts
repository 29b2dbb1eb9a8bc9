// Spans of time as people write them: `30s`, `5m`, `1h`, `7d`.

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
