// Notices that something has held the event loop up, during which no request gets a response: nearly always a tool that
// computes for long, or waits without `await`.

import type { Cancel, Clock } from '../lib/runtime.ts';
import type { Log } from '../log/log.ts';

/** Health checks and clients give up after a few of these. */
export const BLOCKED_MS_MIN = 1000;
const TICK_MS = 250;

export interface LoopWatchOptions {
  /** Its monotonic time stands still while the machine sleeps, as timers do: that blocks nothing. */
  readonly clock: Pick<Clock, 'monotonicMs' | 'after'>;
  readonly log: Pick<Log, 'warnOnce'>;
  /** The tool or prompt that was run last: most likely the cause, but a guess. */
  readonly lastCalled: () => string | undefined;
}

/** Logs, until it is cancelled, that the loop was blocked, and not again until a minute has passed without. */
export function watchLoop({ clock, log, lastCalled }: LoopWatchOptions): Cancel {
  let cancel: Cancel = () => {};

  function tick(): void {
    const dueMs = clock.monotonicMs() + TICK_MS;
    cancel = clock.after(TICK_MS, () => {
      const blockedMs = Math.round(clock.monotonicMs() - dueMs);
      if (blockedMs >= BLOCKED_MS_MIN) log.warnOnce('event loop blocked', { blockedMs, perhaps: lastCalled() });
      tick();
    });
  }

  tick();
  return () => cancel();
}
