// How far beyond a limit eight processes go, what a process that is killed loses, and how soon a narrowed limit holds. By
// the clock of this machine, so alone.

import { expect, test } from 'bun:test';
import {
  awayFromMidnight,
  busiestRate,
  CALLERS_EACH,
  callers,
  limitedKey,
  type Seen,
  startSeveral,
  sumOf,
  use,
  usesToday,
} from '../../support/callers.ts';
import { keysCommand } from '../../support/keys-command.ts';
import { startProxy } from '../../support/proxy.ts';
import { startStore } from '../../support/store-mode.ts';
import { waitFor, waitForWithin } from '../../support/wait-for.ts';

const PROCESSES = 8;
const LIMIT = 4000;
/** Far more than is called before the kill. */
const KILLED_LIMIT = 100_000;
const CALM = { RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: '60000' };
const WRITES = 'INTO key_counts';
/** With this between the calls of each caller the bound is far below that of processes which don't share. */
const PAUSE_MS = 40;
/** How late the second of two equal statements comes: others were carried out meanwhile. */
const LATE_MS = 700;

/** An exchange that takes less than 250 ms: twice n × (L/32 + r × 0.5 s); each that is later by d adds n × r × d. */
const beyondMax = (rate: number, lateS = 0) =>
  Math.min((PROCESSES - 1) * LIMIT, 2 * PROCESSES * (LIMIT / 32 + rate * 0.5) + PROCESSES * rate * lateS);

async function started8(started: AsyncDisposableStack, mode: 'embedded' | 'remote', faults: boolean) {
  await awayFromMidnight();
  const store = started.use(await startStore(mode)).env();
  if (!faults) return startOn({ ...store, ...CALM });
  const proxy = started.use(await startProxy(store.DATABASE_URL ?? '', { delayMs: 100 }));
  const servers = await startOn({ ...store, ...CALM, DATABASE_URL: proxy.url });
  return { ...servers, proxy };

  async function startOn(env: Record<string, string>) {
    return { env, servers: await startSeveral(started, PROCESSES, env), proxy: null };
  }
}

test.each([
  ['embedded', false],
  ['remote', false],
  ['remote', true],
] as const)(
  'eight processes (%s, faults: %p) accept at least the limit, at most the bound, and count each use once',
  async (mode, faults) => {
    await using started = new AsyncDisposableStack();
    const { env, servers, proxy } = await started8(started, mode, faults);
    const [first, second] = servers as [(typeof servers)[0], (typeof servers)[0]];
    proxy?.distort(WRITES, LATE_MS);
    const lateS = faults ? 1 : 0;
    const counted = [];
    for (const [limits, pauseMs] of [
      [{ rateLimit: { requests: LIMIT, window: '366d' } }, 0],
      [{ quota: { requests: LIMIT, period: 'month' } }, PAUSE_MS],
    ] as const) {
      const even = await limitedKey(first, limits);
      const seen = await Promise.all(servers.map((server) => callers(server, even, { pauseMs })));
      expect(seen.flatMap(({ others }) => others)).toEqual([]);
      const accepted = sumOf(seen);
      const rate = busiestRate(seen);
      console.log(`${mode} ${faults}: ${accepted} of ${LIMIT}, ${rate}/s, bound ${LIMIT + beyondMax(rate, lateS)}`);
      expect(accepted).toBeGreaterThanOrEqual(LIMIT);
      expect(accepted).toBeLessThanOrEqual(LIMIT + beyondMax(rate, lateS));
      for (const { remaining } of seen) {
        expect(Math.max(...remaining)).toBeLessThan(LIMIT);
        expect(Math.min(...remaining)).toBe(0);
      }
      counted.push([even, accepted] as const);

      const skewed = await limitedKey(first, limits);
      const alone = await callers(second, skewed);
      expect([alone.accepted, alone.others]).toEqual([LIMIT, []]);
      await waitFor(async () => (await usesToday(first, skewed)) === LIMIT);
      const others = await Promise.all(servers.map((server) => callers(server, skewed)));
      expect(sumOf(others)).toBe(0);
      counted.push([skewed, LIMIT] as const);
    }
    // Wherever it is asked, once all is exchanged.
    for (const server of servers) {
      for (const [key, accepted] of counted) await waitFor(async () => (await usesToday(server, key)) === accepted);
    }
    await Promise.all(servers.map((server) => server.stop()));
    const [next] = await startSeveral(started, 1, env);
    if (next === undefined) throw new Error('none started');
    for (const [key, accepted] of counted) {
      expect(await usesToday(next, key)).toBe(accepted);
      expect((await use(next, key)).status).toBe(429);
    }
  },
  240_000,
);

test.each(['embedded', 'remote'] as const)(
  'a narrowed limit (%s) holds within REVOCATION_LAG_MAX_MS in eight processes',
  async (mode) => {
    await using started = new AsyncDisposableStack();
    await awayFromMidnight();
    const env = {
      ...started.use(await startStore(mode)).env(),
      RATE_LIMIT_REQUESTS: '0',
      REVOCATION_LAG_MAX_MS: '1000',
    };
    const servers = await startSeveral(started, PROCESSES, env);
    const [first] = servers as [(typeof servers)[0]];
    const key = await limitedKey(first, { rateLimit: { requests: LIMIT, window: '366d' } });
    for (const server of servers) expect((await use(server, key)).status).toBe(200);
    const narrowed = await keysCommand(env, ['update', key.id, '--limit', '1/366d']);
    expect(narrowed.code).toBe(0);
    await Promise.all(
      servers.map((server) => waitForWithin(1000, async () => (await use(server, key)).status === 429)),
    );
  },
  240_000,
);

test.each(['embedded', 'remote'] as const)(
  'kill -9 under load (%s) loses at most the bound, and a SIGTERM nothing',
  async (mode) => {
    await using started = new AsyncDisposableStack();
    await awayFromMidnight();
    const env = { ...started.use(await startStore(mode)).env(), ...CALM };
    const [killed, stopped, other] = await startSeveral(started, 3, env);
    if (killed === undefined || stopped === undefined || other === undefined) throw new Error('not started');
    const limits = { rateLimit: { requests: KILLED_LIMIT, window: '366d' } };
    const [lost, kept] = [await limitedKey(other, limits), await limitedKey(other, limits)];
    const ends = { done: ({ others }: Seen) => others.length > 0 };
    const work = Promise.all([callers(killed, lost, ends), callers(stopped, kept, ends)]);
    await waitFor(async () => (await usesToday(other, lost)) > 0 && (await usesToday(other, kept)) > 0);
    await killed.kill();
    expect(await stopped.stop()).toBe(0);
    const [atKilled, atStopped] = await work;
    const shown = await usesToday(other, lost);
    const missing = atKilled.accepted - shown;
    const rate = busiestRate([atKilled]);
    console.log(`${mode}: of ${atKilled.accepted} calls at ${rate}/s, ${missing} lost by kill -9`);
    expect(missing).toBeLessThanOrEqual(Math.min(rate * 3, KILLED_LIMIT / 32 + rate * 0.25));
    expect(shown).toBeLessThanOrEqual(atKilled.accepted + CALLERS_EACH);
    // A call that was counted may have had no response.
    const uses = await usesToday(other, kept);
    expect(uses).toBeGreaterThanOrEqual(atStopped.accepted);
    expect(uses).toBeLessThanOrEqual(atStopped.accepted + CALLERS_EACH);
  },
  240_000,
);
