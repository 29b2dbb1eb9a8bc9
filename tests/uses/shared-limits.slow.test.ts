// A limit or quota that processes share, over schedules of any kind: what is promised of how early a call is refused, how
// many are accepted beyond the limit, and what is counted in the end. Real processes are in
// ../lab/load/limit-bounds.alone.test.ts.

import { afterAll, expect, setDefaultTimeout, test } from 'bun:test';
import { join } from 'node:path';
import fc from 'fast-check';
import { countedOf } from '../store/stored.ts';
import { testClock } from '../support/clock.ts';
import { temporaryFolder } from '../support/folder.ts';
import { type Counted, type CountingProcess, insertCounted, openStill, processesOn, type Way } from './shared-usage.ts';

setDefaultTimeout(180_000);

const RUNS = 60;
const TICK_MS = 50;
const TICKS_PER_PHASE = 60;
const WINDOW_S = 20;
/** A month and a day end 3 s later. */
const START_MS = Date.UTC(2028, 1, 29, 23, 59, 57);
const HALF_SECOND_TICKS = 500 / TICK_MS;

const path = join(temporaryFolder(), 'keys.db');
const store = await openStill({ mode: 'embedded', path });
afterAll(() => store.close());

/** The number of the period in which a time lies. */
const PERIODS = {
  limit: (ms: number) => Math.floor(ms / (WINDOW_S * 1000)),
  day: (ms: number) => Math.floor(ms / 86_400_000),
  month: (ms: number) => new Date(ms).getUTCFullYear() * 12 + new Date(ms).getUTCMonth(),
} as const;

const NONE = { rateLimit: null, quota: null };

/** Keys with a limit or quota: one that has it, or two of an owner who has it for both together. */
async function keysWith({ kind, requests, holder }: Schedule): Promise<readonly Counted[]> {
  const limits =
    kind === 'limit'
      ? { ...NONE, rateLimit: { requests, windowS: WINDOW_S } }
      : { ...NONE, quota: { requests, period: kind } };
  if (holder === 'key') return [await insertCounted(store, limits)];
  const first = await insertCounted(store, NONE);
  await store.db.write({
    sql: 'INSERT INTO owners (owner, limit_requests, limit_window_s, quota_requests, quota_period) VALUES (?, ?, ?, ?, ?)',
    args: [
      first.userId,
      limits.rateLimit?.requests ?? null,
      limits.rateLimit?.windowS ?? null,
      limits.quota?.requests ?? null,
      limits.quota?.period ?? null,
    ],
  });
  return [first, await insertCounted(store, NONE, first.userId)];
}

const way = fc.record({
  delayMs: fc.constantFrom(0, 40, 200, 900),
  lost: fc.constantFrom(undefined, undefined, 'request' as const, 'response' as const),
  againMs: fc.constantFrom(undefined, undefined, 100, 700, 4000),
});
/** An exchange is two statements, and takes less than 250 ms. */
const prompt = fc.record({ delayMs: fc.constantFrom(0, 40, 120) });

/** For some seconds: how many calls each process gets in a tick, and what happens to the process that a number names. */
const phase = fc.record({
  calls: fc.array(fc.constantFrom(0, 1, 2, 10), { minLength: 4, maxLength: 4 }),
  ends: fc.option(fc.record({ which: fc.nat(3), how: fc.constantFrom('kill' as const, 'stop' as const) })),
});

const schedule = (ways: fc.Arbitrary<Way>) =>
  fc.record({
    kind: fc.constantFrom('limit' as const, 'day' as const, 'month' as const),
    holder: fc.constantFrom('key' as const, 'owner' as const),
    cost: fc.constantFrom(1, 1, 3),
    requests: fc.constantFrom(1, 7, 32, 100, 500, 1000),
    skewsMs: fc.array(fc.integer({ min: 0, max: 990 }), { minLength: 1, maxLength: 4 }),
    phases: fc.array(phase, { minLength: 1, maxLength: 7 }),
    ways: fc.array(ways, { minLength: 1, maxLength: 7 }),
  });
type Schedule = typeof schedule extends (ways: never) => fc.Arbitrary<infer S> ? S : never;

/** What one process did, until it ended. */
interface Life {
  readonly process: CountingProcess;
  readonly skewMs: number;
  /** By period. */
  readonly accepted: Map<number, number>;
  readonly acceptedInTicks: number[];
}

