// Who is looked up together with whom, and who has no place.

import { expect, test } from 'bun:test';
import { createJointReads } from '../../src/keys/joint-reads.ts';

const PLACES = 4000;
const WAITING_MAX = 10_000;
const KEYS_MAX = 1000;

/** Joint reads that answer each key with itself, and what they were asked. */
function echoing() {
  const statements: (readonly string[])[] = [];
  const joint = createJointReads(async (keys) => {
    statements.push(keys);
    return (key) => key;
  });
  return { statements, read: joint.read };
}

const names = (count: number, name: string) => Array.from({ length: count }, (_, n) => `${name} ${n}`);

test('keys of one bucket share statements of at most 1,000, and each gets its own answer', async () => {
  const { statements, read } = echoing();
  const keys = names(2500, 'key');
  expect(await Promise.all(keys.map((key) => read('a', key)))).toEqual(keys);
  expect(statements.map(({ length }) => length)).toEqual([KEYS_MAX, KEYS_MAX, 500]);
});

test('keys of different buckets do not, so that none waits for those of another', async () => {
  const slow = Promise.withResolvers<void>();
  const joint = createJointReads(async (keys) => {
    if (keys.includes('slow')) await slow.promise;
    return (key) => key;
  });
  const waiting = joint.read('a', 'slow');
  expect(await joint.read('b', 'quick')).toBe('quick');
  slow.resolve();
  expect(await waiting).toBe('slow');
});

test('keys that come while a look-up is under way are in the next', async () => {
  const slow = Promise.withResolvers<void>();
  const statements: (readonly string[])[] = [];
  const joint = createJointReads(async (keys) => {
    statements.push(keys);
    await slow.promise;
    return (key) => key;
  });
  const first = joint.read('a', 'first');
  await Bun.sleep(50);
  const second = joint.read('a', 'second');
  await Bun.sleep(50);
  expect(statements).toEqual([['first']]);
  slow.resolve();
  expect(await Promise.all([first, second])).toEqual(['first', 'second']);
  expect(statements).toEqual([['first'], ['second']]);
});

test('when a bucket has more keys than places, the places are drawn, and being early or late does not help', async () => {
  const { read } = echoing();
  const answers = await Promise.all(names(4 * PLACES, 'key').map((key) => read('a', key)));
  const served = (from: number) => answers.slice(from, from + PLACES).filter((answer) => answer !== null).length;
  const quarters = [0, 1, 2, 3].map((quarter) => served(quarter * PLACES));
  expect(quarters.reduce((sum, count) => sum + count)).toBe(PLACES);
  for (const count of quarters) expect(Math.abs(count - PLACES / 4)).toBeLessThan(300); // 11 standard deviations
});

test('no more than 10,000 wait in all; once they are served there is room again', async () => {
  const { read } = echoing();
  const waiting = ['a', 'b', 'c'].flatMap((bucket) => names(PLACES, bucket).map((key) => read(bucket, key)));
  expect(await read('d', 'over')).toBe(null);
  const answers = await Promise.all(waiting);
  expect(answers.filter((answer) => answer !== null)).toHaveLength(WAITING_MAX);
  expect(await read('d', 'after')).toBe('after');
});

test('what a statement throws reaches everyone who waits for it, and later keys are looked up again', async () => {
  let broken = true;
  const joint = createJointReads(async () => {
    if (broken) throw new Error('a bug');
    return (key) => key;
  });
  const failed = await Promise.allSettled([joint.read('a', 'x'), joint.read('a', 'y')]);
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  broken = false;
  expect(await joint.read('a', 'x')).toBe('x');
});
