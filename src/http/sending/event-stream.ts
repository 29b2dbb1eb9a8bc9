// Server-sent events (HTML Living Standard §9.2): framing, and a stream that encodes events and hands them to the
// runtime only as fast as the client reads. What waits is bounded in bytes, for each stream and, by the budget for
// unread bytes, for all. What to send when, and keep-alives, are left to others.

import type { Clock } from '../../lib/runtime.ts';
import { SECURITY_HEADERS } from '../headers.ts';
import { bytesInMemory, type Utf8 } from './pieces.ts';
import type { SendBudget } from './send-budget.ts';
import { createSendQueue } from './send-queue.ts';

export interface ServerEvent {
  /** `message` unless given. */
  readonly event?: string;
  readonly data: string;
}

/**
 * What became of an event. `too_large`: no stream takes it. `no_room`: the client has left too much unread, all clients
 * have, or this one is gone.
 */
export type Sent = 'sent' | 'too_large' | 'no_room';

export interface EventStream {
  readonly response: Response;
  /** Takes an event, or drops it. Never waits: what is taken but not read is held, and counts against the budget. */
  send(event: ServerEvent): Sent;
  /** Takes the event only if the client keeps up; else drops it, and returns false. */
  offer(event: ServerEvent): boolean;
  /** A line that clients skip. False, with nothing sent, when something sent before is still unread. */
  comment(text: string): boolean;
  /**
   * Ends the stream, after `last` if given. What was sent still reaches the client. False, with nothing done, when the
   * budget has no room for `last`, which may be of any size.
   */
  close(last?: ServerEvent): boolean;
  /** Drops the stream and everything waiting in it, for a client that does not read. */
  cut(): void;
  /** Monotonic time at which something was last sent, or taken by the client. */
  readonly lastMovedMs: number;
}

export interface EventStreamEnds {
  /** Runs when either side ends the stream; when this side does, before the last byte. */
  readonly onEnd: () => void;
  /** Runs when nothing waits in it any more either. */
  readonly onGone: () => void;
}

/**
 * What one stream holds unread, and so the largest event. A page of a list has 400,000 characters, of two bytes each if
 * one of them needs two, and is in its event twice, once as text, where each may need an escape.
 */
export const STREAM_BYTES_MAX = 4 * 1024 * 1024;
/** Of what may be left out, only this much: progress is for clients that keep up. */
const OFFERED_BYTES_MAX = 64 * 1024;
/** Held for each stream outside the budget, so that ordinary responses arrive even while others use all of it. */
const OWN_BYTES = 16 * 1024;
/** The difference is for small responses alone, such as the error in place of one that found no room. */
const OWN_BYTES_FOR_SMALL = OWN_BYTES + 8 * 1024;
const SMALL_BYTES_MAX = 1024;
/** What an event takes beside its data. */
const EVENT_OVERHEAD_BYTES = 256;

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: so would nginx.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;

export function eventText({ event = '', data }: ServerEvent): string {
  // A line break in a field would let its writer forge events. JSON text, which is what is encoded, never has one.
  if (LINE_END.test(event) || LINE_END.test(data)) throw new Error('line break in an event');
  return event === '' ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
}

const bytesOf = (text: string): number => bytesInMemory(text) + EVENT_OVERHEAD_BYTES;

/** Without a look at its characters. */
const mayBeTooLarge = ({ data }: ServerEvent): boolean => 2 * data.length + EVENT_OVERHEAD_BYTES > STREAM_BYTES_MAX;

export function openEventStream(clock: Clock, budget: SendBudget, { onEnd, onGone }: EventStreamEnds): EventStream {
  const queue = createSendQueue();
  let heldBytes = 0; // of those in the queue, in the budget
  let wanted = false; // the runtime has sent what it was given, and waits for more
  let isOpen = true; // takes events
  let lastMovedMs = clock.monotonicMs();
  let controller: ReadableStreamDefaultController<Utf8> | undefined;
  const holding = budget.open(end);

  const body = new ReadableStream<Utf8>(
    {
      start(opened) {
        controller = opened;
      },
      pull() {
        wanted = true;
        handOver();
      },
      cancel: leave,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
  );

  function handOver(): void {
    if (wanted && !queue.isEmpty) {
      wanted = false;
      lastMovedMs = clock.monotonicMs();
      const piece = queue.nextPiece();
      holding.read(piece.length);
      if (heldBytes > queue.bytes - OWN_BYTES) hold(Math.max(0, queue.bytes - OWN_BYTES));
      controller?.enqueue(piece);
    }
    if (!isOpen && queue.isEmpty) end();
  }

  function hold(bytes: number): boolean {
    if (!holding.set(bytes)) return false;
    heldBytes = bytes;
    return true;
  }

  function put(text: string, bytes: number): void {
    queue.put(text, bytes);
    lastMovedMs = clock.monotonicMs();
    handOver();
  }

  function makeRoom(bytes: number, bytesMax: number, isOptional: boolean): boolean {
    const all = queue.bytes + bytes;
    const own = bytes <= SMALL_BYTES_MAX && !isOptional ? OWN_BYTES_FOR_SMALL : OWN_BYTES;
    return all - heldBytes <= own || (all <= bytesMax && hold(all - OWN_BYTES));
  }

  /** Has the event counted and put into the queue, if the queue then holds no more than `bytesMax`. */
  function take(event: ServerEvent, bytesMax: number, isOptional = false): boolean {
    if (!isOpen) return false;
    const { data } = event;
    const heldBefore = heldBytes;
    // To be measured, a text that was joined is put together, which takes as much memory again: not without room.
    const hasRoom =
      makeRoom(data.length + EVENT_OVERHEAD_BYTES, bytesMax, isOptional) &&
      makeRoom(bytesOf(data), bytesMax, isOptional);
    if (hasRoom) put(eventText(event), bytesOf(data));
    else if (heldBytes !== heldBefore) hold(heldBefore);
    return hasRoom;
  }

  function stopTaking(): void {
    if (!isOpen) return;
    isOpen = false;
    onEnd();
  }

  function leave(): void {
    if (controller === undefined) return;
    controller = undefined;
    queue.clear();
    holding.release();
    stopTaking();
    onGone();
  }

  /**
   * Also with something in the queue: clients drop an event that is not whole, so a stream may end anywhere. (An error
   * would be a line on Deno's stderr for each.)
   */
  function end(): void {
    const open = controller;
    leave();
    open?.close();
  }

  return {
    response: new Response(body, { headers: EVENT_STREAM_HEADERS }),
    send(event) {
      if (mayBeTooLarge(event) && bytesOf(event.data) > STREAM_BYTES_MAX) return 'too_large';
      return take(event, STREAM_BYTES_MAX) ? 'sent' : 'no_room';
    },
    offer: (event) => take(event, OFFERED_BYTES_MAX, true),
    comment(text) {
      if (!isOpen || !queue.isEmpty) return false;
      put(`: ${text}\n\n`, bytesOf(text));
      return true;
    },
    close(last) {
      if (!isOpen) return true;
      if (last !== undefined && !take(last, Number.POSITIVE_INFINITY)) return false;
      stopTaking();
      handOver();
      return true;
    },
    cut: end,
    get lastMovedMs() {
      return lastMovedMs;
    },
  };
}
