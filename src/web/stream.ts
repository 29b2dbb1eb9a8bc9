// Streams responses that clients read over time: events, and texts too large to leave to the runtime. Each is sent in
// pieces as fast as its client reads; unread bytes count against a pool.

import { type Repeated, repeat } from '../ground/background.ts';
import type { Held, Pool } from '../ground/limits/pool.ts';
import type { Cancel, Clock } from '../ground/runtime.ts';
import { escapedUnit } from '../ground/text.ts';
import type { Log } from '../watch/log.ts';
import type { RequestContext } from './context.ts';
import { SECURITY_HEADERS } from './headers.ts';

/** The runtime sends texts up to this length, and keeps them until then. */
const SMALL_CHARS_MAX = 64 * 1024;
/** The size of a piece. With larger ones, Deno takes more bytes than the client reads. */
const PIECE_BYTES = 16 * 1024;
/** What each event stream may hold outside the pool, so that ordinary responses arrive even if others fill the pool. */
const OWN_BYTES = 16 * 1024;
/** While as many bytes are unread, progress is dropped. */
const OFFERED_BYTES_MAX = 64 * 1024;

const QUIET_MS_MAX = 15_000; // far below the 60 s after which proxies usually hang up

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: nginx would, too.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;
/** Where some clients end a line, too: Python's, with httpx-sse before 0.4.2. */
const OTHER_LINE_END = /[\u0085\u2028\u2029]/g;

/** Returns an event. Its data is JSON, or text in ASCII. */
export function eventText(event: string, data: string): string {
  // A line break in a field would let its writer forge events. The JSON text that is sent has none.
  if (LINE_END.test(event) || LINE_END.test(data)) throw new Error('line break in an event');
  return `event: ${event}\ndata: ${data.replace(OTHER_LINE_END, escapedUnit)}\n\n`;
}

const utf8 = new TextEncoder();

/** Creates the function that calls `check` once in a while, until what it returns is called. */
function createKeepAlive(clock: Clock, log: Log): (check: () => void) => Cancel {
  const checks = new Set<() => void>();
  const timer = { everyMs: QUIET_MS_MAX, clock, log, event: 'streams not kept alive' };
  let repeated: Repeated | undefined;
  return (check) => {
    checks.add(check);
    repeated ??= repeat(timer, async () => {
      for (const one of checks) one();
    });
    return () => {
      checks.delete(check);
      if (checks.size > 0) return;
      repeated?.stop();
      repeated = undefined;
    };
  };
}

export type Streams = ReturnType<typeof createStreams>;

/** Server-sent events (WHATWG HTML, "Server-sent events"). */
export type EventStream = ReturnType<Streams['open']>;

export function createStreams(pool: Pool, clock: Clock, log: Log) {
  const keepAlive = createKeepAlive(clock, log);
  return {
    /** Opens the stream that is the response to a request. `onEnd` runs when either side ends it. */
    open(context: RequestContext, onEnd?: () => void) {
      context.holdOpen(true);
      context.beginPart();
      let isOpen = true;
      let isStill = false;
      const body = new UnreadBody(pool, {
        ownBytes: OWN_BYTES,
        onCut(unreadBytes) {
          log.info('slow client cut off', { requestId: context.requestId, unreadBytes });
          body.end(); // an error would print a line to stderr on Deno
        },
        onMoved() {
          isStill = false;
        },
        onGone() {
          stopKeeping();
          end();
          context.endPart();
        },
      });
      const stopKeeping = keepAlive(() => {
        if (body.unreadBytes === 0) body.write(': keepalive\n\n');
        else if (isStill) body.end();
        else isStill = true;
      });

      function end(): void {
        if (!isOpen) return;
        isOpen = false;
        context.holdOpen(false); // after the response has ended, the connection would never get its idle timeout back
        onEnd?.();
      }

      /** Sends the event without waiting. Returns false, and sends nothing, if there is no room or the stream has ended. */
      const send = (event: string, data: string): boolean => isOpen && body.write(eventText(event, data));
      return {
        response: new Response(body.stream, { headers: EVENT_STREAM_HEADERS }),
        send,
        /** Sends the event, or drops it if the client has too much unread. */
        offer(event: string, data: string): void {
          if (body.unreadBytes < OFFERED_BYTES_MAX) send(event, data);
        },
        /** Ends the stream after the client has read what was sent. */
        close(): void {
          end();
          body.finish();
        },
        /** Ends the stream at once, and drops what is unread. */
        cut: (): void => body.end(),
      };
    },

    /** Creates a response with this body. Returns null if there is no room. */
    text(context: RequestContext, text: string, init: ResponseInit): Response | null {
      if (text.length <= SMALL_CHARS_MAX) return new Response(text, init);
      context.beginPart();
      const body = new UnreadBody(pool, {
        ownBytes: 0,
        onCut(unreadBytes) {
          log.info('slow client cut off', { requestId: context.requestId, unreadBytes });
          body.end(new Error('the client reads too slowly')); // the client must see that the response is incomplete
        },
        onGone: () => context.endPart(),
      });
      const response = body.write(text) ? new Response(body.stream, init) : null;
      if (response === null) body.end();
      else body.finish();
      return response;
    },
  };
}

