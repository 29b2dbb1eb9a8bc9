// REVOCATION_LAG_MAX_MS on real processes: revoked on one, refused on every other in time, whatever the store does.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { userHeaders } from '../support/client.ts';
import { callServer, startCluster, useKey } from '../support/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLUSTERS, revocationRound } from './revocation-rounds.ts';

setDefaultTimeout(60_000); // processes are started, on machines that do other things too

const ROUNDS = 8;
const LAG_MAX_MS = 1000; // the default, next to which a response's way to this process is short

describe.each(Object.entries(CLUSTERS))('three servers %s', (_, modes) => {
  test('a key revoked on one of three servers is refused by all within the bound', async () => {
    await using cluster = await startCluster(modes, { REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) });
    for (let round = 0; round < ROUNDS; round += 1) {
      const { lastSuccessMs, odd, uses, unavailable } = await revocationRound(cluster, round, 'alice');
      expect(odd).toEqual([]);
      expect(unavailable).toBeLessThan(uses / 10);
      expect(lastSuccessMs).toBeLessThan(LAG_MAX_MS);
    }
  });
});

test('a primary that freezes right after a revocation: no success past the bound, 503, and back within a second', async () => {
  const lagMaxMs = 1000;
  await using cluster = await startCluster(['remote', 'replica'], { REVOCATION_LAG_MAX_MS: String(lagMaxMs) });
  const [here, there] = cluster.servers;
  if (here === undefined || there === undefined || cluster.sqld === null) throw new Error('no cluster');
  const alice = await userHeaders('alice');
  const create = () => callServer(here, 'create_api_key', { name: 'k', scopes: ['read'] }, alice);
  const [revoked, good] = [(await create()).body, (await create()).body];
  expect([await useKey(there, revoked.key), await useKey(there, good.key)]).toEqual([200, 200]);
  await callServer(here, 'revoke_api_key', { keyId: revoked.id }, alice);
  const revokedAtMs = performance.now();
  cluster.sqld.freeze();

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

  cluster.sqld.thaw();
  const backMs = await waitFor(
    async () => (await useKey(here, good.key)) === 200 && (await useKey(there, good.key)) === 200,
  );
  expect(backMs).toBeLessThan(1000);
  expect([await useKey(here, revoked.key), await useKey(there, revoked.key)]).toEqual([401, 401]);
});

test('a server that was suspended asks before it verifies again', async () => {
  await using cluster = await startCluster(['remote', 'remote'], { REVOCATION_LAG_MAX_MS: '250' });
  const [here, there] = cluster.servers;
  if (here === undefined || there === undefined) throw new Error('no cluster');
  const alice = await userHeaders('alice');
  const { body } = await callServer(here, 'create_api_key', { name: 'k', scopes: ['read'] }, alice);
  expect(await useKey(there, body.key)).toBe(200);
  there.signal('SIGSTOP'); // sleeps through the revocation
  await callServer(here, 'revoke_api_key', { keyId: body.id }, alice);
  await Bun.sleep(260);
  there.signal('SIGCONT');
  expect(await useKey(there, body.key)).toBe(401);
});
