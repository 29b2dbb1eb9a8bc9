// How the started server stops while HTTP+SSE streams are open.

import { expect, test } from 'bun:test';
import { startServer } from '../support/server-process.ts';
import { rawStream, sessionsOf } from './raw-sse.ts';

test('SIGTERM ends open streams and then the process', async () => {
  await using server = await startServer();
  const streams = await Promise.all([rawStream(server.url), rawStream(server.url)]);
  expect(await sessionsOf(server.url)).toBe(2);
  const stopped = server.stop();
  for (const stream of streams) await stream.ended();
  expect(await stopped).toBe(0);
});
