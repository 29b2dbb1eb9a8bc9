// The clock of ages: it counts the time a machine sleeps, and nothing that only looks like it for a moment. The timers of
// the clock for tests.

import { describe, expect, test } from 'bun:test';
import { countingSleep } from '../../src/ground/runtime.ts';
import { systemClock } from '../../src/start/package/index.ts';
import { testClock } from '../support/clock.ts';

const HOUR_MS = 3_600_000;

/** A machine's two clocks over one time with fractions, as runtimes read them: the wall clock in whole milliseconds. */
function machine() {
  let awakeMs = 0.123;
  let wallMs = Date.UTC(2026, 0, 2) + 0.789;
  const { after } = systemClock;
  const clock = { nowMs: () => Math.floor(wallMs), monotonicMs: () => awakeMs, after };
  return {
    clock: countingSleep(clock),
    awakeMs: () => awakeMs,
    pass(ms: number, wallPassesMs = ms) {
      awakeMs += ms;
      wallMs += wallPassesMs;
    },
  };
}

test.each([0.0007, 0.3, 1, 7.7, 250, HOUR_MS])('awake, and read every %d ms, it is the monotonic clock', (stepMs) => {
  const { clock, pass, awakeMs } = machine();
  for (let reading = 0; reading < 5000; reading += 1) {
    pass(stepMs);
    expect(clock.monotonicMs()).toBe(awakeMs());
  }
});

test('a sleep counts when it is first looked at, however long ago that was', () => {
  const { clock, pass, awakeMs } = machine();
  pass(5, 5 + 8 * HOUR_MS);
  pass(10 * HOUR_MS);
  expect(clock.monotonicMs() - awakeMs()).toBeCloseTo(8 * HOUR_MS, -1);
  pass(0, 30);
  expect(clock.monotonicMs() - awakeMs()).toBeCloseTo(8 * HOUR_MS + 30, -1);
});

test('a wall clock that is slowly corrected adds nothing', () => {
  const { clock, pass, awakeMs } = machine();
  for (let second = 0; second < 3600; second += 1) {
    pass(1000, 1000.5);
    expect(clock.monotonicMs()).toBe(awakeMs());
  }
});

test('a wall clock that is set back takes nothing off, and a sleep after that counts', () => {
  const { clock, pass, awakeMs } = machine();
  pass(10, -HOUR_MS);
  expect(clock.monotonicMs()).toBe(awakeMs());
  pass(10, 5010);
  expect(clock.monotonicMs() - awakeMs()).toBeCloseTo(5000, -1);
});

test('a thread that loses the processor between its two readings has not slept', () => {
  const inner = testClock();
  let lost = false;
  const clock = countingSleep({
    ...inner,
    monotonicMs() {
      const readMs = inner.monotonicMs();
      if (lost) inner.advance(500);
      lost = false;
      return readMs;
    },
  });
  lost = true;
  clock.monotonicMs();
  expect(clock.monotonicMs()).toBe(inner.monotonicMs());
});

test('the clock never steps back', () => {
  const { clock, pass } = machine();
  let lastMs = clock.monotonicMs();
  for (let reading = 0; reading < 10_000; reading += 1) {
    pass(Math.random() * 10, Math.random() < 0.1 ? (Math.random() - 0.5) * HOUR_MS : 5);
    const nowMs = clock.monotonicMs();
    expect(nowMs).toBeGreaterThanOrEqual(lastMs);
    lastMs = nowMs;
  }
});

describe('the timers of a clock that moves by hand', () => {
  /** What ran, and what the clock said then. */
  function noting() {
    const clock = testClock();
    const startMs = clock.monotonicMs();
    const ran: [name: string, atMs: number][] = [];
    const note = (name: string) => () => void ran.push([name, clock.monotonicMs() - startMs]);
    return { clock, ran, note };
  }

  test('timers run when the clock passes them, in the order they are due, each at its time', () => {
    const { clock, ran, note } = noting();
    clock.after(20, note('b'));
    clock.after(10, note('a'));
    clock.after(20, note('c'));
    clock.after(31, note('d'));
    clock.advance(9);
    expect(ran).toEqual([]);
    clock.advance(21);
    expect(ran).toEqual([
      ['a', 10],
      ['b', 20],
      ['c', 20],
    ]);
    expect(clock.nowMs()).toBe(testClock().nowMs() + 30);
  });

  test('a timer that another one sets on the way runs, and one that it cancels does not', () => {
    const { clock, ran, note } = noting();
    const cancel = clock.after(30, note('cancelled'));
    clock.after(10, () => {
      cancel();
      clock.after(10, note('set on the way'));
    });
    clock.advance(100);
    expect(ran).toEqual([['set on the way', 20]]);
  });

  test('timers stand still while the machine sleeps, and when the wall clock is set', () => {
    const { clock, ran, note } = noting();
    const ageClock = countingSleep(clock);
    ageClock.after(10, note('a'));
    clock.sleep(HOUR_MS);
    clock.setNow(clock.nowMs() + HOUR_MS);
    expect(ran).toEqual([]);
    clock.advance(10);
    expect(ran).toEqual([['a', 10]]);
  });
});
