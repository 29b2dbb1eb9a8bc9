// Server-sent events (HTML Living Standard §9.2): framing, and a stream whose buffer is bounded in bytes.
// When to send what, and keep-alives, are left to others.

import type { Clock } from '../clock.ts';
import { SECURITY_HEADERS } from './headers.ts';

export interface ServerEvent {
  /** `message` unless given. */
  readonly event?: string;
  readonly data: string;
}

export interface EventStream {
  readonly response: Response;
  /** False, and nothing sent, when the client has not read what was sent before, or is gone. */
  send(event: ServerEvent): boolean;
  /** A line that clients skip. */
  comment(text: string): boolean;
  /** Ends it, after `last` if given, which goes out even when the buffer is full. What was sent still reaches the client. */
  close(last?: ServerEvent): void;
  /** The stream and what waits in it are dropped: for a client that does not read. */
  cut(): void;
  /** Monotonic time of the last thing sent. */
  readonly lastSentMs: number;
}

/**
 * What may wait for the client to read it; the event that exceeds this is the last one taken. Enough for bursts of
 * answers, little enough for 1,000 streams.
 */
const BUFFER_BYTES_MAX = 256 * 1024;

export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  // no-transform: a proxy that compresses would hold events back. X-Accel-Buffering: nginx would, too.
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

/** `onEnd` runs when either side ends the stream; where this side does, just before the last byte. */
export function openEventStream(clock: Clock, onEnd: () => void): EventStream {
  const encoder = new TextEncoder();
  let lastSentMs = clock.monotonicMs();
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  const body = new ReadableStream<Uint8Array>(
    {
      start(opened) {
        controller = opened;
      },
      cancel: () => finish(() => {}),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: BUFFER_BYTES_MAX }),
  );

  function finish(how: (open: ReadableStreamDefaultController<Uint8Array>) => void): void {
    const open = controller;
    if (open === undefined) return;
    controller = undefined;
    onEnd();
    how(open);
  }

  function write(text: string): boolean {
    if (controller === undefined || (controller.desiredSize ?? 0) <= 0) return false;
    controller.enqueue(encoder.encode(text));
    lastSentMs = clock.monotonicMs();
    return true;
  }

  return {
    response: new Response(body, { headers: EVENT_STREAM_HEADERS }),
    send: (event) => write(eventText(event)),
    comment: (text) => write(`: ${text}\n\n`),
    close: (last) =>
      finish((open) => {
        if (last !== undefined) open.enqueue(encoder.encode(eventText(last)));
        open.close();
      }),
    cut: () => finish((open) => open.error(new Error('the client does not read'))),
    get lastSentMs() {
      return lastSentMs;
    },
  };
}
