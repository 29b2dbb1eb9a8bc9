// Rules while the database is out of reach: what was known of them before decides nothing.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folder.ts';
import { createKey } from '../../support/issuer.ts';
import { startProxy } from '../../support/proxy.ts';
import { storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { createTestApp } from '../../support/test-app.ts';
import { startWorkload } from './workload.ts';

/** A server that reaches the primary through a proxy, and one beside it that always does. */
async function startTwo() {
  const sqld = await startPrimary();
  const proxy = await startProxy(sqld.url);
  const workload = await startWorkload({ store: storeOn(sqld.env) });
  const env = { PUBLIC_URL: workload.audience };
  const here = await createTestApp({ store: storeOn({ ...sqld.env, DATABASE_URL: proxy.url }), env });
  return {
    workload,
    here,
    status: async (token: string) => (await here.useKey(token)).status,
    setAway: (isAway: boolean) => proxy.refuse(isAway ? 'POST' : null),
    async [Symbol.asyncDispose]() {
      for (const part of [here, workload, proxy, sqld]) await part[Symbol.asyncDispose]();
    },
  };
}

test('a token whose rule came while the database is out of reach is no bad credential', async () => {
  await using two = await startTwo();
  const { workload, here, status, setAway } = two;
  expect(await status(await workload.token())).toBe(200);
  setAway(true);
  const { app, keyId, issuer } = workload;
  await app.keys('rule', 'add', keyId, '--issuer', issuer.url, '--subject', 'job:new');
  const token = await workload.token({ sub: 'job:new' });
  here.clock.advance(2000);
  for (const _ of [1, 2]) expect(await status(token)).toBe(503);
  setAway(false);
  expect(await status(token)).toBe(200);
});

test('a key set that was given anew while the database was out of reach counts when it is back', async () => {
  await using two = await startTwo();
  const { workload, here, status, setAway } = two;
  const token = await workload.token();
  expect(await status(token)).toBe(200);
  setAway(true);
  const file = join(temporaryFolder(), 'jwks.json');
  await Bun.write(file, JSON.stringify({ keys: [(await createKey('ES256', 'first')).jwk] }));
  await workload.addRule('--jwks', file);
  here.clock.advance(2000);
  expect(await status(token)).toBe(503);
  setAway(false);
  expect(await status(token)).toBe(401);
});
