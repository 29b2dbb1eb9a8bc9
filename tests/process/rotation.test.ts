// Changing JWT_SECRET.

import { expect, test } from 'bun:test';
import { callOver, userHeaders } from '../support/client.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';

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
