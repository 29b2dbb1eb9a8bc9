// Rules while the database is out of reach, when what was known of them before decides nothing; and as many as there may be,
// of an issuer with a key set as large as it may be.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { openDatabase } from '../../support/database-client.ts';
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

const RULES = 1000;
/** Together nearly 64 KiB. */
const KEYS = 50;
const KID_CHARS = 1100;

test('a remote database sends them at once, though the key set of each would be too much', async () => {
  await using sqld = await startPrimary();
  await using workload = await startWorkload({ store: storeOn(sqld.env) });
  const { issuer, keyId } = workload;
  const published = issuer.keys.map(({ jwk }) => jwk);
  const others = Array.from({ length: KEYS - 1 }, (_, nth) => ({
    ...published[0],
    kid: String(nth).padStart(KID_CHARS, '0'),
  }));
  const file = join(temporaryFolder(), 'jwks.json');
  await Bun.write(file, JSON.stringify({ keys: [...others, ...published] }));
  await workload.addRule('--jwks', file);
  const primary = openDatabase(sqld.url);
  await primary.execute(`INSERT INTO rules (id, key_id, hash, issuer, subject, audiences, claims, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ${RULES})
SELECT lower(hex(randomblob(16))), '${keyId}', lower(hex(randomblob(32))), '${issuer.url}', 'job:' || i, '[]', '[]', 1 FROM n`);
  primary.close();
  workload.app.clock.advance(2000);
  expect(await workload.use(await workload.token())).toBe(200);
  expect(await workload.use(await workload.token({ sub: `job:${RULES}` }))).toBe(200);
  expect((await workload.app.keys('rule', 'list')).split('\n').filter((line) => line.includes(keyId))).toHaveLength(
    RULES,
  );
});
