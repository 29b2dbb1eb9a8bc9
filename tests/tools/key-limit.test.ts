// A user may hold 1,000 keys, in any state.

import { expect, test } from 'bun:test';
import { bearer, createTestApp, listedKeys, type TestApp } from '../support/test-app.ts';

async function fill(app: TestApp, sub: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made += 50) {
    const some = await Promise.all(Array.from({ length: Math.min(50, count - made) }, () => app.createKey(sub)));
    ids.push(...some.map(({ id }) => id));
  }
  return ids;
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

test('a race for the last place has one winner', async () => {
  await using app = await createTestApp();
  await fill(app, 'alice', 995);
  const alice = await bearer(app, 'alice');
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async () => (await app.call('create_api_key', { name: 'n', scopes: [] }, alice)).status),
  );
  expect(statuses.filter((status) => status === 200)).toHaveLength(5);
  expect(statuses.filter((status) => status === 409)).toHaveLength(15);
}, 180_000);
