// Single-flight: who shares a run, and when the next one starts.

import { expect, test } from 'bun:test';
import { singleFlight } from '../../src/lib/single-flight.ts';

test('all who ask while a run is under way share it; the next to ask starts another', async () => {
  const runs: PromiseWithResolvers<string>[] = [];
  const flight = singleFlight(() => {
    const run = Promise.withResolvers<string>();
    runs.push(run);
    return run.promise;
  });
  expect(flight.underWay).toBeUndefined();
  const together = [flight.run(), flight.run()];
  expect(flight.underWay).toBe(together[0]);
  runs[0]?.resolve('first');
  expect(await Promise.all(together)).toEqual(['first', 'first']);
  expect(flight.underWay).toBeUndefined();
  const next = flight.run();
  runs[1]?.resolve('second');
  expect(await next).toBe('second');
  expect(runs).toHaveLength(2);
});

test('a run that fails fails for all who share it, and not for the next', async () => {
  let starts = 0;
  const flight = singleFlight(async () => {
    starts += 1;
    if (starts === 1) throw new Error('first');
    return starts;
  });
  const outcomes = await Promise.allSettled([flight.run(), flight.run()]);
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await flight.run()).toBe(2);
});
