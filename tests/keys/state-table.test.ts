// The states and transitions of a key, row by row, with a clock moved by hand. Each row ends with what the store holds.

import { describe, expect, test } from 'bun:test';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

const end = async (app: TestApp, tool: 'revoke_api_key' | 'delete_api_key', sub: string, keyId: string) =>
  app.call(tool, { keyId }, await bearer(app, sub));
const listed = async (app: TestApp, sub: string) =>
  (await app.call('list_api_keys', {}, await bearer(app, sub))).body.keys as Record<string, unknown>[];

const REFUSED = { status: 401, code: 'invalid_api_key', detail: 'Invalid or expired API key' };

describe('(none) → create_api_key', () => {
  test('with a user JWT a key is active, created now, and never expires unless asked', async () => {
    await using app = await createTestApp();
    const { id, key, expiresAt } = await app.createKey('alice', { name: 'n', scopes: ['read', 'x'] });
    expect(expiresAt).toBeNull();
    const fingerprint = Bun.SHA256.hash(key, 'hex').slice(0, 12);
    expect(await listed(app, 'alice')).toEqual([
      {
        id,
        name: 'n',
        scopes: ['read', 'x'],
        active: true,
        fingerprint,
        createdAt: app.clock.nowMs(),
        expiresAt: null,
        resource: null,
      },
    ]);
  });

  test.each([
    [1, DAY_MS],
    [36_500, 36_500 * DAY_MS],
    [0.5, DAY_MS / 2],
    [1 / DAY_MS, 1],
    [1.4 / DAY_MS, 1],
    [1.6 / DAY_MS, 2],
    [1e-300, 0],
  ])('expiresInDays %p expires %d ms from now, in the response and in the list', async (expiresInDays, ms) => {
    await using app = await createTestApp();
    const { expiresAt } = await app.createKey('alice', { expiresInDays });
    expect(expiresAt).toBe(app.clock.nowMs() + ms);
    expect((await listed(app, 'alice'))[0]?.expiresAt).toBe(app.clock.nowMs() + ms);
  });

  test('without a user JWT there is no key', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice');
    const input = { name: 'n', scopes: [] };
    expect((await app.call('create_api_key', input)).status).toBe(401);
    expect((await app.call('create_api_key', input, { 'x-api-key': key })).status).toBe(401);
    expect((await app.call('create_api_key', input, { authorization: `Bearer ${key}` })).status).toBe(401);
    expect(await listed(app, 'alice')).toHaveLength(1);
  });
});

describe('active → revoke_api_key → inactive', () => {
  test('the owner revokes: success, and the key is refused one request later', async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    const { status, body } = await end(app, 'revoke_api_key', 'alice', id);
    expect({ status, body }).toEqual({ status: 200, body: { success: true, message: 'API key revoked successfully' } });
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed(app, 'alice')).toMatchObject([{ id, active: false }]);
  });

  test('a key nobody used yet is refused as well once revoked', async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    await end(app, 'revoke_api_key', 'alice', id);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed(app, 'alice')).toEqual([expect.not.objectContaining({ lastUsedAt: expect.anything() })]);
  });

  test("another user's revoke says the same and changes nothing", async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    const response = await end(app, 'revoke_api_key', 'mallory', id);
    expect(response.body).toEqual({ success: true, message: 'API key revoked successfully' });
    expect((await app.useKey(key)).status).toBe(200);
    expect(await listed(app, 'alice')).toMatchObject([{ id, active: true }]);
  });
});

test('inactive → revoke_api_key → inactive: success, nothing changes', async () => {
  await using app = await createTestApp();
  const { id } = await app.createKey('alice');
  await end(app, 'revoke_api_key', 'alice', id);
  const before = await listed(app, 'alice');
  app.clock.advance(1);
  expect((await end(app, 'revoke_api_key', 'alice', id)).body.success).toBe(true);
  expect(await listed(app, 'alice')).toEqual(before);
});