/** Runs it, and says what was accepted. Throws if a call was refused too early. */
async function run(plan: Schedule) {
  const periodOf = PERIODS[plan.kind];
  const clock = testClock(START_MS);
  const records = await keysWith(plan);
  const processes = processesOn(store, clock, ...records);
  let calls = 0;
  let sent = 0;
  const nextWay = () => plan.ways[sent++ % plan.ways.length] ?? { delayMs: 0 };
  processes.setWay(nextWay);
  const lives: Life[] = [];
  const total = (period: number) => lives.reduce((sum, { accepted }) => sum + (accepted.get(period) ?? 0), 0);

  async function begin(skewMs: number): Promise<Life> {
    const life = { process: await processes.start(skewMs), skewMs, accepted: new Map(), acceptedInTicks: [] };
    lives.push(life);
    return life;
  }

  function call({ process: { admit, clock: own }, accepted }: Life): boolean {
    const period = periodOf(own.nowMs());
    calls += 1;
    const { id = '' } = records[calls % records.length] ?? {};
    const isAdmitted = admit(id, plan.cost).refusal === null;
    if (isAdmitted) accepted.set(period, (accepted.get(period) ?? 0) + plan.cost);
    else expect(total(period)).toBeGreaterThanOrEqual(plan.requests - (plan.cost - 1));
    return isAdmitted;
  }

  const alive: Life[] = [];
  for (const skewMs of plan.skewsMs) alive.push(await begin(skewMs));
  for (const { calls: asked, ends } of plan.phases) {
    for (let tick = 0; tick < TICKS_PER_PHASE; tick += 1) {
      for (const [index, life] of alive.entries()) {
        let accepted = 0;
        for (let left = asked[index] ?? 0; left > 0; left -= 1) if (call(life)) accepted += plan.cost;
        life.acceptedInTicks.push(accepted);
      }
      await processes.pass(TICK_MS);
    }
    if (ends === null) continue;
    const index = ends.which % alive.length;
    const ending = alive[index];
    if (ending === undefined) continue;
    if (ends.how === 'kill') ending.process.kill();
    else await stop(ending);
    alive[index] = await begin(ending.skewMs);
  }
  for (const life of alive) await stop(life);

  /** While nothing is lost: without the database a stop loses what it could not write. */
  async function stop({ process: { usage } }: Life): Promise<void> {
    processes.setWay(() => ({ delayMs: 0 }));
    let isStopped = false;
    const stopping = usage.stop().then(() => {
      isStopped = true;
    });
    while (!isStopped) await processes.pass(TICK_MS);
    await stopping;
    processes.setWay(nextWay);
  }

  const reader = await processes.start();
  const shown = await reader.usage.usesOf(records.map(({ id }) => id));
  const periods = new Set(lives.flatMap(({ accepted }) => [...accepted.keys()]));
  return {
    lives,
    accepted: [...periods].map(total),
    busiest: Math.max(...lives.map(busiestRate)),
    shown: sumOf(records.flatMap(({ id }) => shown(id).uses?.last30Days ?? [])),
    counted: plan.holder === 'key' ? undefined : await countedOf(store.db, records[0]?.userId ?? ''),
  };
}

/** Calls a second: the most in half a second, doubled. */
const busiestRate = ({ acceptedInTicks }: Life): number =>
  2 *
  Math.max(
    0,
    ...acceptedInTicks.map((_, tick) =>
      acceptedInTicks.slice(tick, tick + HALF_SECOND_TICKS + 1).reduce((sum, count) => sum + count, 0),
    ),
  );

/** Far more calls than the limit, but few enough in half a second for the bound to be far below what it is without sharing. */
const SLOW: Schedule = {
  kind: 'limit',
  holder: 'owner',
  cost: 1,
  requests: 500,
  skewsMs: [0, 0, 300, 900],
  phases: Array.from({ length: 7 }, () => ({ calls: [2, 2, 2, 2], ends: null })),
  ways: [{ delayMs: 120 }],
};
const FAST: Schedule = {
  ...SLOW,
  requests: 1000,
  phases: Array.from({ length: 2 }, () => ({ calls: [10, 10, 10, 10], ends: null })),
};

const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

test('prompt exchanges: nobody is refused too early, and no more are accepted, or lost by a kill, than the bound', async () => {
  await fc.assert(
    fc.asyncProperty(schedule(prompt), async (plan) => {
      const { lives, accepted, busiest, shown, counted = shown } = await run(plan);
      const beyond = 2 * lives.length * (plan.requests / 32 + busiest * 0.5);
      const most = Math.min(lives.length * plan.requests, plan.requests + beyond);
      for (const count of accepted) expect(count).toBeLessThanOrEqual(most);
      const killed = plan.phases.filter(({ ends }) => ends?.how === 'kill').length;
      const lostMost = killed * Math.min(busiest * 3.25, plan.requests / 32 + busiest * 0.5);
      expect(sumOf(accepted) - counted).toBeLessThanOrEqual(lostMost);
    }),
    { numRuns: RUNS, examples: [[SLOW], [FAST]] },
  );
});

test('exchanges that are late, lost and doubled: as much is counted as was accepted, at most L by each process', async () => {
  await fc.assert(
    fc.asyncProperty(schedule(way), async (plan) => {
      const { lives, accepted, shown, counted = shown } = await run(plan);
      for (const count of accepted) expect(count).toBeLessThanOrEqual(lives.length * plan.requests);
      const all = sumOf(accepted);
      const isKilled = plan.phases.some(({ ends }) => ends?.how === 'kill');
      expect(shown).toBeLessThanOrEqual(all);
      if (!isKilled) expect([shown, counted]).toEqual([all, all]);
    }),
    { numRuns: RUNS },
  );
});
