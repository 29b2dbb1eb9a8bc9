// What is stored of counts: how many rows they take, and that no use is lost or counted twice.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import { windowAt } from '../../src/ground/limits/rates.ts';
import type { Store } from '../../src/store/open.ts';
import { removeOld } from '../../src/store/upkeep.ts';
import { testClock } from '../support/clock.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startPrimary } from '../support/template.ts';
import { type CountingProcess, insertCounted, openStill, processesOn } from '../uses/shared-usage.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const DAY_MS = 86_400_000;
const WINDOW_S = 366 * 86_400;
const USAGE_DAYS = 31;
/** Longer than from a first use to its exchange. */
const EXCHANGED_MS = 4000;
/** In the window before this one: what is summed and removed goes by the database's clock too, and must be over there. */
const START_MS = (windowAt(Date.now(), WINDOW_S) - 1) * WINDOW_S * 1000 + 10 * DAY_MS;

const rowsOf = async ({ db }: Store, windows: 'days' | 'others'): Promise<number> => {
  const sql =
    windows === 'others'
      ? 'SELECT count(*) AS n FROM key_counts'
      : `SELECT count(*) AS n FROM key_months, json_each(json_array(${Array.from({ length: 31 }, (_, at) => `d${at + 1}`)})) WHERE value > 0`;
  return Number((await db.read({ sql }))[0]?.n);
};

