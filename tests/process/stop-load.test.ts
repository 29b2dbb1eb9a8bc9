// Stopping while people work with keys over every transport: whatever was done was answered, and nothing of it is lost.

import { expect, test } from 'bun:test';
import { listeningAt } from '../bench/process.ts';
import { rawStream } from '../mcp/raw-sse.ts';
import { createPerson, seeded } from '../support/person.ts';
import { productionEnv, productionFolder } from '../support/production.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { transportOf } from '../support/transports.ts';

const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' };
const PEOPLE = 16;
const IDLE_STREAMS = 8;
/** Everybody is at work by then. */
const ANSWERED_BEFORE = PEOPLE * 10;
/** 10 s for requests under way, and a second for their answers to leave; these need far less. */
const STOPPED_MS_MAX = 11_000;

/** Works until the server is told to stop and gone, then with its next process. */
async function stopUnderLoad(url: string, stop: () => Promise<number>, restart: () => Promise<string>): Promise<void> {
  const people = await Promise.all(
    Array.from({ length: PEOPLE }, (_, index) =>
      createPerson(`person ${index}`, transportOf(index, url), seeded(index)),
    ),
  );
  const streams = await Promise.all(Array.from({ length: IDLE_STREAMS }, () => rawStream(url)));
  let stopping = false;
  const work = people.map((person) => person.workUntilGone(() => stopping));
  while (people.reduce((sum, { answered }) => sum + answered, 0) < ANSWERED_BEFORE) await Bun.sleep(20);
  stopping = true;
  const startedMs = performance.now();
  expect(await stop()).toBe(0);
  expect(performance.now() - startedMs).toBeLessThan(STOPPED_MS_MAX);
  expect(await Promise.all(work)).toEqual(people.map(() => null));
  await Promise.all(streams.map((stream) => stream.ended()));
  const next = await restart();
  await Promise.all(people.map((person, index) => person.moveTo(transportOf(index, next), 'stop')));
}

test('SIGTERM to the server itself', async () => {
  await using servers = new AsyncDisposableStack();
  const server = servers.use(await startServer({ env }));
  await stopUnderLoad(server.url, server.stop, async () => {
    const next = servers.use(await startServer({ env, folder: server.folder }));
    return next.url;
  });
}, 30_000);

test('Ctrl-C to the whole process group of `bun run start`', async () => {
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
  await using servers = new AsyncDisposableStack();
  servers.defer(() => {
    if (child.exitCode === null) signalGroup('SIGKILL');
  });
  const stop = () => {
    signalGroup('SIGINT');
    return child.exited;
  };
  await stopUnderLoad(await listeningAt(child.stderr, 'bun run start'), stop, async () => {
    const next = servers.use(await startServer({ env, folder }));
    return next.url;
  });
}, 60_000);
