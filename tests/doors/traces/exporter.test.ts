// What becomes of spans when the receiver is away, slow, full or wrong: no call notices, memory is bounded, and what is
// dropped is counted.

import { expect, test } from 'bun:test';
import { type TestClock, testClock } from '../../support/clock.ts';
import { type Collector, startCollector } from '../../support/collector.ts';
import { createTestApp, type Env, metricsOf, type TestApp } from '../../support/test-app.ts';
import { advanceUntil, waitFor } from '../../support/wait-for.ts';

const METRICS_TOKEN = 'a-token-of-tests-for-metrics';
const WAITING_MAX = 2048;
const BATCH_MAX = 512;
/** Longer than each pause between two requests: so a timer says which of both it is. */
const TIMEOUT_MS = 40_000;

type WatchedClock = TestClock & { readonly timersMs: () => number[] };

/** The clock that says for how long each timer was set that neither ran nor was cancelled. */
function watchedClock(): WatchedClock {
  const clock = testClock();
  const timers = new Set<{ ms: number }>();
  const after: TestClock['after'] = (ms, run) => {
    const timer = { ms };
    timers.add(timer);
    const cancel = clock.after(ms, () => {
      timers.delete(timer);
      run();
    });
    return () => {
      timers.delete(timer);
      cancel();
    };
  };
  return { ...clock, after, timersMs: () => [...timers].map(({ ms }) => ms) };
}

async function start(collector: Pick<Collector, 'url'>, env: Env = {}) {
  const clock = watchedClock();
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_TIMEOUT: String(TIMEOUT_MS) };
  const app = await createTestApp({ clock, env: { ...settings, METRICS_TOKEN, RATE_LIMIT_REQUESTS: '0', ...env } });
  const key = (await app.keys('create', '--user', 'alice', '--name', 'n', '--scope', 'read')).trim();
  return { app, clock, key };
}

/** Waits for a timer between `minMs` and `maxMs`, moves the clock to its end, and returns how long it was. */
async function passTimer(clock: WatchedClock, minMs: number, maxMs: number): Promise<number> {
  const found = () => clock.timersMs().find((ms) => ms >= minMs && ms <= maxMs);
  await waitFor(() => found() !== undefined);
  const ms = found() ?? 0;
  clock.advance(ms);
  return ms;
}

/** The same, for the pause between two requests, whichever it is. Of a minute, a later request has less time than that. */
const passPause = (clock: WatchedClock): Promise<number> => passTimer(clock, 500, 30_000);

async function calls(app: TestApp, key: string, count: number): Promise<void> {
  for (let made = 0; made < count; made += 64) {
    const some = Array.from({ length: Math.min(64, count - made) }, () => app.useKey(key));
    for (const { status } of await Promise.all(some)) expect(status).toBe(200);
  }
}

async function droppedOf(app: TestApp): Promise<number> {
  return Number(/^mcp_keys_spans_dropped_total (\d+)$/m.exec(await metricsOf(app.url))?.[1]);
}

const dropLines = async (app: TestApp) => (await app.log()).filter(({ event }) => event === 'spans dropped');

test('512 spans are sent at once, fewer after five seconds', async () => {
  using collector = startCollector();
  const { app, key } = await start(collector);
  await calls(app, key, BATCH_MAX - 1);
  app.clock.advance(4999);
  await app.useKey(key);
  await waitFor(() => collector.spans().length === BATCH_MAX);
  await app.useKey(key);
  app.clock.advance(4999);
  expect(collector.requests).toHaveLength(1);
  app.clock.advance(1);
  await waitFor(() => collector.spans().length === BATCH_MAX + 1);
  expect(await droppedOf(app)).toBe(0);
  await app.close();
}, 180_000);

test.each<[string, () => Response]>([
  ['429', () => new Response('', { status: 429 })],
  ['502', () => new Response('', { status: 502 })],
  ['503', () => new Response('', { status: 503 })],
  ['504', () => new Response('', { status: 504 })],
])(
  '%s: the batch is sent again after a second, then doubled, at most five times, and dropped',
  async (_what, respond) => {
    using collector = startCollector();
    const { app, clock, key } = await start(collector);
    collector.respond(respond);
    await calls(app, key, 3);
    clock.advance(5000);
    for (let retries = 0; retries < 5; retries += 1) {
      await waitFor(() => collector.asked() === retries + 1);
      await passTimer(clock, (1000 * 2 ** retries) / 2, 1000 * 2 ** retries); // with its jitter
    }
    await waitFor(async () => (await droppedOf(app)) === 3);
    expect(collector.asked()).toBe(6);
    expect(await dropLines(app)).toMatchObject([{ level: 'warn', count: 3, endpoint: collector.url }]);
    await app.close();
  },
);

