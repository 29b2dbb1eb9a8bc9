// All open event streams of this process, and the keep-alive comments on the quiet ones, so that neither proxies nor
// the runtime take them for dead. A stream whose client takes nothing for as long is cut off.

import { every } from '../../lib/background.ts';
import type { Cancel, Clock } from '../../lib/runtime.ts';
import type { Log } from '../../log/log.ts';
import type { RequestContext } from '../context.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import type { SendBudget } from './send-budget.ts';

const QUIET_MS_MAX = 15_000; // far below the 60 s after which proxies usually hang up
/** One timer looks after all streams. */
const LOOK_EVERY_MS = 1000;

export interface EventStreams {
  /** Opens the stream that is the response to a request. `onEnd` runs when either side ends it. */
  open(context: RequestContext, onEnd?: () => void): EventStream;
}

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
          // Must come before the response ends: later, the connection would never get its idle timeout back.
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
