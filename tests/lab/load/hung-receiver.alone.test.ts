// What spans hold in memory while their receiver takes them and never answers.

import { expect, test } from 'bun:test';
import { createTestApp } from '../../support/test-app.ts';

const SPANS = 100_000;
const AT_ONCE = 64;
const GROWTH_MB_MAX = 4;

/** Returns resident memory, the least of several full collections: the runtime frees some a while later. */
async function residentMb(): Promise<number> {
  const found: number[] = [];
  for (let times = 0; times < 10; times += 1) {
    Bun.gc(true);
    await Bun.sleep(100);
    found.push(process.memoryUsage.rss() / 1024 / 1024);
  }
  return Math.min(...found);
}

test('100,000 spans for a receiver that hangs hold at most 4 MB more than for one that answers', async () => {
  let hangs = false;
  using receiver = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket, bytes) {
        const isWhole = bytes.toString().endsWith(']}]}]}');
        if (isWhole && !hangs) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
      },
    },
  });
  const url = `http://127.0.0.1:${receiver.port}`;
  await using app = await createTestApp({
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: url, RATE_LIMIT_REQUESTS: '0', LOG_LEVEL: 'warn' },
  });
  const { key } = await app.createKey('alice');
  async function residentMbAfterSpans(): Promise<number> {
    for (let made = 0; made < SPANS; made += AT_ONCE) {
      const calls = await Promise.all(Array.from({ length: AT_ONCE }, () => app.useKey(key)));
      expect(calls.every(({ status }) => status === 200)).toBe(true);
    }
    return residentMb();
  }
  await residentMbAfterSpans(); // warm
  const answeredMb = await residentMbAfterSpans();
  hangs = true;
  expect((await residentMbAfterSpans()) - answeredMb).toBeLessThan(GROWTH_MB_MAX);
}, 600_000);