test('Retry-After counts, within a minute in all', async () => {
  using collector = startCollector();
  const { app, clock, key } = await start(collector);
  collector.respond(() => new Response('', { status: 429, headers: { 'retry-after': '25' } }));
  await app.useKey(key);
  clock.advance(5000);
  for (const asked of [1, 2]) {
    await waitFor(() => collector.asked() === asked);
    expect(await passPause(clock)).toBe(25_000);
  }
  await waitFor(async () => (await droppedOf(app)) === 1); // a fourth would come after more than a minute
  await app.close();
});

/** Returns how long it pauses before its second request, and so on, while the receiver responds 429 with this Retry-After. */
async function pausesMs(retryAfter: string, count: number): Promise<number[]> {
  using collector = startCollector();
  const { app, clock, key } = await start(collector);
  collector.respond(() => new Response('', { status: 429, headers: { 'retry-after': retryAfter } }));
  await app.useKey(key);
  clock.advance(5000);
  const pauses: number[] = [];
  while (pauses.length < count) pauses.push(await passPause(clock));
  await waitFor(() => collector.asked() === 1 + count);
  await app.close();
  return pauses;
}

// The clock of tests begins at 03:00 on 2 January 2026, and 5 seconds have passed.
test.each(['Fri, 02 Jan 2026 03:00:30 GMT', 'Friday, 02-Jan-26 03:00:30 GMT', 'Fri Jan  2 03:00:30 2026'])(
  'Retry-After may be a date: %s',
  async (date) => {
    expect(await pausesMs(date, 1)).toEqual([25_000]);
  },
);

test.each(['Sun, 06 Nov 1994 08:49:37 GMT', 'Fri, 99 Foo', '0', '1.5', '-1', '-3600', 'soon 2'])(
  'Retry-After: %s names no later time, and changes nothing',
  async (value) => {
    const [first = 0, second = 0, third = 0] = await pausesMs(value, 3);
    expect(first).toBeLessThanOrEqual(1000);
    expect(second).toBeWithin(1000, 2001);
    expect(third).toBeWithin(2000, 4001);
  },
);

test('a batch is dropped after a minute in all, though its last request has no response yet', async () => {
  using collector = startCollector();
  const { app, clock, key } = await start(collector, { OTEL_EXPORTER_OTLP_TIMEOUT: '50000' });
  collector.respond(() => new Promise<Response>(() => {}));
  await app.useKey(key);
  clock.advance(5000);
  await waitFor(() => collector.asked() === 1);
  clock.advance(50_000);
  const pauseMs = await passTimer(clock, 500, 1000);
  await waitFor(() => collector.asked() === 2);
  expect(await passTimer(clock, 9000, 10_000)).toBe(10_000 - pauseMs);
  await waitFor(async () => (await droppedOf(app)) === 1);
  expect(collector.asked()).toBe(2);
  await app.close();
});

const big = new Uint8Array(10 * 1024 * 1024);

test.each<[string, () => Response, number]>([
  ['400', () => new Response('', { status: 400 }), 2],
  ['401', () => new Response('', { status: 401 }), 2],
  ['500', () => new Response('', { status: 500 }), 2],
  ['a redirect, which is not followed', () => Response.redirect('http://127.0.0.1:1/elsewhere', 307), 2],
  ['a status and 10 MB', () => new Response(big, { status: 413 }), 2],
  ['200 and garbage', () => new Response('<html>'), 0],
  ['200 and 10 MB', () => new Response(big), 0],
  ['200 and a bomb', () => new Response(Bun.gzipSync(big), { headers: { 'content-encoding': 'gzip' } }), 0],
  ['some refused', () => Response.json({ partialSuccess: { rejectedSpans: '1', errorMessage: 'odd' } }), 1],
  ['more refused than were sent', () => Response.json({ partialSuccess: { rejectedSpans: 1e9 } }), 2],
  ['a number that is none', () => Response.json({ partialSuccess: { rejectedSpans: 'many' } }), 0],
  ['a part of a span refused', () => Response.json({ partialSuccess: { rejectedSpans: 1.5 } }), 0],
  ['less than none refused', () => Response.json({ partialSuccess: { rejectedSpans: -5 } }), 0],
  ['204', () => new Response(null, { status: 204 }), 0],
])('%s: nothing is sent again', async (_what, respond, dropped) => {
  using collector = startCollector();
  const { app, key } = await start(collector);
  collector.respond(respond);
  await calls(app, key, 2);
  app.clock.advance(5000);
  await waitFor(() => collector.asked() === 1);
  await waitFor(async () => (await droppedOf(app)) === dropped);
  collector.respond(() => Response.json({}));
  await app.useKey(key);
  app.clock.advance(5000);
  await waitFor(() => collector.asked() === 2);
  await waitFor(() => collector.requests.at(-1)?.spans.length === 1);
  expect(await droppedOf(app)).toBe(dropped);
  await app.close();
});

