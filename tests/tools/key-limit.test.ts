// A user may hold 1,000 keys, in any state.

import { expect, test } from 'bun:test';
import { callAll } from '../support/mcp.ts';
import { defaultStoreMode, startStore } from '../support/store-mode.ts';
import { bearer, createTestApp, listedKeys, type TestApp } from '../support/test-app.ts';

/** Makes keys, and returns their ids. */
async function fill(app: TestApp, sub: string, count: number): Promise<string[]> {
  const inputs = Array(count).fill({ name: 'n', scopes: [] });
  const made = await callAll(app, 'create_api_key', inputs, await bearer(app, sub));
  return made.map(({ structuredContent: { id } }) => id);
}

test('the 1,000th key is made, the 1,001st is 409, revoked keys count, deleted ones do not, other users have their own', async () => {
  await using app = await createTestApp();
  const alice = await bearer(app, 'alice');
  const input = { name: 'one more', scopes: [] };
  const [first = ''] = await fill(app, 'alice', 999);
  expect((await app.call('create_api_key', input, alice)).status).toBe(200);

  const over = await app.call('create_api_key', input, alice);
  expect(over.status).toBe(409);
  expect(over.body).toMatchObject({ code: 'key_limit_reached', title: 'Conflict' });

  await app.call('revoke_api_key', { keyId: first }, alice);
  expect((await app.call('create_api_key', input, alice)).status).toBe(409);
  expect((await app.call('create_api_key', input, await bearer(app, 'bob'))).status).toBe(200);

  await app.call('delete_api_key', { keyId: first }, alice);
  expect((await app.call('create_api_key', input, alice)).status).toBe(200);
  expect((await app.call('create_api_key', input, alice)).status).toBe(409);
  expect(await listedKeys(app, 'alice')).toHaveLength(1000);
}, 180_000);

test('a race for the last places, at two servers, has as many winners as there are places', async () => {
  await using store = await startStore(defaultStoreMode());
  const env = { OWNER_KEYS: '10' };
  await using one = await createTestApp({ store, env });
  await using other = await createTestApp({ store, env });
  await fill(one, 'alice', 5);
  const alice = await bearer(one, 'alice');
  const create = async (app: TestApp) => (await app.call('create_api_key', { name: 'n', scopes: [] }, alice)).status;
  const statuses = await Promise.all(Array.from({ length: 20 }, (_, at) => create(at % 2 === 0 ? one : other)));
  expect(statuses.filter((status) => status === 200)).toHaveLength(5);
  expect(statuses.filter((status) => status === 409)).toHaveLength(15);
}, 180_000);
