// Logs when the event loop was blocked, so that no request got a response: nearly always by a tool that computes for
// long, or waits synchronously.

import type { Clock } from '../ground/runtime.ts';
import type { Log } from '../watch/log.ts';

/** Health checks and clients time out after a few of these. */
const BLOCKED_MS_MIN = 1000;
const TICK_MS = 250;

interface LoopWatchOptions {
  /** Its monotonic time stands still while the machine sleeps, like timers: sleep doesn't count as blocking. */
  readonly clock: Clock;
  readonly log: Log;
  /** Returns the tool or prompt called last: the likely cause. */
  readonly lastCalled: () => string | undefined;
}

/** Logs blocks of the loop; the same tool again only after a minute without one (warnOnce). */
export function watchLoop(options: LoopWatchOptions): void {
  const { clock, log, lastCalled } = options;
  const dueMs = clock.monotonicMs() + TICK_MS;
  clock.after(TICK_MS, () => {
    const blockedMs = Math.round(clock.monotonicMs() - dueMs);
    const perhaps = lastCalled();
    if (blockedMs >= BLOCKED_MS_MIN) log.warnOnce('event loop blocked', { blockedMs, perhaps }, perhaps);
    watchLoop(options);
  });
}
