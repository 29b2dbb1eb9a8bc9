// Stopping while users work with keys over every transport: whatever was done got its response, and nothing of it is
// lost.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { listeningAt } from '../lab/bench/process.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { createModelUser, seeded } from '../support/model-user.ts';
import { productionEnv, productionFolder } from '../support/production.ts';
import { startServer } from '../support/server-process.ts';
import { openSseSocket } from '../support/sse-socket.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { transportOf } from '../support/transports.ts';
import { waitFor } from '../support/wait-for.ts';

const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' };
const USERS = 16;
const IDLE_STREAMS = 8;
/** After this everybody is at work. */
const RESPONSES_BEFORE = USERS * 10;
/**
 * By then a stop that does not wait for what is under way has ended it (300 ms of notice, 1 s for responses to leave).
 */
const HELD_MS = 2000;

interface Running {
  readonly url: string;
  readonly folder: string;
  stop(): Promise<number>;
}

/** How a server is told to stop. What it starts is ended with `servers`. */
const WAYS: readonly [string, (servers: AsyncDisposableStack) => Promise<Running>][] = [
  ['SIGTERM to the server itself', async (servers) => servers.use(await startServer({ env }))],
  ['Ctrl-C to the whole process group of `bun run start`', startInGroup],
];

async function startInGroup(servers: AsyncDisposableStack): Promise<Running> {
  const folder = productionFolder();
  const child = Bun.spawn([process.execPath, 'run', 'start'], {
    cwd: folder,
    env: { ...productionEnv(folder), ...env, PORT: '0' },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
    detached: true, // a group of its own, as a terminal makes it
  });
  const signalGroup = (signal: NodeJS.Signals) => process.kill(-child.pid, signal);
  servers.defer(() => {
    if (child.exitCode === null) signalGroup('SIGKILL');
  });
  return {
    url: await listeningAt(child.stderr, 'bun run start'),
    folder,
    stop() {
      signalGroup('SIGINT');
      return child.exited;
    },
  };
}

/** No other process can write to the server's database until it is released. */
async function holdDatabase(folder: string): Promise<() => Promise<void>> {
  const client = openDatabase(`file:${join(folder, 'data/keys.db')}`);
  await client.execute('BEGIN IMMEDIATE');
  return async () => {
    await client.execute('ROLLBACK');
    client.close();
  };
}

/** Each alone: a call must not be saved by what waits on another connection. Those before it are kept alive. */
const TRANSPORTS = [
  ['REST', 0],
  ['/mcp', 1],
  ['/sse', 3],
] as const;

describe.each(WAYS)('%s', (_, startIt) => {
  test('a stop under load loses no acknowledged change of any user', async () => {
    await using servers = new AsyncDisposableStack();
    const { url, folder, stop } = await startIt(servers);
    const users = await Promise.all(
      Array.from({ length: USERS }, (_, index) =>
        createModelUser(`user ${index}`, transportOf(index, url), seeded(index)),
      ),
    );
    const streams = await Promise.all(Array.from({ length: IDLE_STREAMS }, () => openSseSocket(url)));
    let stopping = false;
    const work = users.map((user) => user.workUntilGone(() => stopping));
    await waitFor(() => users.reduce((sum, { answered }) => sum + answered, 0) >= RESPONSES_BEFORE);
    stopping = true;
    expect(await stop()).toBe(0);
    expect(await Promise.all(work)).toEqual(users.map(() => null));
    await Promise.all(streams.map((stream) => stream.ended()));
    const next = servers.use(await startServer({ env, folder }));
    await Promise.all(users.map((user, index) => user.moveTo(transportOf(index, next.url), 'stop')));
  }, 180_000);

  test.concurrent.each(TRANSPORTS)(
    'a call over %s that waits for the database gets its response',
    async (_, transport) => {
      await using servers = new AsyncDisposableStack();
      const { url, folder, stop } = await startIt(servers);
      const headers = await userHeaders('alice');
      const call = transportOf(transport, url);
      expect(await call('list_api_keys', {}, headers)).toMatchObject({ kind: 'ok' });
      const release = await holdDatabase(folder);
      const response = call('create_api_key', { name: 'held', scopes: [] }, headers);
      await Bun.sleep(100); // it is under way, or will be before the notice has passed
      const stopped = stop();
      await Bun.sleep(HELD_MS);
      await release();
      const made = await response;
      if (made.kind !== 'ok') throw new Error(`the response was ${made.kind}`);
      expect(await stopped).toBe(0);

      const next = servers.use(await startServer({ env, folder }));
      const { body } = await callOver(next.url, 'list_api_keys', {}, headers);
      expect(body.keys).toMatchObject([{ id: made.output.id, name: 'held' }]);
    },
    180_000,
  );
});
