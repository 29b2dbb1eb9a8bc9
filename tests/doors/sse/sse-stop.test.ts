// How the started server stops while HTTP+SSE streams are open.

import { describe, expect, test } from 'bun:test';
import { rows } from '../../support/everything.ts';
import { type Runtime, startServer } from '../../support/server-process.ts';
import { openSseSocket, postUntilCutOff, sessionsOf } from '../../support/sse-socket.ts';

describe.each(rows<Runtime>(['bun', 'deno'], 1))('on %s', (runtime) => {
  test('SIGTERM ends open streams and then the process', async () => {
    await using server = await startServer({ runtime });
    const streams = await Promise.all([openSseSocket(server.url), openSseSocket(server.url)]);
    expect(await sessionsOf(server.url)).toBe(2);
    const stopped = server.stop();
    for (const stream of streams) await stream.ended();
    expect(await stopped).toBe(0);
  }, 180_000);

  test('a client that does not read is cut off once its buffer is full, with its session, and holds nothing up', async () => {
    await using server = await startServer({ runtime });
    const stream = await openSseSocket(server.url);
    stream.pause();
    await postUntilCutOff(stream);
    expect(await sessionsOf(server.url)).toBe(0);
    expect(await server.stop()).toBe(0);
    stream.drop();
  }, 180_000);
});
