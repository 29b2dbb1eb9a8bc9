// Work that repeats in the background.

import { expect, test } from 'bun:test';
import { repeat } from '../../src/ground/background.ts';
import { testClock } from '../support/clock.ts';

/** Work that is done when told to be, and what was logged. */
function repeated({ firstMs, jitter }: { firstMs?: number | null; jitter?: number } = {}) {
  const clock = testClock();
  const logged: unknown[] = [];
  const runs: PromiseWithResolvers<void>[] = [];
  let everyMs: number | null = 100;
  const work = repeat(
    {
      everyMs: () => everyMs,
      ...(firstMs !== undefined && { firstMs }),
      ...(jitter !== undefined && { jitter }),
      clock,
      log: {
        error: (event, { error }) => void logged.push([event, String(error)]),
        warn: (event, { reason }) => void logged.push([event, reason]),
      },
      event: 'work broken',
    },
    () => {
      const run = Promise.withResolvers<void>();
      runs.push(run);
      return run.promise;
    },
  );
  return {
    ...work,
    clock,
    logged,
    runs,
    setEvery: (ms: number | null) => (everyMs = ms),
    /** Ends the newest run, and lets what waits for it go on. */
    async end(bug?: Error) {
      const run = runs.at(-1);
      if (bug === undefined) run?.resolve();
      else run?.reject(bug);
      await new Promise(setImmediate);
    },
  };
}

test('a pause lies before the first run, and between the end of a run and the next', async () => {
  const { clock, runs, end } = repeated();
  clock.advance(99);
  expect(runs).toHaveLength(0);
  clock.advance(1);
  expect(runs).toHaveLength(1);
  clock.advance(1000);
  expect(runs).toHaveLength(1);
  await end();
  clock.advance(99);
  expect(runs).toHaveLength(1);
  clock.advance(1);
  expect(runs).toHaveLength(2);
});

test('what a run throws is logged, and the next run comes', async () => {
  const { clock, runs, end, logged } = repeated();
  clock.advance(100);
  await end(new Error('a bug'));
  expect(logged).toEqual([['work broken', 'Error: a bug']]);
  clock.advance(100);
  expect(runs).toHaveLength(2);
});

test('who asks for a run joins the one under way, and gets what it throws; the pause begins anew', async () => {
  const { clock, runs, run, end, logged } = repeated();
  clock.advance(50);
  const both = Promise.allSettled([run(), run()]);
  expect(runs).toHaveLength(1);
  await end(new Error('a bug'));
  expect((await both).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(logged).toEqual([]);
  clock.advance(99);
  expect(runs).toHaveLength(1);
  clock.advance(1);
  expect(runs).toHaveLength(2);
});

test('it rests when there is no pause to make, until it is run now', async () => {
  const { clock, runs, runNow, setEvery, end } = repeated({ firstMs: null });
  clock.advance(1000);
  expect(runs).toHaveLength(0);
  runNow();
  await end();
  clock.advance(100);
  expect(runs).toHaveLength(2);
  setEvery(null);
  await end();
  clock.advance(1000);
  expect(runs).toHaveLength(2);
});

test('once stopped, no run begins by itself', async () => {
  const { clock, runs, stop, end } = repeated();
  clock.advance(100);
  stop();
  await end();
  clock.advance(1000);
  expect(runs).toHaveLength(1);
});

test('jitter makes pauses longer or shorter by up to its part', () => {
  const pauses = Array.from({ length: 200 }, () => {
    const { clock, runs } = repeated({ jitter: 0.5 });
    let ms = 0;
    for (; runs.length === 0; ms += 1) clock.advance(1);
    return ms;
  });
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(50);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(151);
  expect(new Set(pauses).size).toBeGreaterThan(30);
});

test.each([0, 1, 2, 3, 4, 5, 6, 7])('whoever asks %d microtasks after a run stops none of the next', async (turns) => {
  const { clock, run, runs, end } = repeated({ firstMs: null });
  void run();
  const asked = (async () => {
    await runs[0]?.promise;
    for (let turn = 0; turn < turns; turn += 1) await null;
    void run();
  })();
  await end();
  await asked;
  clock.advance(100);
  expect(runs).toHaveLength(2);
});
