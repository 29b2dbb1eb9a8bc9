// Single-flight: who shares a run, and when the next one starts.

import { describe, expect, test } from 'bun:test';
import { singleFlight, singleFlights } from '../../src/ground/cache.ts';

/** Starts a run that ends when told to. */
const start = (runs: PromiseWithResolvers<string>[]) => () => {
  const run = Promise.withResolvers<string>();
  runs.push(run);
  return run.promise;
};

test('all who ask while a run is under way share it; the next to ask starts another', async () => {
  const runs: PromiseWithResolvers<string>[] = [];
  const flight = singleFlight(start(runs));
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

describe('for each key', () => {
  type Flights = ReturnType<typeof singleFlights<string>>;
  test('a key has a run of its own, shared by all who ask for it meanwhile', async () => {
    const flights = singleFlights<string>();
    const runs: PromiseWithResolvers<string>[] = [];
    const together = [flights.run('a', start(runs)), flights.run('a', start(runs)), flights.run('b', start(runs))];
    runs[0]?.resolve('of a');
    runs[1]?.resolve('of b');
    expect(await Promise.all(together)).toEqual(['of a', 'of a', 'of b']);
    expect(runs).toHaveLength(2);
  });

  test.each([
    ['its key', (flights: Flights) => flights.forget('a')],
    ['all keys', (flights: Flights) => flights.forgetAll()],
  ])('nobody joins or keeps a run after %s was forgotten; its end leaves the next alone', async (_what, forget) => {
    const kept: string[][] = [];
    const flights = singleFlights<string>((...found) => void kept.push(found));
    const runs: PromiseWithResolvers<string>[] = [];
    const before = flights.run('a', start(runs));
    forget(flights);
    const after = flights.run('a', start(runs));
    runs[0]?.resolve('before');
    expect(await before).toBe('before');
    expect(flights.run('a', start(runs))).toBe(after);
    runs[1]?.resolve('after');
    expect(await after).toBe('after');
    expect(kept).toEqual([['a', 'after']]);
  });
});
