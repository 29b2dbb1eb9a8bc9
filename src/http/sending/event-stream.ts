// Server-sent events (HTML Living Standard §9.2): framing, and a stream that encodes events and hands them to the
// runtime only as fast as the client reads. What waits is bounded in bytes, for each stream and, by the budget for
// unread bytes, for all. What to send when, and keep-alives, are left to others.

import type { Clock } from '../../lib/runtime.ts';
import { SECURITY_HEADERS } from '../headers.ts';
import {
  bytesInMemory,
  filled,
  free,
  type Part,
  partsOf,
  readerOf,
  type Text,
  type TextReader,
  type Utf8,
} from './parts.ts';
import type { SendBudget } from './send-budget.ts';

export interface ServerEvent {
  /** `message` unless given. */
  readonly event?: string;
  /** Belongs to the stream that it is given to, which frees it when it has been read or is dropped. */
  readonly data: Text;
}

/**
 * What became of an event. `too_large`: no stream takes it. `no_room`: the client has left too much unread, all clients
 * have, or this one is gone.
 */
export type Sent = 'sent' | 'too_large' | 'no_room';

export interface EventStream {
  readonly response: Response;
  /**
   * Takes an event, or drops it. Never waits: what is taken but not read is held, and counts against the budget. The
   * event is made only if there is room for `bytesMin`, the least that it may have.
   */
  send(make: () => ServerEvent, bytesMin?: number): Sent;
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
 * The largest event: a page of a list has 400,000 characters, of two bytes each if one of them needs two, and is in the
 * event twice, once as text, where each may need an escape.
 */
export const EVENT_BYTES_MAX = 3 * 1024 * 1024;
/** Held for each stream outside the budget, so that ordinary responses arrive even while others use all of it. */
const OWN_BYTES = 16 * 1024;
/** The difference is for small responses alone, such as the error in place of one that found no room. */
const OWN_BYTES_FOR_SMALL = OWN_BYTES + 8 * 1024;
const SMALL_BYTES_MAX = 1024;

interface Limits {
  readonly eventBytesMax: number;
  /** An event is not taken if the queue would then hold more than this. */
  readonly queueBytesMax: number;
  /** Events up to this are small. */
  readonly smallBytesMax: number;
}
/** Room for many responses that are ready at the same moment. */
const FOR_RESPONSES: Limits = {
  eventBytesMax: EVENT_BYTES_MAX,
  queueBytesMax: 4 * 1024 * 1024,
  smallBytesMax: SMALL_BYTES_MAX,
};
const FOR_OFFERS: Limits = { eventBytesMax: EVENT_BYTES_MAX, queueBytesMax: 64 * 1024, smallBytesMax: 0 };
const FOR_THE_LAST: Limits = {
  ...FOR_RESPONSES,
  eventBytesMax: Number.POSITIVE_INFINITY,
  queueBytesMax: Number.POSITIVE_INFINITY,
};
/** What an event takes beside its data. */
const EVENT_OVERHEAD_BYTES = 256;
/** Handed to the runtime at a time. Of larger pieces, Deno takes more bytes than a client reads. */
const PIECE_BYTES = 8 * 1024;

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: so would nginx.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;

export function eventParts({ event = '', data }: ServerEvent): readonly Part[] {
  const parts = partsOf(data);
  // A line break in a field would let its writer forge events. JSON text, which is what is encoded, never has one.
  if ([event, ...parts].some((part) => typeof part === 'string' && LINE_END.test(part))) {
    throw new Error('line break in an event');
  }
  return [event === '' ? 'data: ' : `event: ${event}\ndata: `, ...parts, '\n\n'];
}

/** What waits to be sent. */
interface Waiting {
  readonly parts: readonly Part[];
  readonly reader: TextReader;
  readonly bytes: number;
}

export function openEventStream(clock: Clock, budget: SendBudget, { onEnd, onGone }: EventStreamEnds): EventStream {
  let queue: Waiting[] = [];
  let queuedBytes = 0;
  let heldBytes = 0; // of these, in the budget
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
    if (wanted && queue.length > 0) {
      wanted = false;
      lastMovedMs = clock.monotonicMs();
      const piece = nextPiece();
      holding.read(piece.length);
      const holdsAtMost = Math.max(0, queuedBytes - OWN_BYTES);
      if (heldBytes > holdsAtMost) lower(holdsAtMost);
      controller?.enqueue(piece);
    }
    if (!isOpen && queue.length === 0) end();
  }

