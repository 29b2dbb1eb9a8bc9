// Shares: what all take together and each takes alone, and whose turn it is when there is nothing left.

import { describe, expect, test } from 'bun:test';
import { createFairSemaphore, type Release } from '../../../src/ground/limits/semaphore.ts';
import { testClock } from '../../support/clock.ts';

describe('a semaphore', () => {
  const nobodyWaits = (total: number, each: number) =>
    createFairSemaphore({ total, each }, { total: 0, each: 0 }, testClock());

  test('is taken up to the part of each, and up to the total, and no further', async () => {
    const semaphore = nobodyWaits(5, 2);
    for (const owner of ['alice', 'alice', 'bob', 'bob']) expect(await semaphore.acquire(owner, 0)).not.toBeNull();
    expect(await semaphore.acquire('alice', 0)).toBeNull();
    expect(await semaphore.acquire('carol', 0)).not.toBeNull();
    expect(await semaphore.acquire('carol', 0)).toBeNull();
    expect(await semaphore.acquire('dave', 0)).toBeNull();
  });

  test('gets back what was taken', async () => {
    const semaphore = nobodyWaits(2, 1);
    const release = await semaphore.acquire('alice', 0);
    await semaphore.acquire('bob', 0);
    release?.();
    expect(await semaphore.acquire('alice', 0)).not.toBeNull();
    expect(await semaphore.acquire('bob', 0)).toBeNull();
  });
});

describe('waiting for a semaphore', () => {
  /** Notes who gets one, in order. */
  function startWaiting(total: number, each = total, waiting = { total: 100, each: 100 }) {
    const clock = testClock();
    const semaphore = createFairSemaphore({ total, each }, waiting, clock);
    const got: string[] = [];
    const releases: Release[] = [];
    const come = (owner: string, name = owner) =>
      semaphore.acquire(owner, 1000).then((release) => {
        got.push(release === null ? `${name} refused` : name);
        if (release !== null) releases.push(release);
      });
    return { clock, got, releases, come };
  }

  const settled = () => new Promise((resolve) => setImmediate(resolve));

  test('another owner waits for one of the hog at most, however many of its own wait', async () => {
    const { got, releases, come } = startWaiting(1);
    for (let n = 1; n <= 5; n += 1) void come('hog', `hog ${n}`);
    void come('alice');
    await settled();
    expect(got).toEqual(['hog 1']);
    for (let n = 0; n < 3; n += 1) {
      releases.shift()?.();
      await settled();
    }
    expect(got).toEqual(['hog 1', 'hog 2', 'alice', 'hog 3']);
  });

  test('an owner that has its part leaves the rest to others who come later', async () => {
    const { got, come } = startWaiting(3, 2);
    for (let n = 1; n <= 4; n += 1) void come('hog', `hog ${n}`);
    void come('alice');
    await settled();
    expect(got).toEqual(['hog 1', 'hog 2', 'alice']);
  });

  test('ends in time, and what comes free later is not lost to who has gone', async () => {
    const { clock, got, releases, come } = startWaiting(1);
    void come('alice');
    void come('bob');
    await settled();
    clock.advance(1000);
    await settled();
    expect(got).toEqual(['alice', 'bob refused']);
    releases.shift()?.();
    void come('carol');
    await settled();
    expect(got.at(-1)).toBe('carol');
  });

  test('too many of one owner are refused at once; with too many in all, the longest queue makes room', async () => {
    const { got, come } = startWaiting(1, 1, { total: 3, each: 3 });
    for (let n = 1; n <= 5; n += 1) void come('hog', `hog ${n}`);
    await settled();
    expect(got).toEqual(['hog 1', 'hog 5 refused']);
    void come('alice');
    await settled();
    expect(got.slice(2)).toEqual(['hog 4 refused']);
    void come('bob');
    await settled();
    expect(got.slice(3)).toEqual(['hog 3 refused']);
    void come('carol');
    await settled();
    expect(got.slice(4)).toEqual(['carol refused']);
  });
});
