// Writes the log: one JSON object per line, buffered and redacted, to the caller's `write`. Throttles lines that callers
// can cause at will.

import { createLruCache } from '../ground/cache.ts';
import { createTokenBuckets, type Rate } from '../ground/limits/rates.ts';
import type { Clock } from '../ground/runtime.ts';
import { withoutHalves } from '../ground/text.ts';
import type { InfoEvent, LogEvent, WarnEvent } from './events.ts';
import { hasHash, redact, redactHashes, redactKeys, redactsForeign } from './redact.ts';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
type LogLevel = (typeof LOG_LEVELS)[number];
const INFO = LOG_LEVELS.indexOf('info');
/** `error` may be anything thrown; an Error is logged with its stack. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Identifies a request, and its trace if any. Both are ASCII, need no escape in JSON, and hold no secret. */
export interface RequestIds {
  readonly requestId: string;
  /** The id of the caller's trace (calls/call.ts), if it sent one. */
  readonly traceId?: string | undefined;
}

/** Logs a line for a request about one of many things. `name` and `owner` together distinguish all that have other fields. */
export type LogRepeated<Thing> = (ids: RequestIds, name: string, owner: string, thing: Thing) => void;

/** Takes a chunk of whole lines; resolves when the chunk has left the process. */
export type LogWrite = (chunk: Uint8Array) => Promise<void>;

/** An event that has not occurred for this long is over, and is logged again. */
const OVER_AFTER_MS = 60_000;
/** The fields that `repeated` caches per event: some 200 bytes each. */
const REPEATED_MAX = 10_000;
/** An upper bound for the bytes of a request's ids in a line. */
const IDS_BYTES_MAX = 256;

const utf8 = new TextEncoder();

export type Log = ReturnType<typeof createLog>;

export function createLog(options: { level: LogLevel; clock: Clock; write: LogWrite }) {
  const least = LOG_LEVELS.indexOf(options.level);
  const throttle = createThrottle(options.clock);
  const metAtMs = new Map<string, number>(); // bounded: the program has few events and parts
  const stamp = createStamp(options.clock);
  const writer = new LineWriter(options.write, (count): void => line('warn', 'log lines dropped', { count }));

  function line(level: LogLevel, event: LogEvent, fields: LogFields = {}): void {
    if (LOG_LEVELS.indexOf(level) < least) return;
    // Info lines keep a bare hash: there it can only be a user id, as some issuers have them.
    const json = encodeFields(fields);
    const text = level !== 'info' && hasHash(json) ? encodeFields(fields, withoutHashes) : json;
    // Callers pass no secrets, but a library's error may quote one, and a scope or user id may be one.
    const bytes = utf8.encode(redactKeys(beginning(stamp(), level, event) + ending(text)));
    if (writer.begin(bytes.length)) writer.add(bytes);
  }

  /** Returns a function that logs an event of nearly every call. It makes, encodes and redacts the fields once. */
  function repeated<Thing>(event: InfoEvent, fieldsOf: (thing: Thing) => LogFields): LogRepeated<Thing> {
    const endings = createLruCache<{ readonly owner: string; readonly bytes: Uint8Array }>({ entries: REPEATED_MAX });
    let begunAt = '';
    let begun = new Uint8Array();

    function endingOf(name: string, owner: string, thing: Thing): Uint8Array {
      const known = endings.get(name);
      if (known?.owner === owner) return known.bytes;
      const bytes = utf8.encode(`"${redactKeys(ending(encodeFields(fieldsOf(thing))))}`);
      endings.set(name, { owner, bytes });
      return bytes;
    }

    return (ids, name, owner, thing) => {
      if (INFO < least) return;
      const { requestId, traceId } = ids;
      if (redactsForeign()) return line('info', event, { requestId, traceId, ...fieldsOf(thing) });
      const end = endingOf(name, owner, thing);
      const at = stamp();
      if (at !== begunAt) {
        begunAt = at;
        begun = utf8.encode(`${beginning(at, 'info', event)},"requestId":"`);
      }
      if (!writer.begin(begun.length + IDS_BYTES_MAX + end.length)) return;
      writer.add(begun);
      writer.addAscii(requestId);
      if (traceId !== undefined) writer.addAscii(`","traceId":"${traceId}`);
      writer.add(end);
    };
  }

  return {
    info: (event: InfoEvent, fields?: LogFields): void => line('info', event, fields),
    warn: (event: WarnEvent, fields?: LogFields): void => line('warn', event, fields),
    error: (event: LogEvent, fields?: LogFields): void => line('error', event, fields),
    /**
     * Warns about what a caller can cause at will: at most one line a second per bucket, and 100 in all. `suppressed`
     * counts the lines left out since the bucket's last.
     */
    warnThrottled(event: WarnEvent, bucket: string, fields: LogFields): void {
      const suppressed = throttle(`${event} ${bucket}`);
      if (suppressed !== null) line('warn', event, { ...fields, suppressed });
    },
    /**
     * Warns about what every caller meets during an outage: one line, and the next after a minute without the event. `of`
     * names one of the few parts that fail on their own.
     */
    warnOnce(event: WarnEvent, fields: LogFields, of = ''): void {
      const nowMs = options.clock.monotonicMs();
      const met = `${event} ${of}`;
      const lastMs = metAtMs.get(met) ?? Number.NEGATIVE_INFINITY;
      metAtMs.set(met, nowMs);
      if (nowMs - lastMs >= OVER_AFTER_MS) line('warn', event, fields);
    },
    repeated,
    /** Writes everything buffered and resolves when it has left the process. */
    flush: (): Promise<void> => writer.flush(),
  };
}

