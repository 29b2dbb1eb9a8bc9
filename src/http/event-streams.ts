// All open event streams of this process, and the keep-alive comments on the quiet ones, so that neither proxies nor the
// runtime take them for dead.

import type { Clock } from '../clock.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import type { Exchange } from './exchange.ts';

const QUIET_MS_MAX = 15_000; // contract §8; far below the 60 s after which proxies usually hang up
/** One timer looks after all streams. */
const LOOK_EVERY_MS = 1000;

export interface EventStreams {
  /** Opens the stream that answers a request. */
  open(exchange: Exchange): EventStream;
}

export function createEventStreams(clock: Clock): EventStreams {
  const streams = new Set<EventStream>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function look(): void {
    const nowMs = clock.monotonicMs();
    for (const stream of streams) {
      if (nowMs - stream.lastSentMs >= QUIET_MS_MAX && !stream.comment('keepalive')) stream.cut();
    }
  }

  return {
    open({ peer, request }) {
      peer.holdOpen(request, true);
      const stream = openEventStream(clock);
      streams.add(stream);
      timer ??= setInterval(look, LOOK_EVERY_MS);
      void stream.ended.then(() => {
        streams.delete(stream);
        if (streams.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      });
      return stream;
    },
  };
}
