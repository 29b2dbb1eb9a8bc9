// What a new key costs a full cache.

import { expect, test } from 'bun:test';
import { createLruCache } from '../../../src/ground/cache.ts';

test('a million new keys cost no more each when it is full than when it is empty', () => {
  const fill = (count: number, entries: number) => {
    const recent = createLruCache<number>({ entries });
    const from = process.cpuUsage(); // not elapsed time, some of which others may take
    for (let n = 0; n < count; n += 1) recent.set(`key ${n}`, n);
    return process.cpuUsage(from).user;
  };
  fill(1_000_000, 20_000);
  expect(fill(1_000_000, 20_000)).toBeLessThan(5 * fill(1_000_000, 2_000_000));
});
