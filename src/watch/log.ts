// The log: one JSON object per line, buffered and redacted. The caller's `write` says where the lines go. Lines that
// callers can cause at will are limited.

import { createLruCache } from '../ground/cache.ts';
import { createTokenBuckets, type Rate } from '../ground/limits/rates.ts';
import type { Clock } from '../ground/runtime.ts';
import type { InfoEvent, LogEvent, WarnEvent } from './events.ts';
import { hasHash, redactHashes, redactKeys } from './redact.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];
/** `error` takes whatever was thrown; an Error is shown with its stack. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  info(event: InfoEvent, fields?: LogFields): void;
  warn(event: WarnEvent, fields?: LogFields): void;
  error(event: LogEvent, fields?: LogFields): void;
  /**
   * Warns of what a caller can cause at will: at most one line a second for each bucket, and 100 in all.
   * `suppressed` counts those left out since the bucket's last.
   */
  warnThrottled(event: WarnEvent, bucket: string, fields: LogFields): void;
  /**
   * Warns of what every caller meets during an outage: one line, and the next after a minute without the event. `of`
   * names one of the few parts that have an outage of their own.
   */
  warnOnce(event: WarnEvent, fields: LogFields, of?: string): void;
  /** Hands everything buffered to `write` and resolves when it was taken. */
  flush(): Promise<void>;
}

/** Takes a chunk of whole lines; resolves when the chunk has left the process. */
export type LogWrite = (chunk: Uint8Array) => Promise<void>;

/** A line waits at most this long: short enough to watch, long enough for thousands of lines to share one write. */
const FLUSH_AFTER_MS = 50;
/** Once this many characters wait, a write starts. */
const FLUSH_AT_CHARS = 64 * 1024;
/** An event that has not occurred for this long is over: the next one is a new line. */
const OVER_AFTER_MS = 60_000;
/** Kept for a slow reader. Beyond this, lines are dropped and counted. */
const BUFFER_BYTES_MAX = 8 * 1024 * 1024;

export function createLog(options: { level: LogLevel; clock: Clock; write: LogWrite }): Log {
  const least = LOG_LEVELS.indexOf(options.level);
  const throttle = createThrottle(options.clock);
  const metAtMs = new Map<string, number>(); // by event, of which the program has a few, and by tool
  let lines = '';
  const utf8 = new TextEncoder();
  let pendingBytes = 0; // handed to `write`, not taken yet
  let dropped = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let writing: Promise<void> = Promise.resolve();
  let stampMs = -1;
  let stamp = '';

  function send(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    if (lines === '') return writing;
    // No caller passes secrets, but a library's error may quote one, and a scope or user id may be one. The whole chunk
    // is searched at once, which costs hardly more than searching one line.
    const chunk = utf8.encode(redactKeys(lines));
    lines = '';
    pendingBytes += chunk.byteLength;
    writing = writing
      .then(() => options.write(chunk))
      .catch(() => {}) // stdout is closed
      .then(() => {
        pendingBytes -= chunk.byteLength;
        if (dropped > 0 && pendingBytes === 0) {
          const lost = dropped;
          dropped = 0;
          line('warn', 'log lines dropped', { count: lost });
        }
      });
    return writing;
  }

  function line(level: LogLevel, event: LogEvent, fields: LogFields = {}): void {
    if (LOG_LEVELS.indexOf(level) < least) return;
    // Characters and bytes are added: few characters gather before they are handed over.
    if (lines.length + pendingBytes > BUFFER_BYTES_MAX) {
      dropped += 1;
      return;
    }
    const nowMs = options.clock.nowMs();
    if (nowMs !== stampMs) {
      stampMs = nowMs;
      stamp = new Date(nowMs).toISOString();
    }
    // On info lines a bare hash stays: there it can only be a user id, as some issuers have them.
    const json = encoded(fields);
    const members = level !== 'info' && hasHash(json) ? encoded(fields, withoutHashes) : json;
    lines += `{"time":"${stamp}","level":"${level}","event":"${event}"${members === '{}' ? '' : ','}${members.slice(1)}\n`;
    if (lines.length >= FLUSH_AT_CHARS) void send();
    else timer ??= setTimeout(send, FLUSH_AFTER_MS);
  }

  return {
    info: (event, fields) => line('info', event, fields),
    warn: (event, fields) => line('warn', event, fields),
    error: (event, fields) => line('error', event, fields),
    warnThrottled(event, bucket, fields) {
      const suppressed = throttle(`${event} ${bucket}`);
      if (suppressed !== null) line('warn', event, { ...fields, suppressed });
    },
    warnOnce(event, fields, of = '') {
      const nowMs = options.clock.monotonicMs();
      const met = `${event} ${of}`;
      const lastMs = metAtMs.get(met) ?? Number.NEGATIVE_INFINITY;
      metAtMs.set(met, nowMs);
      if (nowMs - lastMs >= OVER_AFTER_MS) line('warn', event, fields);
    },
    flush: send,
  };
}

/**
 * Redacts hashes before a text is encoded: the letter of an escape (`\n`, `\b`) would look like a part of the hash
 * after it.
 */
const withoutHashes = (_name: string, value: unknown) => (typeof value === 'string' ? redactHashes(value) : value);

/**
 * Returns the JSON text of any value that a tool has thrown or put into its caller's identity, because the log never
 * throws.
 */
function encoded(fields: LogFields, replacer?: typeof withoutHashes): string {
  try {
    const shown = fields.error instanceof Error ? { ...fields, error: textOf(fields.error) } : fields;
    return JSON.stringify(shown, replacer);
  } catch {
    const shown = Object.entries(fields).map(([name, value]) => [name, withJsonForm(value)]);
    return JSON.stringify(Object.fromEntries(shown), replacer);
  }
}

/** Returns an Error as text, because JSON prints it as {}. */
const textOf = (error: Error) => String(error.stack ?? error);

function withJsonForm(value: unknown): unknown {
  try {
    return value instanceof Error ? textOf(value) : JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return `${typeof value} without a JSON form`;
  }
}

// What callers can cause at will: one line a second for each bucket (a key, an address), and 100 in all.

const EVERY_MS = 1000;
/** The lines of all buckets together. A flood from many addresses must not bury the rest of the log. */
const LINES: Rate = { perS: 100, burst: 100 };
/** Buckets remembered, about 2 MB. One that was evicted counts from zero. */
const BUCKETS_MAX = 10_000;

interface Bucket {
  /** Monotonic. */
  readonly loggedAtMs: number;
  readonly suppressed: number;
}

/** Returns the number of lines left out since the bucket's last; null: this one is left out too. */
type Throttle = (bucket: string) => number | null;

function createThrottle(clock: Clock): Throttle {
  const buckets = createLruCache<Bucket>({ entries: BUCKETS_MAX });
  const lines = createTokenBuckets(LINES, clock);
  return (name) => {
    const nowMs = clock.monotonicMs();
    const { loggedAtMs, suppressed } = buckets.get(name) ?? { loggedAtMs: Number.NEGATIVE_INFINITY, suppressed: 0 };
    if (nowMs - loggedAtMs < EVERY_MS || lines.take('all') > 0) {
      buckets.set(name, { loggedAtMs, suppressed: suppressed + 1 });
      return null;
    }
    buckets.set(name, { loggedAtMs: nowMs, suppressed: 0 });
    return suppressed;
  };
}
