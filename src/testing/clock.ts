// A clock that moves only by hand.

import type { Clock } from '../lib/runtime.ts';

export interface TestClock extends Clock {
  /** Moves both clocks forward by `ms`. */
  advance(ms: number): void;
  /** Sets the wall clock alone, as a person or NTP does. */
  setNow(nowMs: number): void;
  /** The machine sleeps for `ms`: the monotonic clock stands still. */
  sleep(ms: number): void;
}

const TEST_START_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

export function testClock(startMs = TEST_START_MS): TestClock {
  let nowMs = startMs;
  let monotonicMs = 1000;
  return {
    nowMs: () => nowMs,
    monotonicMs: () => monotonicMs,
    advance(ms) {
      nowMs += ms;
      monotonicMs += ms;
    },
    setNow(ms) {
      nowMs = ms;
    },
    sleep(ms) {
      nowMs += ms;
    },
  };
}