interface BodyOptions {
  /** Unread bytes that don't count against the pool. */
  readonly ownBytes: number;
  readonly onCut: (unreadBytes: number) => void;
  readonly onMoved?: () => void;
  /** Runs once: just before the body ends, or when the client has left. */
  readonly onGone: () => void;
}

/** A body whose pieces wait until the client has read the earlier ones. */
class UnreadBody {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** The bytes of all pieces that the runtime has not taken completely. */
  unreadBytes = 0;
  readonly #options: BodyOptions;
  readonly #held: Held;
  #waiting: Uint8Array<ArrayBuffer>[] = [];
  /** The bytes of the first waiting piece that the runtime has taken. */
  #from = 0;
  /** True while the runtime has sent what it got, and waits for more. */
  #isPulled = false;
  #isFinished = false;
  /** Undefined once the body has ended. */
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;

  constructor(pool: Pool, options: BodyOptions) {
    this.#options = options;
    this.#held = pool(() => options.onCut(this.unreadBytes));
    this.stream = new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        start: (opened) => {
          this.#controller = opened;
        },
        pull: () => {
          this.#isPulled = true;
          this.#handOver();
        },
        cancel: () => this.#leave(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
    );
  }

  /** Adds the text. Returns false, and adds nothing, if there is no room or the body has ended. */
  write(text: string): boolean {
    // Encoding flattens a concatenated text, which takes as much memory again, so check a lower bound first.
    if (this.#controller === undefined || !this.#hasRoomFor(text.length)) return false;
    const bytes = utf8.encode(text);
    if (!this.#hasRoomFor(bytes.length)) {
      this.#releaseUnused();
      return false;
    }
    this.#waiting.push(bytes);
    this.unreadBytes += bytes.length;
    this.#handOver();
    return true;
  }

  /** Ends the body after the last piece is handed over. */
  finish(): void {
    this.#isFinished = true;
    this.#handOver();
  }

  /** Ends the body now, and drops what waits. */
  end(error?: Error): void {
    const open = this.#controller;
    this.#leave();
    if (error === undefined) open?.close();
    else open?.error(error);
  }

  #hasRoomFor(bytes: number): boolean {
    const { ownBytes } = this.#options;
    const all = this.unreadBytes + bytes;
    return all - this.#held.bytes <= ownBytes || this.#held.hold(all - ownBytes);
  }

  /** Releases to the pool what it holds beyond the unread bytes. */
  #releaseUnused(): void {
    this.#held.hold(Math.min(this.#held.bytes, Math.max(0, this.unreadBytes - this.#options.ownBytes)));
  }

  #handOver(): void {
    const [first] = this.#waiting;
    if (this.#isPulled && first !== undefined) this.#handOverOf(first);
    if (this.#isFinished && this.#waiting.length === 0) this.end();
  }

  #handOverOf(first: Uint8Array<ArrayBuffer>): void {
    this.#isPulled = false;
    const piece = first.length <= PIECE_BYTES ? first : first.slice(this.#from, this.#from + PIECE_BYTES);
    this.#from += piece.length;
    if (this.#from >= first.length) {
      this.#waiting.shift();
      this.#from = 0;
      this.unreadBytes -= first.length;
      this.#releaseUnused();
    }
    this.#held.moved(piece.length);
    this.#options.onMoved?.();
    this.#controller?.enqueue(piece);
  }

  #leave(): void {
    if (this.#controller === undefined) return;
    this.#controller = undefined;
    this.#waiting = [];
    this.unreadBytes = 0;
    this.#held.hold(0);
    this.#options.onGone();
  }
}
