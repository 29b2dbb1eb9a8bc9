// A bound that holds though the primary of a database stands still.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { userHeaders } from '../../support/client.ts';
import { callServer, served, startCluster, useKey } from '../../support/cluster.ts';
import { waitFor } from '../../support/wait-for.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

test('a primary that freezes right after a revocation: no success past the bound, 503, and back by themselves', async () => {
  const lagMaxMs = 1000; // the default
  await using cluster = await startCluster(['remote', 'replica'], { REVOCATION_LAG_MAX_MS: String(lagMaxMs) });
  const [here, there] = cluster.servers;
  if (here === undefined || there === undefined || cluster.sqld === null) throw new Error('no cluster');
  const alice = await userHeaders('alice');
  const create = () => served(() => callServer(here, 'create_api_key', { name: 'k', scopes: ['read'] }, alice));
  const [revoked, good] = [(await create()).body, (await create()).body];
  await waitFor(async () => (await useKey(there, revoked.key)) === 200 && (await useKey(there, good.key)) === 200);
  await served(() => callServer(here, 'revoke_api_key', { keyId: revoked.id }, alice));
  const revokedAtMs = performance.now();
  cluster.sqld.freeze();
  const frozenAtMs = performance.now(); // until then a server may have learned that the good key is good

  const seen: { server: unknown; key: string; askedAtMs: number; status: number }[] = [];
  const use = async (server: { url: string }, { key }: { key: string }) => {
    const askedAtMs = performance.now();
    seen.push({ server, key, askedAtMs, status: await useKey(server, key) });
  };
  while (performance.now() < frozenAtMs + 2.5 * lagMaxMs) {
    await Promise.all([here, there].flatMap((server) => [use(server, revoked), use(server, good)]));
    await Bun.sleep(5);
  }
  const accepted = seen.filter(({ status }) => status === 200);
  const [bad, fine] = [revoked, good].map(({ key }) => accepted.filter((use) => use.key === key));
  expect(bad?.filter(({ server, askedAtMs }) => server === here || askedAtMs > revokedAtMs + lagMaxMs)).toEqual([]);
  expect(fine?.filter(({ askedAtMs }) => askedAtMs > frozenAtMs + lagMaxMs)).toEqual([]);
  const ofGood = new Set(seen.filter(({ key }) => key === good.key).map(({ status }) => status));
  expect(ofGood).toEqual(new Set([200, 503])); // never taken for a wrong key

  cluster.sqld.thaw();
  await waitFor(async () => (await useKey(here, good.key)) === 200 && (await useKey(there, good.key)) === 200);
  for (const server of [here, there]) {
    expect((await served(async () => ({ status: await useKey(server, revoked.key) }))).status).toBe(401);
  }
});
