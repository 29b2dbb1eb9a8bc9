// All open event streams of this process, and the keep-alive comments on the quiet ones, so that neither proxies nor
// the runtime take them for dead. A stream whose client takes nothing for as long is cut off.

import type { Clock } from '../lib/runtime.ts';
import type { RequestContext } from './context.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import type { SendBudget } from './send-budget.ts';

const QUIET_MS_MAX = 15_000; // far below the 60 s after which proxies usually hang up
/** One timer looks after all streams. */
const LOOK_EVERY_MS = 1000;

export interface EventStreams {
  /** Opens the stream that answers a request. `onEnd` runs when either side ends it. */
  open(context: RequestContext, onEnd?: () => void): EventStream;
}

export function createEventStreams(clock: Clock, budget: SendBudget): EventStreams {
  const streams = new Set<EventStream>();
  let timer: ReturnType<typeof setInterval> | undefined;

  function look(): void {
    const nowMs = clock.monotonicMs();
    for (const stream of streams) {
      if (nowMs - stream.lastMovedMs >= QUIET_MS_MAX && !stream.comment('keepalive')) stream.cut();
    }
  }

  return {
    open(context, onEnd) {
      context.holdOpen(true);
      const stream = openEventStream(clock, budget, {
        onEnd() {
          // Must come before the response ends: later, the connection would stay without an idle timeout for good.
          context.holdOpen(false);
          onEnd?.();
        },
        onGone() {
          streams.delete(stream);
          if (streams.size > 0) return;
          clearInterval(timer);
          timer = undefined;
        },
      });
      streams.add(stream);
      timer ??= setInterval(look, LOOK_EVERY_MS);
      return stream;
    },
  };
}
