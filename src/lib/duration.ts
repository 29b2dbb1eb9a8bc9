// Spans of time as people write them: `30s`, `5m`, `1h`, `7d`.

const UNITS_MS = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
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
