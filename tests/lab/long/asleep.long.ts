// Real servers on a machine that sleeps: stopped, with CLOCK_MONOTONIC held back by as long as that took. Bun and Deno.

import { describe, expect, setDefaultTimeout, test } from 'bun:test';
import { noLibrary } from '../../support/c-library.ts';
import { callOver, userHeaders } from '../../support/client.ts';
import { useKey } from '../../support/cluster.ts';
import { diskFolder } from '../../support/folder.ts';
import { heldClocks } from '../../support/held-clock.ts';
import { createIssuer, createKey } from '../../support/issuer.ts';
import { type Runtime, type ServerProcess, startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { STORE_MODES, startStore, storeEnvOn, storeOn } from '../../support/store-mode.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

setDefaultTimeout(120_000);

const LAG_MAX_MS = 1000;
const ROUNDS = 10;
const HOUR_MS = 3_600_000;
const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0', REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS) };

const missing = noLibrary();
if (missing !== null) console.log(`skipped: ${missing}`);

const create = async ({ url }: ServerProcess): Promise<{ id: string; key: string }> =>
  (await callOver(url, 'create_api_key', { name: 'n', scopes: ['read'] }, await userHeaders('alice'))).body;

describe.skipIf(missing !== null).each(['bun', 'deno'] as const)('%s', (runtime: Runtime) => {
  test.each(STORE_MODES)(
    '%s: a key revoked elsewhere during a sleep is refused at once, and others work',
    async (mode) => {
      const clocks = heldClocks();
      await using sqld = mode === 'embedded' ? null : await startSqld();
      const folder = diskFolder(); // Deno writes to no other
      await using store =
        sqld === null ? await startStore('embedded', folder) : storeOn(storeEnvOn(sqld.env, mode, folder));
      await using elsewhere = await startServer({ env: { ...env, ...store.env(), DATABASE_REPLICA_FILE: '' } });
      await using here = await startServer({
        runtime,
        env: { ...env, ...store.env(), ...clocks.env },
      });
      const { key: good } = await create(elsewhere);
      const alice = await userHeaders('alice');
      for (let round = 0; round < ROUNDS; round += 1) {
        const { id, key } = await create(elsewhere);
        expect([await useKey(here, key), await useKey(here, good)]).toEqual([200, 200]);
        await clocks.sleep(here, async () => {
          await callOver(elsewhere.url, 'revoke_api_key', { keyId: id }, alice);
          await Bun.sleep(LAG_MAX_MS);
        });
        expect([await useKey(here, key), await useKey(here, good)]).toEqual([401, 200]);
      }
    },
  );

  test('a network that is not back yet: 503, and no success until it is', async () => {
    const clocks = heldClocks();
    await using sqld = await startSqld();
    await using here = await startServer({ runtime, env: { ...env, ...sqld.env, ...clocks.env } });
    const { key } = await create(here);
    expect(await useKey(here, key)).toBe(200);
    await clocks.sleep(here, async () => {
      sqld.freeze();
      await Bun.sleep(LAG_MAX_MS);
    });
    expect(await Promise.all(Array.from({ length: 10 }, () => useKey(here, key)))).toEqual(Array(10).fill(503));
    sqld.thaw();
    while ((await useKey(here, key)) !== 200) await Bun.sleep(10);
  });

  test('a signing key that was withdrawn in an hour of sleep verifies no token, known or not', async () => {
    const clocks = heldClocks();
    await using issuer = await createIssuer();
    const own = { JWT_JWKS_URL: issuer.jwksUrl, JWT_ISSUER: issuer.url, JWT_AUDIENCE: 'here' };
    await using here = await startServer({ runtime, env: { ...own, ...clocks.env } });
    const tokenOf = (sub: string) =>
      issuer.token({ sub, aud: 'here', exp: Math.floor((Date.now() + 3 * HOUR_MS) / 1000) });
    const present = async (token: string) =>
      (await callOver(here.url, 'list_api_keys', {}, { authorization: `Bearer ${token}` })).status;
    const [known, unseen] = [await tokenOf('alice'), await tokenOf('bob')];
    expect(await present(known)).toBe(200);
    await clocks.sleep(
      here,
      async () => {
        issuer.keys = [await createKey('ES256', 'second')];
      },
      HOUR_MS,
    );
    expect([await present(unseen), await present(known), await present(await tokenOf('alice'))]).toEqual([
      401, 401, 200,
    ]);
  });

  test('a wall clock that is set forward an hour while it is used all the time: no caller sees it', async () => {
    const clocks = heldClocks();
    await using here = await startServer({ runtime, env: { ...env, ...clocks.env } });
    const { key } = await create(here);
    let stop = false;
    const statuses = new Set<number>();
    const use = async () => {
      while (!stop) statuses.add(await useKey(here, key));
    };
    const users = Array.from({ length: 8 }, use);
    for (let step = 0; step < ROUNDS; step += 1) {
      await Bun.sleep(50);
      await clocks.sleep(here, async () => {}, HOUR_MS);
    }
    stop = true;
    await Promise.all(users);
    expect([...statuses]).toEqual([200]);
  });
});
