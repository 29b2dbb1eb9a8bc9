// A stream on which nothing happens for longer than any timeout on its way, in real time on the started server.

import { expect, test } from 'bun:test';
import { postJson } from '../../support/client.ts';
import { request } from '../../support/mcp.ts';
import { startServer } from '../../support/server-process.ts';
import { openSseSocket } from '../../support/sse-socket.ts';

/** The runtime's idle timeout is 75 s, and a keep-alive comes every 15. */
const QUIET_MS = 100_000;

test('a quiet stream is open, and carries responses, after 100 seconds', async () => {
  await using server = await startServer();
  const { contains, postUrl, text } = await openSseSocket(server.url);
  await Bun.sleep(QUIET_MS);
  const comments = text().split(': keepalive\n\n').length - 1;
  expect(comments).toBeGreaterThanOrEqual(5);
  expect(comments).toBeLessThanOrEqual(7);
  expect((await postJson(postUrl, request('ping'))).status).toBe(202);
  await contains('"result":{}');
});
