// What list_api_keys shows, and the input of revoke_api_key and delete_api_key.

import { expect, test } from 'bun:test';
import { bearer, createTestApp, fingerprint } from '../support/test-app.ts';

test('the list is newest first, and within one millisecond the later created comes first', async () => {
  await using app = await createTestApp();
  const ids: string[] = [];
  for (const step of [0, 0, 1, 0, 5]) {
    app.clock.advance(step);
    ids.unshift((await app.createKey('alice')).id);
  }
  app.clock.setNow(app.clock.nowMs() - 1000); // a clock set back: the key is created later, but its time is older
  const older = await app.createKey('alice');
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  expect(body.keys.map(({ id }: { id: string }) => id)).toEqual([...ids, older.id]);
});

test('an item has the documented fields, never the key or its hash', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice', { expiresInDays: 1 });
  await app.useKey(key);
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  expect(body).toEqual({
    keys: [
      {
        id: expect.any(String),
        name: 'test key',
        scopes: ['read'],
        active: true,
        fingerprint: fingerprint(key),
        createdAt: app.clock.nowMs(),
        expiresAt: app.clock.nowMs() + 86_400_000,
        resource: null,
        lastUsedAt: app.clock.nowMs(),
        uses: { today: 1, last30Days: [1] },
      },
    ],
  });
  expect(JSON.stringify(body)).not.toContain(key);
  expect(JSON.stringify(body)).not.toContain(Bun.SHA256.hash(key, 'hex'));
});

test('a key that has expired says so, from the millisecond after its last on', async () => {
  await using app = await createTestApp();
  await app.createKey('alice', { expiresInDays: 1 });
  const expired = async () => (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys[0].expired;
  app.clock.advance(86_400_000);
  expect(await expired()).toBeUndefined();
  app.clock.advance(1);
  expect(await expired()).toBe(true);
});

test.each(['revoke_api_key', 'delete_api_key'])(
  '%s takes any text of up to 200 characters, and nothing else',
  async (tool) => {
    await using app = await createTestApp();
    const alice = await bearer(app, 'alice');
    for (const keyId of ['', 'x', 'a'.repeat(200), '😀'.repeat(200)]) // though no key has it
      expect((await app.call(tool, { keyId }, alice)).status).toBe(200);
    const wrong = [undefined, null, 1, ['a'], 'a'.repeat(201)].map((keyId) => ({ keyId }));
    for (const input of [...wrong, { keyId: 'a', force: true }]) {
      const { body } = await app.call(tool, input, alice);
      expect({ input, ...body }).toMatchObject({ input, status: 400, code: 'invalid_input' });
    }
  },
);
