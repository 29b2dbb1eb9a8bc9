// Spans of real processes, on both runtimes: they are sent, a stop sends what waits, and a receiver that hangs costs no call
// and little memory.

import { expect, test } from 'bun:test';
import { callOver, userHeaders } from '../../support/client.ts';
import { startCollector } from '../../support/collector.ts';
import { rows } from '../../support/everything.ts';
import { logOf, type Runtime, residentMbOf, startServer, untilOpen } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const RUNTIMES = ['bun', 'deno'] as const;

async function started(runtime: Runtime, env: Record<string, string>) {
  const server = await startServer({ runtime, env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', ...env } });
  await untilOpen(server);
  const made = await callOver(
    server.url,
    'create_api_key',
    { name: 'n', scopes: ['read'] },
    await userHeaders('alice'),
  );
  const headers = { 'x-api-key': made.body.key };
  async function call(times: number): Promise<void> {
    for (let done = 0; done < times; done += 32) {
      const some = Array.from({ length: 32 }, () => callOver(server.url, 'get_data', {}, headers));
      for (const { status } of await Promise.all(some)) expect(status).toBe(200);
    }
  }
  return { server, call };
}

test.each(RUNTIMES)(
  'on %s calls are sent, and a stop sends what waits',
  async (runtime) => {
    using collector = startCollector();
    const { server, call } = await started(runtime, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    await call(512);
    await waitFor(() => collector.spans().length >= 512);
    await call(32);
    expect(await server.stop()).toBe(0);
    expect(collector.spans()).toHaveLength(1 + 512 + 32);
  },
  180_000,
);

test.each(rows(RUNTIMES, 1))(
  'on %s a receiver that hangs costs no call, and a stop waits for it three seconds',
  async (runtime) => {
    using collector = startCollector();
    collector.respond(() => new Promise<Response>(() => {}));
    const { server, call } = await started(runtime, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    await call(20_000); // warm
    const before = residentMbOf(server.pid);
    await call(20_000);
    expect(residentMbOf(server.pid) - before).toBeLessThan(16); // spans take 2; the rest is what garbage varies by
    const stoppedMs = performance.now();
    expect(await server.stop()).toBe(0);
    expect(performance.now() - stoppedMs).toBeLessThan(9500); // a request to it would take ten
    const drops = logOf(server).filter(({ event }) => event === 'spans dropped');
    const lost = drops.reduce((sum, { count }) => sum + count, 0);
    expect(lost).toBe(1 + 40_000); // also the batch that was being sent
  },
  180_000,
);
