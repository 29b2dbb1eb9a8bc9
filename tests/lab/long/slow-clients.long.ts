// How long a client may take: 12 s for a head, whatever of it arrives meanwhile, and for a body as long as a connection
// may be quiet, 75 s, however many bytes drip in.

import { expect, test } from 'bun:test';
import { openHttpSocket, postText } from '../../support/http-socket.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const HEAD_S_MAX = 20;
const BODY_S_MAX = 90;
const CHUNKED_HEAD =
  'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';

test('unfinished requests are hung up on', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  /** Sends `first`, then `drop` every few seconds; seconds until the server hangs up. */
  async function hungUpAfterS(first: string, drop: string): Promise<number> {
    const startedAtMs = performance.now();
    const { socket, closed } = await openHttpSocket(server.url);
    socket.write(first);
    const timer = setInterval(() => {
      if (drop !== '' && socket.writable) socket.write(drop);
    }, 3000);
    await closed;
    clearInterval(timer);
    return (performance.now() - startedAtMs) / 1000;
  }
  const heads = ['', 'GET / HT', 'GET / HTTP/1.1\r\nHost: localhost\r\n'].map((first) => hungUpAfterS(first, ''));
  heads.push(hungUpAfterS('GET / HTTP/1.1\r\nHost: localhost\r\n', 'X-Slow: 1\r\n'));
  const body = postText('/mcp', '{', { 'Content-Length': '100000' });
  const bodies = [hungUpAfterS(body, ''), hungUpAfterS(body, ' '), hungUpAfterS(CHUNKED_HEAD, '1\r\n \r\n')];
  for (const seconds of await Promise.all(heads)) expect(seconds).toBeLessThan(HEAD_S_MAX);
  for (const seconds of await Promise.all(bodies)) expect(seconds).toBeLessThan(BODY_S_MAX);
}, 180_000);
