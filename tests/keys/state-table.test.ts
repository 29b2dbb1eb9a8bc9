// The states and transitions of a key, row by row, with a clock moved by hand. Each row ends with what the store holds.

import { beforeEach, describe, expect, test } from 'bun:test';
import { bearer, createTestApp, fingerprint, listedKeys, sharedApp } from '../support/test-app.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

/** Another for each test. */
let owner = '';
let owners = 0;
const app = await sharedApp();
beforeEach(() => {
  owners += 1;
  owner = `owner ${owners}`;
});

const end = async (tool: 'revoke_api_key' | 'delete_api_key', keyId: string, by = owner, at = app) =>
  at.call(tool, { keyId }, await bearer(at, by));
const listed = (at = app): Promise<Record<string, unknown>[]> => listedKeys(at, owner);

const REFUSED = { status: 401, code: 'invalid_api_key', detail: 'Invalid or expired API key' };
const REVOKED = { status: 200, body: { success: true, message: 'API key revoked successfully' } };
const DELETED = { status: 200, body: { success: true, message: 'API key deleted permanently' } };

describe('(none) → create_api_key', () => {
  test('with a user JWT a key is active, created now, and never expires unless asked', async () => {
    const { id, key, expiresAt } = await app.createKey(owner, { name: 'n', scopes: ['read', 'x'] });
    expect(expiresAt).toBeNull();
    expect(await listed()).toEqual([
      {
        ...{ id, name: 'n', scopes: ['read', 'x'], active: true, fingerprint: fingerprint(key) },
        ...{ createdAt: app.clock.nowMs(), expiresAt: null, resource: null },
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
    const { expiresAt } = await app.createKey(owner, { expiresInDays });
    expect(expiresAt).toBe(app.clock.nowMs() + ms);
    expect((await listed())[0]?.expiresAt).toBe(app.clock.nowMs() + ms);
  });
});

describe('active → revoke_api_key → inactive', () => {
  test.each([true, false])(
    'the owner revokes: success, and the key, used before: %p, is refused one request later',
    async (isUsed) => {
      const { id, key } = await app.createKey(owner);
      if (isUsed) expect((await app.useKey(key)).status).toBe(200);
      expect(await end('revoke_api_key', id)).toMatchObject(REVOKED);
      expect((await app.useKey(key)).body).toMatchObject(REFUSED);
      const [one] = await listed();
      expect(one).toMatchObject({ id, active: false });
      if (!isUsed) expect(one).not.toHaveProperty('lastUsedAt');
    },
  );

  test('inactive → revoke_api_key → inactive: success, nothing changes', async () => {
    const { id } = await app.createKey(owner);
    await end('revoke_api_key', id);
    const before = await listed();
    app.clock.advance(1);
    expect(await end('revoke_api_key', id)).toMatchObject(REVOKED);
    expect(await listed()).toEqual(before);
  });
});

describe('active or inactive → delete_api_key → removed', () => {
  test.each([true, false])('active: %p', async (active) => {
    const { id, key } = await app.createKey(owner);
    if (!active) await end('revoke_api_key', id);
    else expect((await app.useKey(key)).status).toBe(200);
    expect(await end('delete_api_key', id)).toMatchObject(DELETED);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed()).toEqual([]);
  });
});

test("another user's revoke and delete, and those of no key, say the same and change nothing", async () => {
  const { id, key } = await app.createKey(owner);
  for (const [by, keyId] of [
    ['mallory', id],
    [owner, '0'.repeat(32)],
    [owner, `${id}\0x`],
    [owner, ` ${id}`],
    [owner, '%'],
    [owner, '__proto__'],
    [owner, '\ud800'],
    [owner, '😀'.repeat(200)],
  ] as const) {
    for (const [tool, success] of [
      ['revoke_api_key', REVOKED],
      ['delete_api_key', DELETED],
    ] as const) {
      expect([keyId, await end(tool, keyId, by)]).toMatchObject([keyId, success]);
    }
  }
  expect((await app.useKey(key)).status).toBe(200);
  expect(await listed()).toMatchObject([{ id, active: true }]);
});

describe('active, presented', () => {
  test('unexpired: accepted, and lastUsedAt is that millisecond', async () => {
    const { key } = await app.createKey(owner);
    expect((await listed())[0]).not.toHaveProperty('lastUsedAt');
    for (const step of [0, 1, 12_345]) {
      app.clock.advance(step);
      expect((await app.useKey(key)).status).toBe(200);
      expect((await listed())[0]?.lastUsedAt).toBe(app.clock.nowMs());
    }
  });

  test('expiring: accepted a millisecond before and at expiresAt, refused a millisecond after, and then not a use', async () => {
    const { key, expiresAt } = await app.createKey(owner, { expiresInDays: 1 });
    app.clock.advance(DAY_MS - 1);
    expect(app.clock.nowMs()).toBe(Number(expiresAt) - 1);
    expect((await app.useKey(key)).status).toBe(200);
    app.clock.advance(1);
    expect((await app.useKey(key)).status).toBe(200);
    app.clock.advance(1);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed()).toMatchObject([{ active: true, lastUsedAt: expiresAt }]);
  });

  test('expiring, first presented after expiresAt: refused, still stored as active, never used', async () => {
    const { key } = await app.createKey(owner, { expiresInDays: 1 });
    app.clock.advance(DAY_MS + 1);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    const [one] = await listed();
    expect(one).toMatchObject({ active: true });
    expect(one).not.toHaveProperty('lastUsedAt');
  });

  test('a call refused for a missing scope counts as a use, because the key was valid', async () => {
    const { key } = await app.createKey(owner, { scopes: [] });
    expect((await app.useKey(key)).status).toBe(403);
    expect((await listed())[0]?.lastUsedAt).toBe(app.clock.nowMs());
  });
});

test('inactive, presented: refused, and not a use, before and after its expiry', async () => {
  const { id, key } = await app.createKey(owner, { expiresInDays: 1 });
  await app.useKey(key);
  const usedAt = app.clock.nowMs();
  await end('revoke_api_key', id);
  for (const step of [1, DAY_MS - 1, 1]) {
    app.clock.advance(step);
    expect((await app.useKey(key)).body).toMatchObject(REFUSED);
    expect(await listed()).toMatchObject([{ active: false, lastUsedAt: usedAt }]);
  }
});

test('a key outlives the clock being set back, and lastUsedAt never falls', async () => {
  const { key } = await app.createKey(owner, { expiresInDays: 1 });
  await app.useKey(key);
  const usedAt = app.clock.nowMs();
  app.clock.setNow(usedAt - 3_600_000);
  expect((await app.useKey(key)).status).toBe(200);
  app.clock.setNow(usedAt);
  expect((await listed())[0]?.lastUsedAt).toBe(usedAt);
});

test('states survive a restart on the same file', async () => {
  const first = await createTestApp();
  const kept = await first.createKey(owner, { name: 'kept', expiresInDays: 1 });
  const revoked = await first.createKey(owner, { name: 'revoked' });
  await first.useKey(kept.key);
  await end('revoke_api_key', revoked.id, owner, first);
  const before = await listed(first);
  await first.close();

  await using second = await createTestApp({ folder: first.folder, clock: first.clock });
  expect(await listed(second)).toEqual(before);
  expect((await second.useKey(kept.key)).status).toBe(200);
  expect((await second.useKey(revoked.key)).body).toMatchObject(REFUSED);
});
