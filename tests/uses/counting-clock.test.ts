// Counts of uses when the clock is not as it should be, and over the ends of days and months: no quota is given twice, and
// none is lost for longer than its period.

import { afterAll, expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { testClock } from '../support/clock.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type CountingProcess, insertCounted, openStill, processesOn, type Quota } from './shared-usage.ts';

setDefaultTimeout(180_000);

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Longer than from a first use to its exchange. */
const EXCHANGED_MS = 4000;

const store = await openStill({ mode: 'embedded', path: join(temporaryFolder(), 'keys.db') });
afterAll(() => store.close());

async function counting(startMs: number, quota: Quota | null, count = 1) {
  const clock = testClock(startMs);
  const record = await insertCounted(store, { rateLimit: null, quota });
  const processes = processesOn(store, clock, record);
  const all: CountingProcess[] = [];
  for (let started = 0; started < count; started += 1) all.push(await processes.start());
  /** How many of so many calls are admitted. */
  const calls = ({ admit }: CountingProcess, asked: number) =>
    Array.from({ length: asked }, () => admit(record.id)).filter(({ refusal }) => refusal === null).length;
  /** Each process exchanges twice in EXCHANGED_MS: who did so at the same moment as another is told in the second. */
  async function exchange(): Promise<void> {
    await processes.pass(EXCHANGED_MS / 4);
    for (const { note } of all) note(record.id);
    await processes.pass((EXCHANGED_MS * 3) / 4);
  }
  const shown = async ({ usage }: CountingProcess) => (await usage.usesOf([record.id]))(record.id).uses?.last30Days;
  return { clock, processes, all: all as [CountingProcess, CountingProcess], calls, exchange, shown };
}

test.each([
  ['a day', 'day', Date.UTC(2026, 10, 24)],
  ['a month of 30 days', 'month', Date.UTC(2026, 11, 1)],
  ['a year', 'month', Date.UTC(2027, 0, 1)],
  ['February in a leap year', 'month', Date.UTC(2028, 2, 1)],
  ['February in another', 'month', Date.UTC(2026, 2, 1)],
] as const)('%s ends at its last millisecond, and a new quota begins, in each process', async (_, period, endMs) => {
  const { processes, all, calls, exchange } = await counting(endMs - EXCHANGED_MS - 1, { requests: 10, period }, 2);
  const [first, second] = all;
  expect([calls(first, 4), calls(second, 6)]).toEqual([4, 6]);
  await exchange();
  expect([calls(first, 20), calls(second, 20)]).toEqual([0, 0]);
  await processes.pass(1);
  expect([calls(first, 4), calls(second, 6)]).toEqual([4, 6]);
  await exchange();
  expect([calls(first, 20), calls(second, 20)]).toEqual([0, 0]);
});

test('a machine that sleeps into the next period has its quota at once, and learns what others used meanwhile', async () => {
  const quota = { requests: 10, period: 'month' } as const;
  const { clock, processes, all, calls, exchange } = await counting(Date.UTC(2026, 10, 29, 12), quota, 2);
  const [first, second] = all;
  expect([calls(first, 3), calls(second, 7)]).toEqual([3, 7]);
  await exchange();
  expect(calls(first, 9)).toBe(0);
  clock.sleep(3 * DAY_MS); // until December 2
  expect(calls(second, 8)).toBe(8);
  await processes.pass(EXCHANGED_MS);
  clock.sleep(2 * DAY_MS);
  expect(calls(first, 1)).toBe(1);
  await processes.pass(EXCHANGED_MS);
  expect(calls(first, 9)).toBe(1);
});

test('a wall clock that is set back gives no quota twice, and takes none for longer than its period', async () => {
  const midnightMs = Date.UTC(2026, 10, 24);
  const { clock, processes, all, calls } = await counting(midnightMs - HOUR_MS, { requests: 5, period: 'day' });
  const [first] = all;
  expect(calls(first, 9)).toBe(5);
  await processes.pass(HOUR_MS);
  expect(calls(first, 3)).toBe(3);
  await processes.pass(EXCHANGED_MS);
  clock.setNow(midnightMs - HOUR_MS); // the day before, again
  expect(calls(first, 9)).toBe(2);
  await processes.pass(HOUR_MS + EXCHANGED_MS);
  expect(calls(first, 9)).toBe(0);
  clock.setNow(midnightMs - 30 * DAY_MS);
  expect(calls(first, 9)).toBe(0);
  await processes.pass(DAY_MS);
  expect(calls(first, 9)).toBe(5); // of that day, long ago
});

test('a process that starts after the wall clock was set back goes on with the counts of that day', async () => {
  const { clock, processes, all, calls } = await counting(Date.UTC(2026, 10, 24, 1), { requests: 5, period: 'day' });
  const [first] = all;
  expect(calls(first, 4)).toBe(4);
  await processes.pass(DAY_MS);
  expect(calls(first, 4)).toBe(4);
  await first.usage.stop();
  clock.setNow(Date.UTC(2026, 10, 24, 2));
  const next = await processes.start();
  expect(calls(next, 9)).toBe(1);
});

test('a wall clock that was a day ahead, and is set right, has used the quota of the day to come', async () => {
  const { clock, processes, all, calls } = await counting(Date.UTC(2026, 10, 24, 1), { requests: 5, period: 'day' });
  const [first] = all;
  expect(calls(first, 2)).toBe(2);
  await processes.pass(EXCHANGED_MS);
  clock.setNow(clock.nowMs() + DAY_MS);
  expect(calls(first, 4)).toBe(4);
  await processes.pass(EXCHANGED_MS);
  clock.setNow(clock.nowMs() - DAY_MS);
  expect(calls(first, 9)).toBe(1);
  await processes.pass(DAY_MS);
  expect(calls(first, 9)).toBe(0);
  await processes.pass(DAY_MS);
  expect(calls(first, 9)).toBe(5);
});

test('uses of days over which the database was away are shown, and written for their days when it is back', async () => {
  const { processes, all, calls, shown } = await counting(Date.UTC(2026, 10, 24, 12), null, 2);
  const [first, second] = all;
  processes.setWay(() => ({ delayMs: 0, lost: 'request' }));
  for (const uses of [3, 2, 1]) {
    expect(calls(first, uses)).toBe(uses);
    if (uses > 1) await processes.pass(DAY_MS);
  }
  expect(await shown(first)).toEqual([1, 2, 3]);
  expect(await shown(second)).toBeUndefined();
  processes.setWay(() => ({ delayMs: 0 }));
  await processes.pass(EXCHANGED_MS);
  expect(await shown(first)).toEqual([1, 2, 3]);
  expect(await shown(second)).toEqual([1, 2, 3]);
});

test('a key that is read while its uses are on their way, and there already, has them once', async () => {
  const quota = { requests: 10, period: 'day' } as const;
  const { processes, all, calls, shown } = await counting(Date.UTC(2026, 10, 24, 12), quota, 2);
  const [first, second] = all;
  expect(calls(first, 3)).toBe(3);
  processes.setWay(() => ({ delayMs: 2000 }));
  await processes.pass(EXCHANGED_MS); // it is sent
  await processes.pass(1000); // and carried out; the response is on its way
  expect(await shown(second)).toEqual([3]);
  processes.setWay(() => ({ delayMs: 0 }));
  await first.read();
  expect(await shown(first)).toEqual([3]);
  expect(calls(first, 20)).toBe(7);
});

test('a limit of which each use is a large part has counts exchanged four times a second, and no more often', async () => {
  const { processes, all, calls } = await counting(Date.UTC(2026, 10, 24, 12), { requests: 32, period: 'day' });
  let statements = 0;
  processes.setWay(() => {
    statements += 1;
    return { delayMs: 0 };
  });
  for (let call = 0; call < 20; call += 1) {
    expect(calls(all[0], 1)).toBe(1);
    await processes.pass(50);
  }
  expect(statements).toBe(2 * 4); // a write and a read each
});

test('what was read of a day that is over when it arrives takes nothing from the next', async () => {
  const midnightMs = Date.UTC(2026, 10, 25);
  const quota = { requests: 5, period: 'day' } as const;
  const { processes, all, calls } = await counting(midnightMs - 2 * EXCHANGED_MS, quota, 2);
  const [first, second] = all;
  expect(calls(second, 5)).toBe(5);
  await processes.pass(EXCHANGED_MS);
  processes.setWay(() => ({ delayMs: 2 * EXCHANGED_MS }));
  const reading = first.read();
  await processes.pass(EXCHANGED_MS);
  await processes.pass(EXCHANGED_MS);
  await reading;
  expect(calls(first, 9)).toBe(5);
});
