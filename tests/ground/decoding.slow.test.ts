// What an issuer publishes, in a KB or two that decodes to 512 MB: counted as it is decoded, so neither memory nor the next
// fetch notices. On both runtimes.

import { beforeAll, expect, test } from 'bun:test';
import { GROWTH_MB_MAX, makeBomb } from '../support/bomb.ts';
import { callOver } from '../support/client.ts';
import { rows } from '../support/everything.ts';
import { createIssuer, JWKS_PATH } from '../support/issuer.ts';
import { peakResidentMbOf, residentMbOf, startServer } from '../support/server-process.ts';
import { waitFor } from '../support/wait-for.ts';

const METADATA = '/.well-known/oauth-authorization-server';

let explode: () => Response;
beforeAll(async () => {
  explode = await makeBomb();
});

test.each(rows([['bun'], ['deno']] as const, 1))('a key set and an issuer’s metadata, on %s', async (runtime) => {
  for (const path of [JWKS_PATH, METADATA]) {
    await using issuer = await createIssuer();
    issuer.overrides.set(path, explode);
    await using server = await startServer({ runtime, env: { JWT_ISSUER: issuer.url } });
    const before = residentMbOf(server.pid);
    const token = await issuer.token({ sub: 'alice', aud: server.url, exp: Date.now() / 1000 + 3600 });
    const call = () => callOver(server.url, 'list_api_keys', {}, { authorization: `Bearer ${token}` });
    expect([path, (await call()).body.code]).toEqual([path, 'auth_unavailable']);
    issuer.overrides.delete(path);
    await waitFor(async () => (await call()).status === 200);
    expect(peakResidentMbOf(server.pid) - before).toBeLessThan(GROWTH_MB_MAX);
  }
});
