// Server-sent events (HTML Living Standard §9.2): their framing, and the open streams of this process. Unread bytes are
// bounded for each stream and, by the send budget, for all. A quiet stream gets comments, so that neither proxies nor
// the runtime take it for dead; a client that reads nothing for as long is cut off.

import { every } from '../../lib/background.ts';
import type { Cancel, Clock } from '../../lib/runtime.ts';
import { bytesInMemory } from '../../lib/text.ts';
import type { Log } from '../../log/log.ts';
import type { RequestContext } from '../context.ts';
import { SECURITY_HEADERS } from '../headers.ts';
import { openPacedBody } from './paced-body.ts';
import type { SendBudget } from './send-budget.ts';

interface ServerEvent {
  /** `message` unless given. */
  readonly event?: string;
  readonly data: string;
}

/** `too_large` for any stream. `no_room`: this client or all clients have too much unread, or the stream has ended. */
export type Sent = 'sent' | 'too_large' | 'no_room';

export interface EventStream {
  readonly response: Response;
  /** Takes an event, or drops it. Never waits: what is unread counts against the budget. */
  send(event: ServerEvent): Sent;
  /** Takes an event only if the client keeps up; else drops it, and returns false. */
  offer(event: ServerEvent): boolean;
  /** Sends a line that clients skip. False, with nothing sent, while something is unread. */
  comment(text: string): boolean;
  /**
   * Ends the stream, after `last` if given, which may be of any size. What was sent still reaches the client. False,
   * with nothing done, when there is no room for `last`.
   */
  close(last?: ServerEvent): boolean;
  /** Drops the stream and all that waits in it. (Ending it with an error would print a line to stderr on Deno.) */
  cut(): void;
  /** Monotonic time at which something was last put in, or taken by the client. */
  readonly lastMovedMs: number;
}

export interface EventStreams {
  /** Opens the stream that is the response to a request. `onEnd` runs when either side ends it. */
  open(context: RequestContext, onEnd?: () => void): EventStream;
}

/**
 * Of one stream unread, and so the largest event. A page of a list (LIST_BYTES_MAX) is in its event twice, once as
 * text, where each character may need an escape; in memory a character may have two bytes.
 */
export const STREAM_BYTES_MAX = 4 * 1024 * 1024;
/** Above this, progress is dropped: it is for clients that keep up. */
const OFFERED_BYTES_MAX = 64 * 1024;
/** Of each stream outside the budget, so that ordinary responses arrive even when others use all of it. */
const OWN_BYTES = 16 * 1024;
/** With more for small responses, such as the error in place of one that found no room. */
const OWN_BYTES_FOR_SMALL = OWN_BYTES + 8 * 1024;
const SMALL_BYTES_MAX = 1024;
/** What an event takes beside its data. */
const EVENT_OVERHEAD_BYTES = 256;
/** Of larger pieces, Deno takes more bytes than the client reads. */
const PIECE_BYTES = 8 * 1024;

const QUIET_MS_MAX = 15_000; // far below the 60 s after which proxies usually hang up
const LOOK_EVERY_MS = 1000;

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: so would nginx.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;

export function eventText({ event = '', data }: ServerEvent): string {
  // A line break in a field would let its writer forge events. JSON text, which is what is sent, has none.
  if (LINE_END.test(event) || LINE_END.test(data)) throw new Error('line break in an event');
  return event === '' ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
}

const bytesOf = (text: string): number => bytesInMemory(text) + EVENT_OVERHEAD_BYTES;

/** An upper bound, without reading the text. */
const mayBeTooLarge = ({ data }: ServerEvent): boolean => 2 * data.length + EVENT_OVERHEAD_BYTES > STREAM_BYTES_MAX;

