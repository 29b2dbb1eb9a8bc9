// Lines that callers can cause at will: one a second for each bucket, 100 a second in all.

import { expect, test } from 'bun:test';
import { testClock } from '../support/clock.ts';
import { collectedLog } from '../support/collected-log.ts';

const LINES_PER_S = 100;

/** Has lines written for buckets; says of each whether it was, and if so, how many were left out before. */
function writer() {
  const clock = testClock();
  const { log, chunks, lines } = collectedLog('warn', clock);
  async function suppressedOf(...buckets: string[]): Promise<(number | null)[]> {
    chunks.length = 0;
    for (const bucket of buckets) log.warnThrottled('request refused', bucket, { bucket });
    const found = new Map<string, number>((await lines()).map(({ bucket, suppressed }) => [bucket, suppressed]));
    return buckets.map((bucket) => {
      const suppressed = found.get(bucket) ?? null;
      found.delete(bucket); // the same bucket once more had no line
      return suppressed;
    });
  }
  return { clock, suppressedOf };
}

const addresses = (count: number) => Array.from({ length: count }, (_, n) => `address ${n}`);

test('a flood from many addresses writes 100 lines at once, and 100 more each second', async () => {
  const { clock, suppressedOf } = writer();
  const written = async () => (await suppressedOf(...addresses(300))).filter((line) => line !== null);
  expect(await written()).toEqual(Array(LINES_PER_S).fill(0));
  clock.advance(999);
  expect(await written()).toHaveLength(99);
  clock.advance(1);
  expect(await written()).toHaveLength(1);
});

test('what was left out for the sake of others is counted too', async () => {
  const { clock, suppressedOf } = writer();
  await suppressedOf(...addresses(LINES_PER_S));
  expect(await suppressedOf('late', 'late')).toEqual([null, null]);
  clock.advance(10);
  expect(await suppressedOf('late')).toEqual([2]);
  clock.advance(1000);
  expect(await suppressedOf('late')).toEqual([0]);
});

test('of more than 10,000 buckets, those that were quiet the longest are forgotten', async () => {
  const { clock, suppressedOf } = writer();
  expect(await suppressedOf('first', 'first')).toEqual([0, null]);
  await suppressedOf(...addresses(10_000));
  clock.advance(1000);
  expect(await suppressedOf('first')).toEqual([0]); // and not 1
});
