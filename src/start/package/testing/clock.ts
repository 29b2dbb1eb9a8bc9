// A clock and timers that move only by hand.

import type { Clock } from '../../../ground/runtime.ts';

export interface TestClock extends Clock {
  /** Moves both clocks forward by `ms`. Runs what is due on the way, each at its time. */
  advance(ms: number): void;
  /** Sets the wall clock alone, as a person or NTP does. */
  setNow(nowMs: number): void;
  /** Lets the machine sleep for `ms`: the monotonic clock and timers stand still. */
  sleep(ms: number): void;
}

/** At the full hour, so that the windows of most limits begin with the test. */
const TEST_START_MS = Date.UTC(2026, 0, 2, 3);

interface Timer {
  /** Monotonic. */
  readonly dueMs: number;
  readonly run: () => void;
}

export function testClock(startMs = TEST_START_MS): TestClock {
  let monotonicMs = 1000;
  let leadMs = startMs - monotonicMs; // of the wall clock
  const timers = new Set<Timer>(); // in the order they were set

  /** Returns the timer that is due first; of several, the one set first. */
  function nextUntil(endMs: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of timers) if (timer.dueMs <= endMs && timer.dueMs < (next?.dueMs ?? Infinity)) next = timer;
    return next;
  }

  return {
    nowMs: () => Math.round(leadMs + monotonicMs), // whole, as every wall clock's
    monotonicMs: () => monotonicMs,
    after(ms, run) {
      const timer = { dueMs: monotonicMs + ms, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    advance(ms) {
      const endMs = monotonicMs + ms;
      for (let timer = nextUntil(endMs); timer !== undefined; timer = nextUntil(endMs)) {
        timers.delete(timer);
        monotonicMs = Math.max(monotonicMs, timer.dueMs); // a timer may move the clock too
        timer.run();
      }
      monotonicMs = Math.max(monotonicMs, endMs);
    },
    setNow(ms) {
      leadMs = ms - monotonicMs;
    },
    sleep(ms) {
      leadMs += ms;
    },
  };
}
