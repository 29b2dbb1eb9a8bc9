// Responses that clients read over time: event streams, and texts too large to be left to the runtime. Each is handed
// over in pieces, as fast as its client reads; what waits counts against the pool of what is unread.

import { every } from '../ground/background.ts';
import type { Pool } from '../ground/limits/pool.ts';
import type { Cancel, Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';
import type { RequestContext } from './context.ts';
import { SECURITY_HEADERS } from './headers.ts';

/** Server-sent events (WHATWG HTML, "Server-sent events"). */
export interface EventStream {
  readonly response: Response;
  /** Never waits. False, with nothing sent, when there is no room for the event, or the stream has ended. */
  send(event: string, data: string): boolean;
  /** As `send`, but dropped unless the client keeps up. */
  offer(event: string, data: string): void;
  /** Ends the stream. What was sent still reaches the client. */
  close(): void;
  /** Ends it at once, and drops what is unread. */
  cut(): void;
}

export interface Streams {
  /** Opens the stream that is the response to a request. `onEnd` runs when either side ends it. */
  open(context: RequestContext, onEnd?: () => void): EventStream;
  /** A response with this body; null, with nothing sent, when there is no room. */
  text(context: Pick<RequestContext, 'extend' | 'requestId'>, text: string, init: ResponseInit): Response | null;
}

/** Texts up to this length are left to the runtime, which keeps them until they are sent. */
const SMALL_CHARS_MAX = 64 * 1024;
/** Of larger pieces, Deno takes more bytes than the client reads. */
const PIECE_BYTES = 16 * 1024;
/** Of each event stream outside the pool, so that ordinary responses arrive even when others use all of it. */
const OWN_BYTES = 16 * 1024;
/** With more for small events, such as the error in place of one that found no room. */
const OWN_BYTES_FOR_SMALL = OWN_BYTES + 8 * 1024;
const SMALL_BYTES_MAX = 1024;
/** Above this, progress is dropped. */
const OFFERED_BYTES_MAX = 64 * 1024;

const QUIET_MS_MAX = 15_000; // far below the 60 s after which proxies usually hang up

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: so would nginx.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;

export function eventText(event: string, data: string): string {
  // A line break in a field would let its writer forge events. JSON text, which is what is sent, has none.
  if (LINE_END.test(event) || LINE_END.test(data)) throw new Error('line break in an event');
  return `event: ${event}\ndata: ${data}\n\n`;
}

const utf8 = new TextEncoder();

export function createStreams(pool: Pool, clock: Clock, log: Log): Streams {
  const keptAlive = new Set<() => void>();
  const looks = { everyMs: QUIET_MS_MAX, clock, log, event: 'streams not kept alive' };
  let stopLooking: Cancel | undefined;

  function keepAlive(look: () => void): Cancel {
    keptAlive.add(look);
    stopLooking ??= every(looks, () => {
      for (const one of keptAlive) one();
    });
    return () => {
      keptAlive.delete(look);
      if (keptAlive.size > 0) return;
      stopLooking?.();
      stopLooking = undefined;
    };
  }

  return {
    open(context, onEnd) {
      context.holdOpen(true);
      const over = context.extend();
      let isOpen = true;
      let isStill = false;
      const body = openBody(pool, {
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
          over();
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

      const send = (event: string, data: string) => isOpen && body.write(eventText(event, data));
      return {
        response: new Response(body.stream, { headers: EVENT_STREAM_HEADERS }),
        send,
        offer(event, data) {
          if (body.unreadBytes < OFFERED_BYTES_MAX) send(event, data);
        },
        close() {
          end();
          body.finish();
        },
        cut: () => body.end(),
      };
    },

    text(context, text, init) {
      if (text.length <= SMALL_CHARS_MAX) return new Response(text, init);
      const over = context.extend();
      const body = openBody(pool, {
        ownBytes: 0,
        onCut(unreadBytes) {
          log.info('slow client cut off', { requestId: context.requestId, unreadBytes });
          body.end(new Error('the client reads too slowly')); // it must see that something is missing
        },
        onGone: over,
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

function openBody(pool: Pool, { ownBytes, onCut, onMoved, onGone }: BodyOptions) {
  const held = pool(() => onCut(unreadBytes));
  const waiting: Uint8Array<ArrayBuffer>[] = [];
  let from = 0; // of the first that waits, so much was handed over
  let unreadBytes = 0; // of all that are not completely handed over
  let heldBytes = 0;
  let isWanted = false; // the runtime has sent what it was given, and waits for more
  let isFinished = false;
  let controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;

  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(opened) {
        controller = opened;
      },
      pull() {
        isWanted = true;
        handOver();
      },
      cancel: leave,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
  );

  function hold(bytes: number): boolean {
    if (!held.hold(bytes)) return false;
    heldBytes = bytes;
    return true;
  }

  function hasRoomFor(bytes: number): boolean {
    const all = unreadBytes + bytes;
    const own = ownBytes > 0 && bytes <= SMALL_BYTES_MAX ? OWN_BYTES_FOR_SMALL : ownBytes;
    return all - heldBytes <= own || hold(all - ownBytes);
  }

  function handOver(): void {
    const [first] = waiting;
    if (isWanted && first !== undefined) {
      isWanted = false;
      const piece = first.length <= PIECE_BYTES ? first : first.slice(from, from + PIECE_BYTES);
      from += piece.length;
      if (from >= first.length) {
        waiting.shift();
        from = 0;
        unreadBytes -= first.length;
        hold(Math.min(heldBytes, Math.max(0, unreadBytes - ownBytes)));
      }
      held.moved(piece.length);
      onMoved?.();
      controller?.enqueue(piece);
    }
    if (isFinished && waiting.length === 0) end();
  }

  function leave(): void {
    if (controller === undefined) return;
    controller = undefined;
    waiting.length = 0;
    unreadBytes = 0;
    hold(0);
    onGone();
  }

  function end(error?: Error): void {
    const open = controller;
    leave();
    if (error === undefined) open?.close();
    else open?.error(error);
  }

  return {
    stream,
    /** False, with nothing taken, when there is no room, or the body has ended. */
    write(text: string): boolean {
      // Encoding a concatenated text flattens it, which takes as much memory again: so first a lower bound.
      if (controller === undefined || !hasRoomFor(text.length)) return false;
      const bytes = utf8.encode(text);
      if (!hasRoomFor(bytes.length)) {
        hold(Math.min(heldBytes, Math.max(0, unreadBytes - ownBytes)));
        return false;
      }
      waiting.push(bytes);
      unreadBytes += bytes.length;
      handOver();
      return true;
    },
    /** Ends the body once all is handed over. */
    finish(): void {
      isFinished = true;
      handOver();
    },
    /** Ends it now, and drops what waits. */
    end,
    get unreadBytes() {
      return unreadBytes;
    },
  };
}
