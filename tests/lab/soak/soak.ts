// A server under mixed load for a while, measured in windows of equal length: users with keys over every transport, a
// hot key, guesses, clients that hang up, and connections and streams that are only open.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { callOver, userOn } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { isWhole, openHttpSocket, postText } from '../../support/http-socket.ts';
import { createModelUser, seeded } from '../../support/model-user.ts';
import { openFiles } from '../../support/open-files.ts';
import { openSseSocket } from '../../support/sse-socket.ts';
import { type CallTool, transportOf, WrongResponse } from '../../support/transports.ts';
import { median } from '../bench/measure.ts';
import { startOurs } from '../bench/ours.ts';
import type { Process } from '../bench/process.ts';
import { createLatencies, type Latencies } from './latencies.ts';

const USERS = 24;
const HOT_CLIENTS = 8;
const IDLE_CONNECTIONS = 200;
const IDLE_STREAMS = 50;
/** Below the 75 s after which the server ends a quiet connection. */
const IDLE_SAYS_HELLO_MS = 30_000;
/**
 * Between two steps of one client: a load the machine can take, so that latencies are the server's and not a queue's.
 */
const PAUSE_MS = 5;
const HANG_UP_EVERY_MS = 100;

export interface Window {
  readonly answered: number;
  readonly errors: readonly string[];
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** At the end of the window. */
  readonly residentMb: number;
  readonly openFiles: number;
}

export interface SoakOptions {
  readonly seconds: number;
  readonly windows: number;
  readonly onWindow?: (window: Window, index: number) => void;
}

export async function soak({ seconds, windows, onWindow = () => {} }: SoakOptions): Promise<Window[]> {
  await using server = await startOurs(join(temporaryFolder(), 'keys.db'), { TRUST_PROXY: '1' });
  let latencies = createLatencies();
  let errors: string[] = [];
  const end = new AbortController();
  const loop = async (step: () => Promise<unknown>, pauseMs = PAUSE_MS) => {
    while (!end.signal.aborted) {
      const startedMs = performance.now();
      try {
        await step();
        latencies.add(performance.now() - startedMs);
      } catch (error) {
        if (!end.signal.aborted) errors.push(String(error));
      }
      await sleep(pauseMs, undefined, { signal: end.signal }).catch(() => {}); // ended early
    }
  };
  const load = await startLoad(server.url, loop);
  const measured: Window[] = [];
  for (let index = 0; index < windows; index += 1) {
    await Bun.sleep((seconds / windows) * 1000);
    const window = { ...measureWindow(latencies, server), errors };
    latencies = createLatencies();
    errors = [];
    server.emptyLog();
    measured.push(window);
    onWindow(window, index);
  }
  end.abort();
  await Promise.all(load);
  await server.stop();
  return measured;
}

function measureWindow(latencies: Latencies, server: Process) {
  return {
    answered: latencies.count,
    p50Ms: latencies.quantileMs(0.5),
    p99Ms: latencies.quantileMs(0.99),
    residentMb: server.residentMb(),
    openFiles: openFiles(server.pid).length,
  };
}

type Loop = (step: () => Promise<unknown>, pauseMs?: number) => Promise<void>;

async function startLoad(url: string, loop: Loop): Promise<Promise<void>[]> {
  const users = Array.from({ length: USERS }, async (_, index) => {
    const user = await createModelUser(`user ${index}`, at(index, transportOf(index, url)), seeded(index));
    return loop(async () => {
      if (!(await user.step())) throw new WrongResponse('503 under a load it can take');
    });
  });
  const { body: hot } = await (await userOn({ url }, 'hot')).create();
  const useHotKey = async () => {
    const { status } = await callOver(url, 'get_data', {}, { 'x-api-key': hot.key });
    if (status !== 200) throw new WrongResponse(`the hot key: ${status}`);
  };
  const random = seeded(99);
  const guess = async () => {
    const key = `sk_test_${Array.from({ length: 64 }, () => Math.floor(random() * 16).toString(16)).join('')}`;
    const { status } = await callOver(url, 'get_data', {}, { 'x-api-key': key });
    if (status !== 401) throw new WrongResponse(`a guessed key: ${status}`);
  };
  const hangUp = async () => {
    const { socket } = await openHttpSocket(url);
    socket.write(postText('/tools/get_data', '{', { 'Content-Length': '100', 'X-API-Key': hot.key }));
    await Bun.sleep(10);
    socket.resetAndDestroy();
  };
  const idle = await Promise.all(Array.from({ length: IDLE_CONNECTIONS }, () => openHttpSocket(url)));
  await Promise.all(Array.from({ length: IDLE_STREAMS }, () => openSseSocket(url)));
  let hellos = 0;
  const sayHello = async () => {
    hellos += 1;
    for (const connection of idle) connection.socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await Promise.all(
      idle.map((connection) =>
        connection.readUntil((text) => isWhole(text) && text.split('HTTP/1.1 200').length > hellos),
      ),
    );
  };
  return [
    ...users,
    ...Array.from({ length: HOT_CLIENTS }, () => loop(useHotKey)),
    loop(guess, 2 * PAUSE_MS),
    loop(hangUp, HANG_UP_EVERY_MS),
    loop(sayHello, IDLE_SAYS_HELLO_MS),
  ];
}

/** Calls from the user's own address, because unknown and revoked keys have a budget per address. */
const at =
  (index: number, callTool: CallTool): CallTool =>
  (tool, input, headers) =>
    callTool(tool, input, { ...headers, 'x-forwarded-for': `10.0.0.${index}` });

/**
 * In windows at least this long, p99 is the server's. Other work on the machine can disturb the whole of a shorter one,
 * so that only a hang shows there.
 */
const LONG_WINDOW_S = 30;
const SLACK_MS = 20;
const SLACK_SHORT_MS = 5000;

/** By how much p99 may differ for no reason, between windows of this length. */
export const p99SlackMs = (windowSeconds: number) => (windowSeconds < LONG_WINDOW_S ? SLACK_SHORT_MS : SLACK_MS);

/**
 * What is not flat, in words; empty when all is well. The first window warms up and counts only for errors. Of the
 * others, the medians of the first third and of the last third are compared: other work on the machine comes and goes,
 * growth in the server stays.
 */
export function findings(windows: readonly Window[], slackMs: number): string[] {
  const errors = windows.flatMap((window) => window.errors);
  const found = errors.length > 0 ? [`${errors.length} errors, of which the first: ${errors[0]}`] : [];
  const silent = windows.filter(({ answered }) => answered === 0).length;
  if (silent > 0) found.push(`nothing was answered in ${silent} of ${windows.length} windows`);
  const third = Math.ceil((windows.length - 1) / 3);
  const compare = (what: string, of: (window: Window) => number, most: (from: number) => number) => {
    const from = median(windows.slice(1, 1 + third).map(of));
    const to = median(windows.slice(-third).map(of));
    if (!(to <= most(from))) found.push(`${what} went from ${from.toFixed(1)} to ${to.toFixed(1)}`);
  };
  compare(
    'resident memory (MB)',
    ({ residentMb }) => residentMb,
    (from) => from * 1.2 + 32,
  );
  compare(
    'open files',
    ({ openFiles }) => openFiles,
    (from) => from + 32,
  );
  compare(
    'p99 (ms)',
    ({ p99Ms }) => p99Ms,
    (from) => from * 1.5 + slackMs,
  );
  return found;
}
