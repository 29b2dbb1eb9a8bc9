// Bodies without their last byte, on a thousand connections, take little memory and nobody's time; nor do those that no
// route reads.

import { expect, test } from 'bun:test';
import { postJson } from '../../support/client.ts';
import { type HttpSocket, openHttpSocket, postText } from '../../support/http-socket.ts';
import { request } from '../../support/mcp.ts';
import { startProxy } from '../../support/proxy.ts';
import { commandOf, peakResidentMbOf, startServer, untilOpen } from '../../support/server-process.ts';
import { startPrimary } from '../../support/template.ts';
import { TEST_SECRET } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';
import { expectLittle, honestCaller } from './honest.ts';

const CLIENTS = 1002;

const BODY_BYTES = 1024 * 1024;
/** The status of an honest message of 100 KB. */
async function longMessage(url: string): Promise<number> {
  const { status } = await postJson(`${url}/mcp`, request('ping', { padding: 'x'.repeat(100_000) }));
  return status;
}

test.skipIf(process.platform !== 'linux').each(['bun', 'deno'] as const)(
  'a thousand clients that keep back the last byte of a body of 1 MiB (%s)',
  async (runtime) => {
    await using server = await startServer({
      runtime,
      command: commandOf(runtime),
      env: { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' },
    });
    const medianMsOf = await honestCaller(server.url);
    const unfinished = postText('/mcp', ' '.repeat(BODY_BYTES - 1), { 'Content-Length': String(BODY_BYTES) });
    const slow: HttpSocket[] = [];
    try {
      for (let index = 0; index < CLIENTS; index += 1) {
        const connection = await openHttpSocket(server.url);
        connection.socket.write(unfinished);
        slow.push(connection);
      }
      const medianMs = await medianMsOf();
      // As soon as the clients have stood still for a moment.
      await waitFor(async () => (await longMessage(server.url)) === 200);
      const statuses = [...new Set(slow.map((connection) => connection.received().slice(9, 12)))];
      expect(statuses.filter((status) => !['', '400', '503'].includes(status))).toEqual([]);
      expect(statuses).toContain('503');
      expectLittle({ residentMb: peakResidentMbOf(server.pid), medianMs });
    } finally {
      for (const { socket } of slow) socket.destroy();
    }
  },
  180_000,
);

/** As much as the runtime takes: a response of this server comes only below that. */
const UNREAD_BYTES = 3_900_000;
const UNREAD_CLIENTS = 150;
const UNREAD_MB_MAX = 128;

test.skipIf(process.platform !== 'linux').each(['bun', 'deno'] as const)(
  'clients that send /verify long bodies, which it does not read, while the keys are far away (%s)',
  async (runtime) => {
    await using primary = await startPrimary();
    await using proxy = await startProxy(primary.url, { delayMs: 400 });
    await using server = await startServer({
      runtime,
      env: { ...primary.env, DATABASE_URL: proxy.url, JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: '60000' },
    });
    await untilOpen(server);
    const body = 'x'.repeat(UNREAD_BYTES);
    const answers = Array.from({ length: UNREAD_CLIENTS }, async (_, at) => {
      const { socket, readUntil } = await openHttpSocket(server.url);
      const key = `sk_test_${String(at).padStart(64, '0')}`;
      socket.write(
        `PUT /verify HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      const head = await readUntil((all) => all.includes('\r\n\r\n'));
      socket.destroy();
      return head.split(' ', 2)[1];
    });
    for (const status of await Promise.all(answers)) expect(status).toBeOneOf(['401', '503']);
    expect(peakResidentMbOf(server.pid)).toBeLessThan(UNREAD_MB_MAX);
  },
  180_000,
);
