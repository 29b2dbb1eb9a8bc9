// Changing JWT_SECRET, and cleaning up after one that got out, as SECURITY.md says.

import { expect, test } from 'bun:test';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { callOver, userHeaders } from '../../support/client.ts';
import { readDocument } from '../../support/documents.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const NEW_SECRET = 'another secret for tests, of more than 32 bytes';

test('with another JWT_SECRET no old user token is accepted, and every API key goes on working', async () => {
  const before = await startServer({ env: { JWT_SECRET: TEST_SECRET } });
  const oldToken = await userHeaders('alice');
  const { key } = (await callOver(before.url, 'create_api_key', { name: 'n', scopes: ['read'] }, oldToken)).body;
  await before.stop();
  await using after = await startServer({ env: { JWT_SECRET: NEW_SECRET }, folder: before.folder });
  expect((await callOver(after.url, 'list_api_keys', {}, oldToken)).status).toBe(401);
  const newToken = await userHeaders('alice', NEW_SECRET);
  expect((await callOver(after.url, 'list_api_keys', {}, newToken)).body.keys).toHaveLength(1);
  expect((await callOver(after.url, 'get_data', {}, { 'x-api-key': key })).status).toBe(200);
});

test('the statement in SECURITY.md revokes the keys made since a moment, in the running server too', async () => {
  await using server = await startServer({ env: { JWT_SECRET: TEST_SECRET, REVOCATION_LAG_MAX_MS: '250' } });
  const alice = await userHeaders('alice');
  const create = async () =>
    (await callOver(server.url, 'create_api_key', { name: 'n', scopes: ['read'] }, alice)).body.key;
  const use = async (key: string) => (await callOver(server.url, 'get_data', {}, { 'x-api-key': key })).status;
  const good = await create();
  await Bun.sleep(10);
  const leakedAtMs = Date.now();
  const bad = await create();
  expect([await use(good), await use(bad)]).toEqual([200, 200]);

  const statement = readDocument('.github/SECURITY.md').codeBlock('When a secret gets out', 'sql');
  const db = createClient({ url: `file:${join(server.folder, 'data/keys.db')}` });
  await db.execute(statement.replace('1767225600000', String(leakedAtMs)));
  db.close();
  await Bun.sleep(250);
  expect([await use(good), await use(bad)]).toEqual([200, 401]);
});