test('a receiver that hangs: one request at a time, 2,048 spans wait, the others are dropped, and a line a minute says so', async () => {
  using collector = startCollector();
  const { app, clock, key } = await start(collector);
  collector.respond(() => new Promise<Response>(() => {}));
  await calls(app, key, WAITING_MAX + 100);
  expect(collector.asked()).toBe(1);
  expect(await droppedOf(app)).toBe(100);
  expect(await dropLines(app)).toMatchObject([{ count: 1, reason: 'too many wait' }]);
  clock.advance(TIMEOUT_MS);
  await passPause(clock);
  await waitFor(() => collector.asked() === 2); // it was late, and comes again
  await calls(app, key, 10);
  expect(await dropLines(app)).toHaveLength(1);
  await advanceUntil(app.clock, async () => (await dropLines(app)).length === 2, 5000);
  expect(await dropLines(app)).toMatchObject([{ count: 1 }, { count: expect.any(Number) }]);
  await app.close();
}, 180_000);

test('dropped spans are a line a minute, also after a line that a minute had put off', async () => {
  using collector = startCollector();
  const { app, key } = await start(collector);
  collector.respond(() => new Response('', { status: 400 }));
  let dropped = 0;
  async function drop(): Promise<void> {
    await app.useKey(key);
    app.clock.advance(5000);
    dropped += 1;
    await waitFor(async () => (await droppedOf(app)) === dropped);
  }
  await drop();
  await drop();
  expect(await dropLines(app)).toHaveLength(1);
  app.clock.advance(55_000); // a minute since the first line
  expect(await dropLines(app)).toHaveLength(2);
  await drop();
  app.clock.advance(54_999);
  expect(await dropLines(app)).toHaveLength(2);
  app.clock.advance(1);
  expect((await dropLines(app)).map(({ count }) => count)).toEqual([1, 1, 1]);
  app.clock.advance(60_000); // in which none was dropped
  expect(await dropLines(app)).toHaveLength(3);
  await drop();
  expect(await dropLines(app)).toHaveLength(4);
  await app.close();
});

test('a receiver that is away: calls go on', async () => {
  const { app, key } = await start({ url: 'http://127.0.0.1:1' });
  await calls(app, key, 100);
  app.clock.advance(5000);
  await calls(app, key, 100);
  expect((await app.log()).filter(({ level }) => level === 'error')).toEqual([]);
  await app.close();
});

test('a stop sends what waits', async () => {
  using collector = startCollector();
  const { app, key } = await start(collector);
  await calls(app, key, BATCH_MAX + 7);
  await app.close();
  expect(collector.spans()).toHaveLength(BATCH_MAX + 7);
}, 180_000);

test('a stop sends once what waits to be sent again, and leaves no timer behind', async () => {
  using collector = startCollector();
  const { app, clock, key } = await start(collector);
  collector.respond(() => new Response('', { status: 400 }));
  await app.useKey(key);
  clock.advance(5000);
  await waitFor(async () => (await droppedOf(app)) === 1); // a line, and a minute until the next
  collector.respond(() => new Response('', { status: 503 }));
  await app.useKey(key);
  clock.advance(5000);
  await waitFor(() => collector.asked() === 2 && clock.timersMs().some((ms) => ms >= 500 && ms <= 1000));
  await app.close();
  expect(collector.asked()).toBe(3);
  expect((await dropLines(app)).map(({ count }) => count)).toEqual([1, 1]);
  expect(clock.timersMs()).toEqual([]);
});