describe.each(rows(['embedded', 'remote'] as const, 1))('on a store that is %s', (mode) => {
  async function opened(started: AsyncDisposableStack): Promise<Store> {
    const remote = mode === 'remote' ? started.use(await startPrimary()) : null;
    const config =
      remote === null
        ? ({ mode: 'embedded', path: join(temporaryFolder(), 'keys.db') } as const)
        : ({ mode: 'remote', url: remote.url, authToken: null, replicaFile: null } as const);
    const store = await openStill(config);
    started.defer(store.close);
    return store;
  }

  async function stop({ usage }: CountingProcess, pass: () => Promise<void>): Promise<void> {
    let isStopped = false;
    void usage.stop().then(() => {
      isStopped = true;
    });
    while (!isStopped) await pass();
  }

  test('processes that come and go for days leave few rows, and no use of theirs is lost or counted twice', async () => {
    await using started = new AsyncDisposableStack();
    const store = await opened(started);
    const [days, restarts, uses, requests] = [12, 3, 5, 300];
    const clock = testClock(START_MS);
    const record = await insertCounted(store, { rateLimit: { requests, windowS: WINDOW_S }, quota: null });
    const processes = processesOn(store, clock, record);
    const pass = () => processes.pass(100);
    const use = ({ admit }: CountingProcess, times: number) =>
      Array.from({ length: times }, () => admit(record.id)).filter(({ refusal }) => refusal === null).length;
    const lasting = await processes.start();
    let all = 0;
    for (let day = 0; day < days; day += 1) {
      for (let restart = 0; restart < restarts; restart += 1) {
        const brief = await processes.start();
        all += use(brief, uses) + use(lasting, 1);
        await stop(brief, pass);
      }
      const upkeep = { clock, eventDays: 400, usageDays: USAGE_DAYS };
      await Promise.all([1, 2].map(() => removeOld(store.db, upkeep)));
      await processes.pass(DAY_MS);
    }
    expect(all).toBe(days * restarts * (uses + 1));
    expect([await rowsOf(store, 'others'), await rowsOf(store, 'days')]).toEqual([1, days]);
    const next = await processes.start();
    const shown = await next.usage.usesOf([record.id]);
    expect(shown(record.id).uses?.last30Days.reduce((sum, count) => sum + count, 0)).toBe(all);
    expect(use(next, requests)).toBe(requests - all);
    await stop(next, pass);
    expect(use(lasting, 1)).toBe(1);
    await processes.pass(EXCHANGED_MS);
    expect(use(lasting, 1)).toBe(0);
  });

  test('a key has two rows for its limit, whoever counts, however short the window is', async () => {
    await using started = new AsyncDisposableStack();
    const store = await opened(started);
    const clock = testClock(START_MS);
    const record = await insertCounted(store, { rateLimit: { requests: 3, windowS: 10 }, quota: null });
    const processes = processesOn(store, clock, record);
    const both = [await processes.start(), await processes.start()];
    for (let window = 0; window < 20; window += 1) {
      for (const { admit } of both) expect(admit(record.id).refusal).toBeNull();
      await processes.pass(5000);
      await processes.pass(5000);
    }
    expect(await rowsOf(store, 'others')).toBe(2);
    expect(await rowsOf(store, 'days')).toBe(1);
  });

  test('the total of a window has no units of a window of another length with the same number', async () => {
    await using started = new AsyncDisposableStack();
    const store = await opened(started);
    const { id } = await insertCounted(store, { rateLimit: null, quota: null });
    const windows = [60, 3600].map((windowS, at) => [id, null, windowS, 7, 7, at + 1, null] as const);
    await store.addUses({ instance: 'one', number: 1, windows });
    expect(await store.totalsOf(windows)).toEqual([1, 2]);
  });

  test('31 days of three months are shown by day, each month is their sum, and a deletion keeps each day', async () => {
    await using started = new AsyncDisposableStack();
    const store = await opened(started);
    const { id, userId } = await insertCounted(store, { rateLimit: null, quota: null });
    const day = (month: number, date: number) => Date.UTC(2027, month - 1, date) / DAY_MS;
    const days = [day(1, 30), day(1, 31), day(2, 1), day(2, 28), day(3, 1)];
    const windows = days.map((number, at) => [id, null, 86_400, number, number, at + 1, null] as const);
    for (const instance of ['one', 'other', 'one']) await store.addUses({ instance, number: 1, windows });
    const units = new Map(days.map((number, at) => [number, 2 * (at + 1)]));
    expect(await store.totalsOf(windows)).toEqual([...units.values()]);
    const months = [
      [id, null, 86_400, day(1, 1), day(1, 31), 0, null],
      [id, null, 86_400, day(2, 1), day(2, 28), 0, null],
      [id, null, 86_400, day(4, 1), day(4, 30), 0, null],
    ] as const;
    expect(await store.totalsOf(months)).toEqual([2 + 4, 6 + 8, 0]);
    const shown = await store.usesByDay({ keyIds: [id], owners: [userId] }, day(1, 30));
    expect([shown.key.get(id), shown.keys.get(userId)]).toEqual([units, units]);
    const later = await store.usesByDay({ keyIds: [id], owners: [userId] }, day(1, 31));
    units.delete(day(1, 30));
    expect([later.key.get(id), later.keys.get(userId)]).toEqual([units, units]);
    await store.remove(userId, id, { how: 'command', actor: null, requestId: null, address: null });
    const ended = await store.db.read({ sql: 'SELECT owner, day, units FROM ended_uses ORDER BY day' });
    expect(ended.map(({ owner, day, units }) => [owner, Number(day), Number(units)])).toEqual(
      days.map((number, at) => [userId, number, 2 * (at + 1)]),
    );
  });

  test('a key that is deleted takes its counts with it, and what arrives for it later is dropped', async () => {
    await using started = new AsyncDisposableStack();
    const store = await opened(started);
    const clock = testClock(START_MS);
    const origin = { how: 'command', actor: null, requestId: null, address: null } as const;
    const limits = { rateLimit: { requests: 3, windowS: 60 }, quota: null };
    const record = await insertCounted(store, limits);
    const processes = processesOn(store, clock, record);
    const process = await processes.start();
    expect(process.admit(record.id).refusal).toBeNull();
    await processes.pass(EXCHANGED_MS);
    expect([await rowsOf(store, 'days'), await rowsOf(store, 'others')]).toEqual([1, 1]);
    await store.remove(record.userId, record.id, origin);
    const successor = await insertCounted(store, limits); // its row has the same number
    expect(process.admit(record.id).refusal).toBeNull(); // of a call that was under way
    await processes.pass(EXCHANGED_MS);
    expect([await rowsOf(store, 'days'), await rowsOf(store, 'others')]).toEqual([0, 0]);
    const shown = await process.usage.usesOf([successor.id]);
    expect(shown(successor.id).uses).toBeNull();
  });
});
