// Server-sent events (HTML Living Standard §9.2): framing, and a stream that hands events to the runtime only as fast as
// the client reads. What waits is bounded in bytes, for each stream and, by the budget for unread bytes, for all. What
// to send when, and keep-alives, are left to others.

import type { Clock } from '../clock.ts';
import { SECURITY_HEADERS } from './headers.ts';
import { encodePieces } from './pieces.ts';
import type { SendBudget } from './send-budget.ts';

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
  /** Takes the event, or drops it. Never waits: what is taken but not read is held, and counts against the budget. */
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

/** The largest event: twice the list of 1,000 ordinary keys. */
export const EVENT_BYTES_MAX = 1024 * 1024;
/** Held for each stream outside the budget, so that ordinary answers arrive even while others use all of it. */
const OWN_BYTES = 32 * 1024;
/** The difference is for small answers alone, such as the error in place of one that found no room. */
const OWN_BYTES_FOR_SMALL = OWN_BYTES + 16 * 1024;
const SMALL_BYTES_MAX = 1024;

interface Limits {
  /** An event is not taken if the queue would then hold more than this. */
  readonly queueBytesMax: number;
  /** Events up to this are small. */
  readonly smallBytesMax: number;
}
/** Room for many answers that are ready at the same moment. */
const FOR_ANSWERS: Limits = { queueBytesMax: 4 * 1024 * 1024, smallBytesMax: SMALL_BYTES_MAX };
const FOR_OFFERS: Limits = { queueBytesMax: 64 * 1024, smallBytesMax: 0 };
const FOR_THE_LAST: Limits = { queueBytesMax: Number.POSITIVE_INFINITY, smallBytesMax: SMALL_BYTES_MAX };
/** What an entry of the queue takes beside its bytes. */
const ENTRY_BYTES = 128;

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: so would nginx.
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
  ...SECURITY_HEADERS,
};

const LINE_END = /[\r\n]/;

/** A line break in a field would let its writer forge events. JSON text never has one. */
export function eventText({ event, data }: ServerEvent): string {
  if (LINE_END.test(data) || (event !== undefined && LINE_END.test(event))) throw new Error('line break in an event');
  return event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
}

export function openEventStream(clock: Clock, budget: SendBudget, { onEnd, onGone }: EventStreamEnds): EventStream {
  let queue: Uint8Array<ArrayBuffer>[] = [];
  let queuedBytes = 0;
  let heldBytes = 0; // of these, in the budget
  let wanted = false; // the runtime has sent what it was given, and waits for more
  let isOpen = true; // takes events
  let lastMovedMs = clock.monotonicMs();
  let controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  const holding = budget.open(cut);

  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(opened) {
        controller = opened;
      },
      pull() {
        wanted = true;
        handOver();
      },
      cancel: () => end(() => {}),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 0 }), // nothing is taken out before it can be sent
  );

  function handOver(): void {
    const piece = wanted ? queue.shift() : undefined;
    if (piece !== undefined) {
      wanted = false;
      lastMovedMs = clock.monotonicMs();
      queuedBytes -= costOf(piece);
      if (heldBytes > 0) hold(Math.max(0, Math.min(heldBytes, queuedBytes - OWN_BYTES)));
      controller?.enqueue(piece);
    }
    if (!isOpen && queue.length === 0) end((open) => open.close());
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

  function put(pieces: readonly Uint8Array<ArrayBuffer>[], bytes: number): void {
    queue.push(...pieces);
    queuedBytes += bytes;
    lastMovedMs = clock.monotonicMs();
    handOver();
  }

  function take(event: ServerEvent, limits: Limits): Sent {
    const { length: bytesMin } = event.data; // a character is at least a byte
    if (bytesMin > EVENT_BYTES_MAX) return 'too_large';
    const isSmall = bytesMin <= limits.smallBytesMax;
    if (!isOpen || (!isSmall && queuedBytes + bytesMin > limits.queueBytesMax)) return 'no_room';
    const pieces = encodePieces(eventText(event));
    const bytes = costOfAll(pieces);
    if (bytes > EVENT_BYTES_MAX) return 'too_large';
    if (!makeRoom(bytes, limits)) return 'no_room';
    put(pieces, bytes);
    return 'sent';
  }

  /** Ends the stream for both sides. */
  function end(how: (open: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>) => void): void {
    const open = controller;
    if (open === undefined) return;
    controller = undefined;
    queue = [];
    queuedBytes = 0;
    holding.release();
    stopTaking();
    how(open);
    onGone();
  }

  function stopTaking(): void {
    if (!isOpen) return;
    isOpen = false;
    onEnd();
  }

  function cut(): void {
    end((open) => open.error(new Error('the client does not read')));
  }

  return {
    response: new Response(body, { headers: EVENT_STREAM_HEADERS }),
    send: (event) => take(event, FOR_ANSWERS),
    offer: (event) => take(event, FOR_OFFERS) === 'sent',
    comment(text) {
      if (!isOpen || queue.length > 0) return false;
      const pieces = encodePieces(`: ${text}\n\n`);
      put(pieces, costOfAll(pieces));
      return true;
    },
    close(last) {
      if (!isOpen) return true;
      const pieces = last === undefined ? [] : encodePieces(eventText(last));
      const bytes = costOfAll(pieces);
      if (!makeRoom(bytes, FOR_THE_LAST)) return false;
      stopTaking();
      put(pieces, bytes);
      return true;
    },
    cut,
    get lastMovedMs() {
      return lastMovedMs;
    },
  };
}

const costOf = (piece: Uint8Array): number => piece.length + ENTRY_BYTES;

const costOfAll = (pieces: readonly Uint8Array[]): number => pieces.reduce((bytes, piece) => bytes + costOf(piece), 0);
