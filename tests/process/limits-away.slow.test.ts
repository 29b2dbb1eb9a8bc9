// A database that is away makes no limit an outage: calls of known keys go on with what their process knows, within the
// bound in which it can't have missed a revocation, and what they counted is written when the database is back.

import { expect, test } from 'bun:test';
import { awayFromMidnight, callers, makeKey, startServers, sumOf, use, usesToday } from '../support/callers.ts';
import { startSqld } from '../support/sqld.ts';
import { waitFor } from '../support/wait-for.ts';

const LIMIT = 400;
const BEFORE = 20;
const AWAY = 100;

test('a key goes on counting while the database is away, and each of its uses arrives once when it is back', async () => {
  await using started = new AsyncDisposableStack();
  await awayFromMidnight();
  const sqld = started.use(await startSqld());
  // Far longer than this takes: a process that is cut off for longer than the bound refuses, whatever the limit.
  const env = { ...sqld.env, RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: '60000' };
  const servers = await startServers(started, 2, env);
  const [first, second] = servers as [(typeof servers)[0], (typeof servers)[0]];
  const key = await makeKey(first, { rateLimit: { requests: LIMIT, window: '366d' } });
  const calls = (count: number) =>
    Promise.all(
      servers.map((server) =>
        callers(server, key, { done: ({ accepted, others }) => others.length > 0 || accepted >= count }),
      ),
    );
  const before = await calls(BEFORE);
  await sqld.kill();
  const away = await calls(AWAY);
  expect([...before, ...away].flatMap(({ others }) => others)).toEqual([]);
  expect([...before, ...away].map(({ refused }) => refused)).toEqual([0, 0, 0, 0]);
  await sqld.start();
  const accepted = sumOf([...before, ...away]);
  for (const server of servers) await waitFor(async () => (await usesToday(server, key)) === accepted);

  const rest = await callers(second, key);
  expect(rest.others).toEqual([]);
  const all = accepted + rest.accepted;
  expect(all).toBeGreaterThanOrEqual(LIMIT);
  await waitFor(async () => (await usesToday(first, key)) === all);
  expect(await Promise.all(servers.map((server) => server.stop()))).toEqual([0, 0]);
  const [next] = await startServers(started, 1, env);
  if (next === undefined) throw new Error('none started');
  expect(await usesToday(next, key)).toBe(all);
  expect((await use(next, key)).body.code).toBe('rate_limited');
}, 240_000);
