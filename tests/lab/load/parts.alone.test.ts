// What a new key costs a full cache, a permit that is given back many who wait, and an owner's plan many keys in use.

import { expect, test } from 'bun:test';
import { createLruCache } from '../../../src/ground/cache.ts';
import { createFairSemaphore, type Release } from '../../../src/ground/limits/semaphore.ts';
import { testClock } from '../../support/clock.ts';
import { keyOf, usageOver } from '../../uses/usage-over.ts';

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

const PERMITS = 64;
const WAITING = 4000;
const RELEASES = 2000;

/** Returns the processor time of a release in microseconds. */
async function releaseUs(owners: number): Promise<number> {
  const permits = createFairSemaphore(
    { total: PERMITS, each: PERMITS },
    { total: WAITING, each: WAITING },
    testClock(),
  );
  const held: Release[] = [];
  const keep = (release: Release | null) => void (release && held.push(release));
  for (let n = 0; n < PERMITS; n += 1) keep(await permits.acquire('busy', 1000));
  for (let n = 0; n < WAITING; n += 1) void permits.acquire(`owner ${n % owners}`, 30_000).then(keep);
  const from = process.cpuUsage();
  for (let n = 0; n < RELEASES; n += 1) {
    held.shift()?.();
    await null; // the next one that waits takes it
  }
  expect(held.length).toBeGreaterThan(0);
  return process.cpuUsage(from).user / RELEASES;
}

test('a permit that is given back costs no more with 4,000 owners waiting than with one', async () => {
  await releaseUs(1);
  await releaseUs(WAITING);
  const [one, many] = [Math.min(await releaseUs(1), await releaseUs(1)), await releaseUs(WAITING)];
  expect(many).toBeLessThan(3 * one + 5);
});

test('what the keys of an owner have used is found among 100,000 in use by looking at each, and copying none', async () => {
  const usage = usageOver(async () => {});
  const owners = Array.from({ length: 100_000 }, (_, at) => `owner ${at}`);
  for (const owner of owners) usage.note(keyOf(owner), 1);
  const all = new Set(owners.map((userId) => ({ kind: 'key', userId })));
  async function userMs(run: () => unknown): Promise<number> {
    await run();
    const from = process.cpuUsage();
    for (let times = 0; times < 10; times += 1) await run();
    return process.cpuUsage(from).user / 10_000;
  }
  const asked = new Set(['owner 7']);
  const look = () => [...all.values().filter(({ kind, userId }) => kind === 'key' && asked.has(userId))].length;
  const passMs = Math.min(await userMs(look), await userMs(look));
  expect(await userMs(() => usage.usesOfOwners([{ owner: 'owner 7', keys: 1 }]))).toBeLessThan(4 * passMs + 2);
}, 180_000);