describe('active or inactive → delete_api_key → removed', () => {
  test.each([true, false])('active: %p', async (active) => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    if (!active) await end(app, 'revoke_api_key', 'alice', id);
    else expect((await app.useKey(key)).status).toBe(200);
    const { status, body } = await end(app, 'delete_api_key', 'alice', id);
    expect({ status, body }).toEqual({ status: 200, body: { success: true, message: 'API key deleted permanently' } });
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed(app, 'alice')).toEqual([]);
  });

  test("another user's delete, and a delete of no key, say the same and change nothing", async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    for (const [sub, keyId] of [
      ['mallory', id],
      ['alice', '0'.repeat(32)],
      ['alice', id.toUpperCase()],
      ['alice', `${id}\0`],
      ['alice', `${id}\0x`],
      ['alice', ` ${id}`],
      ['alice', ''],
      ['alice', key],
      ['alice', '%'],
      ['alice', '__proto__'],
      ['alice', '\ud800'],
      ['alice', '😀'.repeat(200)],
    ] as const) {
      for (const tool of ['revoke_api_key', 'delete_api_key'] as const) {
        const { status, body } = await end(app, tool, sub, keyId);
        expect({ keyId, status, success: body.success }).toEqual({ keyId, status: 200, success: true });
      }
    }
    expect((await app.useKey(key)).status).toBe(200);
    expect(await listed(app, 'alice')).toMatchObject([{ id, active: true }]);
  });
});

describe('active, presented', () => {
  test('unexpired: accepted, and lastUsedAt is that millisecond', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice');
    expect(Object.keys((await listed(app, 'alice'))[0] ?? {})).not.toContain('lastUsedAt');
    for (const step of [0, 1, 12_345]) {
      app.clock.advance(step);
      expect((await app.useKey(key)).status).toBe(200);
      expect((await listed(app, 'alice'))[0]?.lastUsedAt).toBe(app.clock.nowMs());
    }
  });

  test('expiring: accepted a millisecond before and at expiresAt, refused a millisecond after, and then not a use', async () => {
    await using app = await createTestApp();
    const { key, expiresAt } = await app.createKey('alice', { expiresInDays: 1 });
    app.clock.advance(DAY_MS - 1);
    expect(app.clock.nowMs()).toBe(Number(expiresAt) - 1);
    expect((await app.useKey(key)).status).toBe(200);
    app.clock.advance(1);
    expect((await app.useKey(key)).status).toBe(200);
    app.clock.advance(1);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed(app, 'alice')).toMatchObject([{ active: true, lastUsedAt: expiresAt }]);
  });

  test('expiring, first presented after expiresAt: refused, still stored as active, never used', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice', { expiresInDays: 1 });
    app.clock.advance(DAY_MS + 1);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    const [key0] = await listed(app, 'alice');
    expect(key0).toMatchObject({ active: true });
    expect(key0).not.toHaveProperty('lastUsedAt');
  });

  test('a call refused for a missing scope counts as a use, because the key was valid', async () => {
    await using app = await createTestApp();
    const { key } = await app.createKey('alice', { scopes: [] });
    expect((await app.useKey(key)).status).toBe(403);
    expect((await listed(app, 'alice'))[0]?.lastUsedAt).toBe(app.clock.nowMs());
  });
});

test('inactive, presented: refused, and not a use, before and after its expiry', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice', { expiresInDays: 1 });
  await app.useKey(key);
  const usedAt = app.clock.nowMs();
  await end(app, 'revoke_api_key', 'alice', id);
  for (const step of [1, DAY_MS - 1, 1]) {
    app.clock.advance(step);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed(app, 'alice')).toMatchObject([{ active: false, lastUsedAt: usedAt }]);
  }
});

test('a key outlives the clock being set back, and lastUsedAt never falls', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice', { expiresInDays: 1 });
  await app.useKey(key);
  const usedAt = app.clock.nowMs();
  app.clock.setNow(usedAt - 3_600_000);
  expect((await app.useKey(key)).status).toBe(200);
  app.clock.setNow(usedAt);
  expect((await listed(app, 'alice'))[0]?.lastUsedAt).toBe(usedAt);
});

test('states survive a restart on the same file', async () => {
  const first = await createTestApp();
  const kept = await first.createKey('alice', { name: 'kept', expiresInDays: 1 });
  const revoked = await first.createKey('alice', { name: 'revoked' });
  await first.useKey(kept.key);
  await end(first, 'revoke_api_key', 'alice', revoked.id);
  const before = await listed(first, 'alice');
  await first.close();

  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  expect(await listed(second, 'alice')).toEqual(before);
  expect((await second.useKey(kept.key)).status).toBe(200);
  expect((await second.useKey(revoked.key)).body).toMatchObject(REFUSED);
});
