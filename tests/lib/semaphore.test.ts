// Waiting for the primary's writer: first come, first served, and not for ever.

import { expect, test } from 'bun:test';
import { createSemaphore } from '../../src/lib/semaphore.ts';

const LONG_MS = 10_000;

test('as many as there are permits get one at once, the others in the order they came', async () => {
  const { acquire, release } = createSemaphore(2);
  const came: number[] = [];
  const all = Array.from({ length: 4 }, (_, n) => acquire(LONG_MS).then(() => came.push(n)));
  await Promise.all(all.slice(0, 2));
  expect(came).toEqual([0, 1]);
  release();
  release();
  await Promise.all(all);
  expect(came).toEqual([0, 1, 2, 3]);
});

test('a permit is not lost to somebody who gave up waiting', async () => {
  const { acquire, release } = createSemaphore(1);
  expect(await acquire(LONG_MS)).toBe(true);
  expect(await acquire(1)).toBe(false);
  release();
  expect(await acquire(1)).toBe(true);
});
