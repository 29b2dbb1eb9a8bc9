// A test clock, with timers, that only moves by hand.

import type { Clock } from '../../../ground/runtime.ts';

export interface TestClock extends Clock {
  /** Moves both clocks forward by `ms`, and runs timers that are due on the way, each at its time. */
  advance(ms: number): void;
  /** Sets only the wall clock, like a person or NTP. */
  setNow(nowMs: number): void;
  /** Lets the machine sleep for `ms`: the monotonic clock and timers stand still. */
  sleep(ms: number): void;
}

/** On the hour, so that the windows of most limits begin with the test. */
const TEST_START_MS = Date.UTC(2026, 0, 2, 3);

interface Timer {
  /** Monotonic. */
  readonly dueMs: number;
  readonly run: () => void;
}

/** Throws an Error for what would stop a clock for good. */
function assertMs(what: string, ms: number): void {
  if (!Number.isFinite(ms))
    throw new Error(`clock.${what}: expected milliseconds, got ${typeof ms === 'number' ? ms : typeof ms}`);
}

export function testClock(startMs = TEST_START_MS): TestClock {
  let monotonicMs = 1000;
  let leadMs = startMs - monotonicMs; // how far the wall clock is ahead
  const timers = new Set<Timer>(); // in the order they were set

  /** Returns the timer due first; of several, the one set first. */
  function nextUntil(endMs: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of timers) if (timer.dueMs <= endMs && timer.dueMs < (next?.dueMs ?? Infinity)) next = timer;
    return next;
  }

  return {
    nowMs: () => Math.round(leadMs + monotonicMs), // an integer, like every wall clock's
    monotonicMs: () => monotonicMs,
    after(ms, run) {
      const timer = { dueMs: monotonicMs + ms, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    advance(ms) {
      assertMs('advance', ms);
      const endMs = monotonicMs + ms;
      for (let timer = nextUntil(endMs); timer !== undefined; timer = nextUntil(endMs)) {
        timers.delete(timer);
        monotonicMs = Math.max(monotonicMs, timer.dueMs); // a timer may move the clock too
        timer.run();
      }
      monotonicMs = Math.max(monotonicMs, endMs);
    },
    setNow(ms) {
      assertMs('setNow', ms);
      leadMs = ms - monotonicMs;
    },
    sleep(ms) {
      assertMs('sleep', ms);
      leadMs += ms;
    },
  };
}
