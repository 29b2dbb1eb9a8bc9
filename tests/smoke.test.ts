import { expect, test } from 'bun:test';
import { bearer, createTestApp } from './support/test-app.ts';

test('a key is created, used, listed, revoked, refused and deleted', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice');
  expect((await app.useKey(key)).body.owner).toBe('alice');
  const alice = await bearer(app, 'alice');
  const listed = await app.call('list_api_keys', {}, alice);
  expect(listed.body.keys).toMatchObject([{ id, active: true, lastUsedAt: app.clock.nowMs() }]);
  expect((await app.call('revoke_api_key', { keyId: id }, alice)).body.success).toBe(true);
  const refused = await app.useKey(key);
  expect(refused.body).toMatchObject({ status: 401, code: 'invalid_api_key', detail: 'Invalid or expired API key' });
  await app.call('delete_api_key', { keyId: id }, alice);
  expect((await app.call('list_api_keys', {}, alice)).body.keys).toEqual([]);
});