  /** Encodes what fits into a piece, and takes out of the queue what is sent to its end. */
  function nextPiece(): Utf8 {
    const piece = new Uint8Array(Math.min(PIECE_BYTES, 3 * queuedBytes)); // a character has at most three bytes
    let length = 0;
    for (let [first] = queue; first !== undefined; [first] = queue) {
      length += first.reader.readInto(piece.subarray(length));
      if (!first.reader.isAtEnd) break; // the piece is full
      queue.shift();
      free(first.parts);
      queuedBytes -= first.bytes;
    }
    return filled(piece, length);
  }

  function lower(bytes: number): void {
    heldBytes = bytes;
    holding.set(bytes);
  }

  function hold(bytes: number): boolean {
    if (!holding.set(bytes)) return false;
    heldBytes = bytes;
    return true;
  }

  function makeRoom(bytes: number, { queueBytesMax, smallBytesMax }: Limits): boolean {
    const all = queuedBytes + bytes;
    if (all - heldBytes <= (bytes <= smallBytesMax ? OWN_BYTES_FOR_SMALL : OWN_BYTES)) return true;
    return all <= queueBytesMax && hold(all - OWN_BYTES);
  }

  function put(parts: readonly Part[], bytes: number): void {
    queue.push({ parts, reader: readerOf(parts), bytes });
    queuedBytes += bytes;
    lastMovedMs = clock.monotonicMs();
    handOver();
  }

  function look(bytes: number, limits: Limits): Sent {
    if (bytes > limits.eventBytesMax) return 'too_large';
    return makeRoom(bytes, limits) ? 'sent' : 'no_room';
  }

  /** Room is looked for first: an event that finds none costs little. */
  function tryTake(make: () => ServerEvent, bytesMin: number, limits: Limits, beforePut: () => void): Sent {
    let room = look(bytesMin, limits);
    if (room !== 'sent') return room;
    const event = make();
    const bytes = bytesOf(event.data);
    room = look(bytes, limits);
    if (room !== 'sent') {
      free(event.data);
      return room;
    }
    const parts = eventParts(event);
    beforePut();
    put(parts, bytes);
    return 'sent';
  }

  function take(make: () => ServerEvent, bytesMin: number, limits: Limits, beforePut = () => {}): Sent {
    if (!isOpen) return 'no_room';
    const heldBefore = heldBytes;
    const sent = tryTake(make, bytesMin, limits, beforePut);
    if (sent !== 'sent' && heldBytes !== heldBefore) lower(heldBefore);
    return sent;
  }

  function stopTaking(): void {
    if (!isOpen) return;
    isOpen = false;
    onEnd();
  }

  function leave(): void {
    if (controller === undefined) return;
    controller = undefined;
    for (const { parts } of queue) free(parts);
    queue = [];
    queuedBytes = 0;
    holding.release();
    stopTaking();
    onGone();
  }

  /**
   * Also with something in the queue: half an event is none, so a stream may end anywhere. (An error would be a line on
   * Deno's stderr for each.)
   */
  function end(): void {
    const open = controller;
    leave();
    open?.close();
  }

  return {
    response: new Response(body, { headers: EVENT_STREAM_HEADERS }),
    send: (make, bytesMin = 0) => take(make, bytesMin, FOR_RESPONSES),
    offer: (event) => take(() => event, 0, FOR_OFFERS) === 'sent',
    comment(text) {
      if (!isOpen || queue.length > 0) return false;
      put([`: ${text}\n\n`], bytesOf(text));
      return true;
    },
    close(last) {
      if (!isOpen) return true;
      if (last !== undefined) return take(() => last, 0, FOR_THE_LAST, stopTaking) === 'sent';
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

const bytesOf = (text: Text): number => bytesInMemory(text) + EVENT_OVERHEAD_BYTES;
