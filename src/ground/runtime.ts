// Clock, timers, randomness and SHA-256, injected so that tests can control them, and the formatting and parsing of times
// and durations.

export interface Clock {
  /** Milliseconds since the Unix epoch, for times that are stored and shown. May step. */
  nowMs(): number;
  /** Milliseconds from some fixed start, for deadlines, windows and ages. Never steps back; may not count sleep. */
  monotonicMs(): number;
  /** Runs `run` once, `ms` from now. Stands still while the machine sleeps. */
  after(ms: number, run: () => void): Cancel;
}

/** Cancels. May be called at any time, and repeatedly. */
export type Cancel = () => void;

/** Returns `count` bytes from a CSPRNG. */
export type RandomBytes = (count: number) => Uint8Array;

/** Computes SHA-256 (FIPS 180-4) of a text's UTF-8 bytes. Bun's own loads and runs faster than node:crypto's. */
export type Sha256 = (text: string, encoding: 'hex' | 'base64url') => string;

/**
 * Creates connections that a `fetch` takes as `client`: over HTTP/1.1, in which one that dies silently is left by the request
 * that times out. Undefined where the runtime does so anyway, and opens a new one without `keepalive`.
 */
export type CreateHttpClient = () => { close(): void } | undefined;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

export const systemRandom: RandomBytes = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Shorter sleeps are ignored. Above a wall clock's granularity (16 ms), below RESPONSE_MS of keys/feed.ts (25 ms). */
const UNNOTICED_MS_MAX = 20;

/**
 * Returns `clock` with a monotonic time that also counts the time a machine sleeps, for ages that must not exceed a bound.
 * CLOCK_MONOTONIC, which both runtimes read, stands still during sleep, and so do timers. So it adds what the wall clock
 * gains on it: setting the wall clock forward makes everything older, too; setting it back changes nothing.
 */
export function countingSleep(clock: Clock): Clock {
  let sleptMs = 0;
  let leadMs = leadOf(clock); // how far the wall clock was ahead when last read

  function addSleep(): void {
    // Read twice: this thread may have been preempted between the two clocks.
    const nextLeadMs = Math.min(leadOf(clock), leadOf(clock));
    if (nextLeadMs - leadMs > UNNOTICED_MS_MAX) sleptMs += nextLeadMs - leadMs;
    leadMs = nextLeadMs;
  }

  return {
    nowMs: clock.nowMs,
    after: clock.after,
    monotonicMs() {
      const awakeMs = clock.monotonicMs();
      const nowLeadMs = clock.nowMs() - awakeMs;
      if (nowLeadMs - leadMs > UNNOTICED_MS_MAX) addSleep();
      else leadMs = nowLeadMs;
      return awakeMs + sleptMs;
    },
  };
}

function leadOf(clock: Clock): number {
  const awakeMs = clock.monotonicMs(); // read first: preemption in between can only add
  return clock.nowMs() - awakeMs;
}

export const MS_PER_HOUR = 60 * 60 * 1000;
export const MS_PER_DAY = 24 * MS_PER_HOUR;

const UNITS_MS = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', MS_PER_HOUR],
  ['d', MS_PER_DAY],
]);

/** Formats a duration in the largest unit that divides it: `90s`, `1h`. */
export function formatDuration(ms: number): string {
  const [unit, unitMs] = [...UNITS_MS].findLast(([, size]) => ms % size === 0) ?? ['s', 1000];
  return `${ms / unitMs}${unit}`;
}

/** Parses `<n>s`, `m`, `h` or `d` to milliseconds; null for anything else, including zero. */
export function parseDuration(text: string): number | null {
  const [, count, unit] = /^(\d{1,8})([smhd])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS_MS.get(unit ?? '') ?? 0);
  return ms > 0 ? ms : null;
}

const FIRST_MS = Date.parse('0000-01-01T00:00:00.000Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** Formats a time in UTC with milliseconds. Years beyond RFC 3339, typed by hand, become the first or last time. */
export const rfc3339 = (ms: number): string => new Date(Math.min(Math.max(ms, FIRST_MS), LAST_MS)).toISOString();

// These wait in real time unless a clock is given: sockets, disks and threads don't follow a test's clock.

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => void systemClock.after(ms, resolve));

/** Resolves in the next turn of the event loop, after I/O that has arrived by then. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Resolves like `promise`, or to `fallback` after `ms`. */
export async function withTimeout<T, Fallback>(
  promise: Promise<T>,
  ms: number,
  fallback: Fallback,
  clock = systemClock,
): Promise<T | Fallback> {
  let cancel: Cancel | undefined;
  const timeout = new Promise<Fallback>((resolve) => {
    cancel = clock.after(ms, () => resolve(fallback));
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    cancel?.();
  }
}
