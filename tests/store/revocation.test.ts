// REVOCATION_LAG_MAX_MS on real processes: revoked on one, refused on every other in time, whatever the store does.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startFleet, useKey } from '../support/fleet.ts';
import { until } from '../support/until.ts';
import { FLEETS, revocationRound } from './revocation-rounds.ts';

setDefaultTimeout(20_000); // processes are started, on machines that do other things too

const ROUNDS = 8;
const LAG_MAX_MS = 1000; // the default, next to which an answer's way to this process is short

describe.each(Object.entries(FLEETS))('three servers %s', (_, modes) => {
  test('a key revoked on one is refused by all within the bound', async () => {
    await using fleet = await startFleet(modes, { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) });
    for (let round = 0; round < ROUNDS; round += 1) {
      const { lastSuccessMs, odd, uses, unavailable } = await revocationRound(fleet, round, 'alice');
      expect(odd).toEqual([]);
      expect(unavailable).toBeLessThan(uses / 10);
      expect(lastSuccessMs).toBeLessThan(LAG_MAX_MS);
    }
  });
});

test('a primary that freezes right after a revocation: no success past the bound, 503, and back within a second', async () => {
  const lagMaxMs = 1000;
  await using fleet = await startFleet(['remote', 'replica'], { REVOCATION_LAG_MAX_MS: String(lagMaxMs) });
  const [here, there] = fleet.servers;
  if (here === undefined || there === undefined || fleet.sqld === null) throw new Error('no fleet');
  const alice = await userHeaders('alice');
  const create = () => callServer(here, 'create_api_key', { name: 'k', scopes: ['read'] }, alice);
  const [revoked, good] = [(await create()).body, (await create()).body];
  expect([await useKey(there, revoked.key), await useKey(there, good.key)]).toEqual([200, 200]);
  await callServer(here, 'revoke_api_key', { keyId: revoked.id }, alice);
  const revokedAtMs = performance.now();
  fleet.sqld.freeze();

  const seen: { server: unknown; atMs: number; revoked: number; good: number }[] = [];
  while (performance.now() < revokedAtMs + 2.5 * lagMaxMs) {
    await Promise.all(
      [here, there].map(async (server) => {
        const [bad, fine] = await Promise.all([useKey(server, revoked.key), useKey(server, good.key)]);
        seen.push({ server, atMs: performance.now() - revokedAtMs, revoked: bad, good: fine });
      }),
    );
    await Bun.sleep(5);
  }
  for (const { server, atMs, revoked: bad, good: fine } of seen) {
    expect([200, 503]).toContain(fine); // never taken for a wrong key
    if (server === here) expect(bad).not.toBe(200);
    if (atMs > lagMaxMs) expect([bad, fine]).not.toContain(200);
  }
  expect(seen.some(({ good: fine }) => fine === 200)).toBe(true);
  expect(seen.some(({ good: fine }) => fine === 503)).toBe(true);

  fleet.sqld.thaw();
  const backMs = await until(
    async () => (await useKey(here, good.key)) === 200 && (await useKey(there, good.key)) === 200,
  );
  expect(backMs).toBeLessThan(1000);
  expect([await useKey(here, revoked.key), await useKey(there, revoked.key)]).toEqual([401, 401]);
});

test('a server that was suspended asks before it verifies again', async () => {
  await using fleet = await startFleet(['remote', 'remote'], { REVOCATION_LAG_MAX_MS: '250' });
  const [here, there] = fleet.servers;
  if (here === undefined || there === undefined) throw new Error('no fleet');
  const alice = await userHeaders('alice');
  const { body } = await callServer(here, 'create_api_key', { name: 'k', scopes: ['read'] }, alice);
  expect(await useKey(there, body.key)).toBe(200);
  there.signal('SIGSTOP'); // sleeps through the revocation
  await callServer(here, 'revoke_api_key', { keyId: body.id }, alice);
  await Bun.sleep(260);
  there.signal('SIGCONT');
  expect(await useKey(there, body.key)).toBe(401);
});
