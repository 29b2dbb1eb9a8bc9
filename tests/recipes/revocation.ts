// A key that is revoked in one process, while another is asked about it through a proxy: the body for every store.

import { expect } from 'bun:test';
import { callOver, userHeaders } from '../support/client.ts';
import { startEcho } from '../support/echo.ts';
import { type Program, startFrontProxy } from '../support/front-proxy.ts';
import { startServer } from '../support/server-process.ts';
import { type StoreMode, startStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';

/** Each has what is in its folder. */
export const VERIFY_RECIPES: readonly (readonly [Program, string])[] = [
  ['caddy', 'verify.Caddyfile'],
  ['nginx', 'verify.conf'],
  ['haproxy', 'verify.cfg'],
];

const LAG_MAX_MS = 250;
const CALLERS = 4;
/** A hundred uses between two polls, and time left for the servers. */
const USE_EVERY_MS = 2;

/** No request that begins later than the bound after the revocation gets through. */
export async function expectRevokedInTime(mode: StoreMode, program: Program, recipe: string): Promise<void> {
  await using store = await startStore(mode);
  const start = () =>
    startServer({
      env: {
        JWT_SECRET: TEST_SECRET,
        TRUST_PROXY: '1',
        RATE_LIMIT_REQUESTS: '0',
        REVOCATION_LAG_MAX_MS: String(LAG_MAX_MS),
        ...store.env(),
      },
    });
  await using here = await start();
  await using there = await start();
  using echo = startEcho();
  await using proxy = await startFrontProxy(program, recipe, {
    '127.0.0.1:3000': there.url,
    '127.0.0.1:8080': echo.url,
  });
  const alice = await userHeaders('alice');
  const { body } = await callOver(here.url, 'create_api_key', { name: 'n', scopes: ['read'] }, alice);
  const use = async () => {
    const begunAtMs = performance.now();
    const { status } = await proxy.fetch('/', { headers: { 'x-api-key': body.key } });
    return { begunAtMs, status };
  };
  // A busy machine may respond 503 for a while, which says nothing.
  let first = await use();
  while (first.status === 503) first = await use();
  expect(first.status).toBe(200);
  let untilMs = Number.POSITIVE_INFINITY;
  const callers = Array.from({ length: CALLERS }, async () => {
    const uses = [first];
    while (performance.now() < untilMs || uses.at(-1)?.status !== 401) {
      uses.push(await use());
      await Bun.sleep(USE_EVERY_MS);
    }
    return uses;
  });
  expect((await callOver(here.url, 'revoke_api_key', { keyId: body.id }, alice)).status).toBe(200);
  const revokedAtMs = performance.now();
  untilMs = revokedAtMs + 3 * LAG_MAX_MS;
  const uses = (await Promise.all(callers)).flat();
  const accepted = uses.filter(({ status }) => status === 200).map(({ begunAtMs }) => begunAtMs - revokedAtMs);
  expect(Math.max(...accepted)).toBeLessThanOrEqual(LAG_MAX_MS);
}
