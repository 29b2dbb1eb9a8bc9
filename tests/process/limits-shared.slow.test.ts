// Limits and quotas of a key that several processes share. What holds however slow the machine is; how close they come to
// the limit is measured in bounds.alone.

import { expect, test } from 'bun:test';
import { awayFromMidnight, callers, makeKey, startServers, sumOf, use, usesToday } from '../support/callers.ts';
import { rows } from '../support/everything.ts';
import { keysCommand } from '../support/keys-command.ts';
import { startStore } from '../support/store-mode.ts';
import { waitFor } from '../support/wait-for.ts';

const PROCESSES = 3;
const LIMIT = 240;
/** No limit but the key's own, and none of these calls is refused because a busy machine holds a process up. */
const CALM = { RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: '60000' };

const LIMITS: readonly [string, object, string][] = [
  ['a limit', { rateLimit: { requests: LIMIT, window: '366d' } }, 'rate_limited'],
  ['a quota of a day', { quota: { requests: LIMIT, period: 'day' } }, 'quota_exceeded'],
  ['a quota of a month', { quota: { requests: LIMIT, period: 'month' } }, 'quota_exceeded'],
];

test.each(rows(['embedded', 'remote'] as const, 1))(
  'three processes (%s) refuse no call before the limit, none goes beyond its own, and each use is counted once',
  async (mode) => {
    await using started = new AsyncDisposableStack();
    await awayFromMidnight();
    const env = { ...started.use(await startStore(mode)).env(), ...CALM };
    const servers = await startServers(started, PROCESSES, env);
    const [first, second, third] = servers as [(typeof servers)[0], (typeof servers)[0], (typeof servers)[0]];
    const counted = [];
    for (const [what, limits, code] of LIMITS) {
      const even = await makeKey(first, limits);
      const seen = await Promise.all(servers.map((server) => callers(server, even)));
      expect([what, ...seen.flatMap(({ others }) => others)]).toEqual([what]);
      const accepted = sumOf(seen);
      expect(accepted).toBeGreaterThanOrEqual(LIMIT);
      expect(accepted).toBeLessThanOrEqual(PROCESSES * LIMIT);
      for (const { remaining } of seen) {
        expect(Math.max(...remaining)).toBeLessThan(LIMIT);
        expect(Math.min(...remaining)).toBe(0);
      }
      counted.push([even, accepted] as const);

      const skewed = await makeKey(first, limits);
      const alone = await callers(second, skewed);
      expect([alone.accepted, alone.others]).toEqual([LIMIT, []]);
      // Those that never saw the key read its counts with it, once they are written.
      await waitFor(async () => (await usesToday(first, skewed)) === LIMIT);
      const over = await use(third, skewed);
      expect([over.status, over.body.code]).toEqual([429, code]);
      counted.push([skewed, LIMIT] as const);
    }
    expect(await Promise.all(servers.map((server) => server.stop()))).toEqual(servers.map(() => 0));

    const [next] = await startServers(started, 1, env);
    if (next === undefined) throw new Error('none started');
    const shown = [];
    for (const [key] of counted) shown.push([key, await usesToday(next, key)] as const);
    expect(shown).toEqual(counted);
    for (const [key] of counted) expect((await use(next, key)).status).toBe(429);
  },
  240_000,
);

test('a narrowed limit holds in every process, the one that knew the key and those that had used it', async () => {
  await using started = new AsyncDisposableStack();
  await awayFromMidnight();
  const env = { ...started.use(await startStore('embedded')).env(), ...CALM, REVOCATION_LAG_MAX_MS: '5000' };
  const servers = await startServers(started, PROCESSES, env);
  const [first] = servers;
  if (first === undefined) throw new Error('none started');
  const key = await makeKey(first, { rateLimit: { requests: 1000, window: '366d' } });
  for (const server of servers)
    for (let call = 0; call < 3; call += 1) expect((await use(server, key)).status).toBe(200);
  const narrowed = await keysCommand(env, ['update', key.id, '--limit', '3/366d']);
  expect(narrowed.code).toBe(0);
  for (const server of servers) {
    await waitFor(async () => (await use(server, key)).headers.get('ratelimit-policy') === '"key";q=3;w=31622400');
    const over = await use(server, key);
    expect([over.status, over.body.code]).toEqual([429, 'rate_limited']);
  }
}, 240_000);