/** Creates a function that returns the time in ISO 8601, cached because many lines share a millisecond. */
function createStamp(clock: Clock): () => string {
  let stampMs = -1;
  let stamp = '';
  return () => {
    const nowMs = clock.nowMs();
    if (nowMs !== stampMs) {
      stampMs = nowMs;
      stamp = new Date(nowMs).toISOString();
    }
    return stamp;
  };
}

const beginning = (time: string, level: LogLevel, event: LogEvent): string =>
  `{"time":"${time}","level":"${level}","event":"${event}"`;

/** Returns the rest of a line, from the JSON of its fields. */
const ending = (json: string): string => `${json === '{}' ? '' : ','}${json.slice(1)}\n`;

/** Redacts hashes before the text is escaped: the letter of an escape (`\n`, `\b`) would look like part of the hash. */
const withoutHashes = (_name: string, value: unknown) => (typeof value === 'string' ? redactHashes(value) : value);

/** Returns fields as JSON. Never throws, whatever a tool has thrown or put into its caller's identity. */
function encodeFields(fields: LogFields, replacer?: typeof withoutHashes): string {
  try {
    const shown = 'error' in fields ? { ...fields, error: shownError(fields.error) } : fields;
    return withoutHalves(JSON.stringify(shown, replacer));
  } catch {
    const shown = Object.entries(fields).map(([name, value]) => [name, withJsonForm(value)]);
    return withoutHalves(JSON.stringify(Object.fromEntries(shown), replacer));
  }
}

/** What JSON leaves out; but a line must say what was thrown, be it nothing. */
const LEFT_OUT: readonly string[] = ['undefined', 'symbol', 'function'];

function shownError(thrown: unknown): unknown {
  if (thrown instanceof Error) return textOf(thrown);
  if (typeof thrown === 'string') return withoutMiddle(thrown);
  return LEFT_OUT.includes(typeof thrown) ? `thrown: ${typeof thrown}` : thrown;
}

/** Returns an Error as text, because JSON encodes it as {}. */
const textOf = (error: Error) => withoutMiddle(String(error.stack ?? error));

/** The most characters of either end of a text that was thrown. Twice as many are still searched for encoded secrets. */
const END_CHARS_MAX = 16 * 1024;

/**
 * Returns a text without the middle of a long one: a tool's error may quote all that a caller has sent. The beginning says
 * what happened, the end where. Redacts the whole text before it cuts: half a secret matches no pattern, and would come
 * into the part that is kept as soon as other secrets beside it have become shorter.
 */
function withoutMiddle(text: string): string {
  if (text.length <= 2 * END_CHARS_MAX) return text;
  const left = redact(text);
  if (left.length <= 2 * END_CHARS_MAX) return left;
  const begins = redactKeys(left.slice(0, 2 * END_CHARS_MAX)).slice(0, END_CHARS_MAX);
  const ends = redactKeys(left.slice(-2 * END_CHARS_MAX)).slice(-END_CHARS_MAX);
  return `${begins} … ${ends}`;
}