export function createEventStreams(clock: Clock, log: Log, budget: SendBudget): EventStreams {
  const looks = { everyMs: LOOK_EVERY_MS, clock, log, event: 'streams not kept alive' };
  const streams = new Set<EventStream>();
  let stopLooking: Cancel | undefined;

  function look(): void {
    const nowMs = clock.monotonicMs();
    for (const stream of streams) {
      if (nowMs - stream.lastMovedMs >= QUIET_MS_MAX && !stream.comment('keepalive')) stream.cut();
    }
  }

  return {
    open(context, onEnd) {
      context.holdOpen(true);
      const over = context.extend();
      const stream = openEventStream(clock, budget, {
        onEnd() {
          // Before the response ends: later, the connection would never get its idle timeout back.
          context.holdOpen(false);
          onEnd?.();
        },
        onGone() {
          over();
          streams.delete(stream);
          if (streams.size > 0) return;
          stopLooking?.();
          stopLooking = undefined;
        },
      });
      streams.add(stream);
      stopLooking ??= every(looks, look);
      return stream;
    },
  };
}

interface StreamEnds {
  /** Runs when either side ends the stream; if this side does, before the last byte. */
  readonly onEnd: () => void;
  /** Runs when nothing waits in the stream any more. */
  readonly onGone: () => void;
}

function openEventStream(clock: Clock, budget: SendBudget, { onEnd, onGone }: StreamEnds): EventStream {
  let isOpen = true; // takes events
  let lastMovedMs = clock.monotonicMs();
  const lease = budget.lease(() => body.cut());
  const body = openPacedBody({
    pieceBytes: PIECE_BYTES,
    onPiece(bytes) {
      lastMovedMs = clock.monotonicMs();
      lease.read(bytes);
      lease.set(Math.min(lease.bytes, Math.max(0, body.bytes - OWN_BYTES)));
    },
    onGone() {
      lease.set(0);
      stopTaking();
      onGone();
    },
  });

  function put(text: string, bytes: number): void {
    lastMovedMs = clock.monotonicMs();
    body.put(text, bytes);
  }

  function makeRoom(bytes: number, bytesMax: number, isOptional: boolean): boolean {
    const all = body.bytes + bytes;
    const own = bytes <= SMALL_BYTES_MAX && !isOptional ? OWN_BYTES_FOR_SMALL : OWN_BYTES;
    return all - lease.bytes <= own || (all <= bytesMax && lease.set(all - OWN_BYTES));
  }

  function take(event: ServerEvent, bytesMax: number, isOptional = false): boolean {
    if (!isOpen) return false;
    const { data } = event;
    const bytesBefore = lease.bytes;
    // Measuring a concatenated text flattens it, which takes as much memory again: so first a lower bound.
    const hasRoom =
      makeRoom(data.length + EVENT_OVERHEAD_BYTES, bytesMax, isOptional) &&
      makeRoom(bytesOf(data), bytesMax, isOptional);
    if (hasRoom) put(eventText(event), bytesOf(data));
    else lease.set(bytesBefore);
    return hasRoom;
  }

  function stopTaking(): void {
    if (!isOpen) return;
    isOpen = false;
    onEnd();
  }

  return {
    response: new Response(body.stream, { headers: EVENT_STREAM_HEADERS }),
    send(event) {
      if (mayBeTooLarge(event) && bytesOf(event.data) > STREAM_BYTES_MAX) return 'too_large';
      return take(event, STREAM_BYTES_MAX) ? 'sent' : 'no_room';
    },
    offer: (event) => take(event, OFFERED_BYTES_MAX, true),
    comment(text) {
      if (!isOpen || !body.isEmpty) return false;
      put(`: ${text}\n\n`, bytesOf(text));
      return true;
    },
    close(last) {
      if (!isOpen) return true;
      if (last !== undefined && !take(last, Number.POSITIVE_INFINITY)) return false;
      stopTaking();
      body.finish();
      return true;
    },
    cut: () => body.cut(),
    get lastMovedMs() {
      return lastMovedMs;
    },
  };
}