function withJsonForm(value: unknown): unknown {
  try {
    return value instanceof Error ? textOf(value) : JSON.parse(JSON.stringify(value) ?? 'null');
  } catch {
    return `${typeof value} without a JSON form`;
  }
}

// Throttles what callers can cause at will: one line a second per bucket (a key, an address), and 100 in all.

const EVERY_MS = 1000;
/** The limit for all buckets together. A flood from many addresses must not bury the rest of the log. */
const LINES: Rate = { perS: 100, burst: 100 };
/** Cached buckets, about 2 MB. An evicted one starts from zero. */
const BUCKETS_MAX = 10_000;

interface Bucket {
  /** Monotonic. */
  readonly loggedAtMs: number;
  readonly suppressed: number;
}

/** Creates a function that returns how many lines were left out since the bucket's last; null: leave out this one, too. */
function createThrottle(clock: Clock) {
  const buckets = createLruCache<Bucket>({ entries: BUCKETS_MAX });
  const lines = createTokenBuckets(LINES, clock);
  return (name: string): number | null => {
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

// Buffers lines as bytes and writes them in chunks. As a text they would take no less time, and some 200 bytes more garbage at
// nearly every call.

/** A line waits at most this long: short enough to watch, long enough for thousands of lines to share one write. */
const FLUSH_AFTER_MS = 50;
/** A write starts once this many bytes are buffered. */
const CHUNK_BYTES = 64 * 1024;
/** Buffered for a slow reader. Beyond it, lines are dropped and counted. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;

const LINE_FEED = 10;

class LineWriter {
  readonly #write: LogWrite;
  readonly #onDropped: (count: number) => void;
  readonly #chunk = new Uint8Array(CHUNK_BYTES);
  #used = 0;
  /** Bytes passed to `write` that have not left the process. */
  #pendingBytes = 0;
  #dropped = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();

  /** Creates the writer. It calls `onDropped` with the number of dropped lines once there is room again. */
  constructor(write: LogWrite, onDropped: (count: number) => void) {
    this.#write = write;
    this.#onDropped = onDropped;
  }

  /** Begins a line of at most this many bytes for `add` and `addAscii`. Returns false if it is dropped, and counts it. */
  begin(bytes: number): boolean {
    if (this.#used + this.#pendingBytes > WAITING_BYTES_MAX) {
      this.#dropped += 1;
      return false;
    }
    if (this.#used + bytes > CHUNK_BYTES) void this.flush();
    this.#timer ??= setTimeout(() => this.flush(), FLUSH_AFTER_MS);
    return true;
  }

  add(bytes: Uint8Array): void {
    if (this.#used + bytes.length > CHUNK_BYTES) {
      void this.flush(); // what the line begins with
      return void this.#handOver(bytes);
    }
    this.#chunk.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  addAscii(text: string): void {
    const { length } = text;
    for (let at = 0; at < length; at += 1) this.#chunk[this.#used + at] = text.charCodeAt(at);
    this.#used += length;
  }

  /** Writes what is buffered. Resolves when everything has left the process. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#used === 0) return this.#writing;
    const chunk = this.#chunk.slice(0, this.#used);
    this.#used = 0;
    return this.#handOver(chunk);
  }

  #handOver(chunk: Uint8Array): Promise<void> {
    this.#pendingBytes += chunk.length;
    this.#writing = this.#writing
      .then(() => this.#write(chunk))
      .then(
        () => this.#handedOver(chunk),
        () => this.#lost(chunk),
      );
    return this.#writing;
  }

  #handedOver(chunk: Uint8Array): void {
    this.#pendingBytes -= chunk.length;
    const dropped = this.#dropped;
    if (dropped === 0 || this.#pendingBytes > 0) return;
    this.#dropped = 0;
    this.#onDropped(dropped);
  }

  /** Counts lines that could not be written: the disk of the log is full, or stdout is closed. */
  #lost(chunk: Uint8Array): void {
    this.#pendingBytes -= chunk.length;
    this.#dropped += chunk.filter((byte) => byte === LINE_FEED).length;
  }
}
