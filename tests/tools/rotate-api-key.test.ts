// rotate_api_key: which secret is accepted when, what owners are told, and what can't be rotated.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { call, post, postModern, request } from '../support/mcp.ts';
import {
  bearer,
  createTestApp,
  fingerprint,
  listedKeys,
  type TestApp,
  type TestResponse,
} from '../support/test-app.ts';

const HOUR_MS = 3_600_000;

let app: TestApp;
beforeEach(async () => {
  app = await createTestApp();
});
afterEach(() => app.close());

async function rotate(app: TestApp, keyId: string, input: object = {}, sub = 'alice'): Promise<TestResponse> {
  return app.call('rotate_api_key', { keyId, ...input }, await bearer(app, sub));
}

/** The statuses that these secrets get. */
const statuses = (app: TestApp, ...keys: string[]) =>
  Promise.all(keys.map(async (key) => (await app.useKey(key)).status));

const listed = async (app: TestApp) => (await listedKeys(app, 'alice'))[0];

test('the new key has the id, name, scopes and expiry of the old one', async () => {
  const { id, key, expiresAt } = await app.createKey('alice', { name: 'ci', expiresInDays: 3 });
  const { status, body } = await rotate(app, id);
  expect(status).toBe(200);
  expect(body).toEqual({
    id,
    key: expect.stringMatching(/^sk_test_[0-9a-f]{64}$/),
    name: 'ci',
    scopes: ['read'],
    expiresAt,
    resource: null,
    warning: 'Save this key now - it will not be shown again',
    previous: { state: 'until_first_use', overlapHours: 24 },
  });
  expect(body.key).not.toBe(key);
});

test('the old secret goes on until the overlap after the first use of the new one has passed, to the millisecond', async () => {
  const { id, key: old } = await app.createKey('alice');
  const { key: next } = (await rotate(app, id, { overlapHours: 2 })).body;
  app.clock.advance(1000 * HOUR_MS); // however long nobody uses it
  expect(await statuses(app, old)).toEqual([200]);
  expect(await listed(app)).toMatchObject({
    fingerprint: fingerprint(old),
    rotation: { state: 'until_first_use', otherFingerprint: fingerprint(next) },
  });
  const usedAtMs = app.clock.nowMs();
  expect(await statuses(app, next, old)).toEqual([200, 200]);
  expect(await listed(app)).toMatchObject({
    fingerprint: fingerprint(next),
    rotation: {
      state: 'overlapping',
      previousUntil: usedAtMs + 2 * HOUR_MS,
      otherFingerprint: fingerprint(old),
    },
  });
  app.clock.advance(2 * HOUR_MS);
  expect(await statuses(app, next, old)).toEqual([200, 200]);
  app.clock.advance(1);
  expect(await statuses(app, next, old)).toEqual([200, 401]);
  expect(await listed(app)).not.toHaveProperty('rotation');
});

test('with overlapHours 0 the old secret ends at once', async () => {
  const { id, key: old } = await app.createKey('alice');
  expect(await statuses(app, old)).toEqual([200]);
  const { body } = await rotate(app, id, { overlapHours: 0 });
  expect(body.previous).toEqual({ state: 'ended', overlapHours: 0 });
  expect(await statuses(app, old, body.key)).toEqual([401, 200]);
  expect(await listed(app)).not.toHaveProperty('rotation');
});

test('another rotation before the first use replaces the new secret', async () => {
  const { id, key: old } = await app.createKey('alice');
  const lost = (await rotate(app, id)).body.key;
  const next = (await rotate(app, id, { overlapHours: 1 })).body.key;
  expect(await statuses(app, lost, old, next, old)).toEqual([401, 200, 200, 200]);
});

test('while a previous secret runs out only a rotation that ends both is done; then the key is rotated again', async () => {
  const { id, key: first } = await app.createKey('alice');
  const second = (await rotate(app, id, { overlapHours: 1 })).body.key;
  expect(await statuses(app, second)).toEqual([200]);
  const previousUntil = app.clock.nowMs() + HOUR_MS;
  const refused = await rotate(app, id);
  expect(refused).toMatchObject({
    status: 409,
    body: { code: 'rotation_under_way', previousUntil, detail: expect.stringContaining('2026') },
  });
  const rotation = { name: 'rotate_api_key', arguments: { keyId: id } };
  const alice = await bearer(app, 'alice');
  for (const over of [
    await post(app, request('tools/call', rotation), alice),
    await postModern(app, 'tools/call', rotation, { headers: alice }),
  ]) {
    expect(over.body.result).toMatchObject({
      isError: true,
      _meta: { 'mcp-key-server/widget': { code: 'rotation_under_way', previousUntil } },
    });
  }
  expect(await statuses(app, first, second)).toEqual([200, 200]);
  app.clock.advance(HOUR_MS);
  expect((await rotate(app, id)).status).toBe(409);
  app.clock.advance(1);
  const third = (await rotate(app, id, { overlapHours: 1 })).body.key;
  expect(await statuses(app, second, third, second)).toEqual([200, 200, 200]);
  const last = (await rotate(app, id, { overlapHours: 0 })).body.key;
  expect(await statuses(app, first, second, third, last)).toEqual([401, 401, 401, 200]);
});

test.each(['revoke_api_key', 'delete_api_key'])('%s ends both secrets', async (tool) => {
  const keys = [await app.createKey('alice'), await app.createKey('alice')] as const;
  const next = (await rotate(app, keys[0].id)).body.key;
  const inForce = (await rotate(app, keys[1].id)).body.key;
  expect(await statuses(app, keys[0].key, inForce, keys[1].key)).toEqual([200, 200, 200]);
  for (const { id } of keys) await app.call(tool, { keyId: id }, await bearer(app, 'alice'));
  expect(await statuses(app, keys[0].key, next, keys[1].key, inForce)).toEqual([401, 401, 401, 401]);
});

test('a key that is revoked during a rotation is listed without it', async () => {
  const { id } = await app.createKey('alice');
  await rotate(app, id);
  expect((await listed(app))?.rotation).toMatchObject({ state: 'until_first_use' });
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  expect((await listed(app))?.rotation).toBeUndefined();
});

test('expiry ends both secrets, and is not extended', async () => {
  const { id, key: old } = await app.createKey('alice', { expiresInDays: 1 });
  const next = (await rotate(app, id, { overlapHours: 720 })).body.key;
  expect(await statuses(app, next)).toEqual([200]);
  app.clock.advance(24 * HOUR_MS);
  expect(await statuses(app, old, next)).toEqual([200, 200]);
  app.clock.advance(1);
  expect(await statuses(app, old, next)).toEqual([401, 401]);
  expect(await rotate(app, id)).toMatchObject({ status: 409, body: { code: 'key_not_active' } });
});

test('a first use counts even if the key lacks the scope', async () => {
  const { id } = await app.createKey('alice', { scopes: [] });
  const next = (await rotate(app, id)).body.key;
  expect(await statuses(app, next)).toEqual([403]);
  expect((await listed(app)).rotation.state).toBe('overlapping');
});

describe('what can’t be rotated', () => {
  test('a revoked key can’t be rotated', async () => {
    const { id } = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
    for (const overlapHours of [0, 24]) {
      expect(await rotate(app, id, { overlapHours })).toMatchObject({ status: 409, body: { code: 'key_not_active' } });
    }
  });

  test('a key with scopes that the user may not give can’t be rotated', async () => {
    await using app = await createTestApp({ env: { JWT_SCOPE_CLAIM: 'scope' } });
    const headers = async (scope: string) => ({ authorization: `Bearer ${await app.token('alice', { scope })}` });
    const { body } = await app.call(
      'create_api_key',
      { name: 'n', scopes: ['read', 'write'] },
      await headers('read write'),
    );
    const refused = await app.call('rotate_api_key', { keyId: body.id, overlapHours: 0 }, await headers('read'));
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_not_granted' } });
    expect(await statuses(app, body.key)).toEqual([200]);
    const rotated = await app.call('rotate_api_key', { keyId: body.id }, await headers('write read other'));
    expect(rotated.status).toBe(200);
  });

  test('a key with a scope that only a command could give can’t be rotated', async () => {
    await using app = await createTestApp({ env: { KEY_SCOPES: 'read' } });
    const { id, key } = await app.createKey('alice', { scopes: ['read'] });
    await app.keys('update', id, '--scope', 'read', '--scope', 'introspect');
    const refused = await rotate(app, id);
    expect(refused).toMatchObject({ status: 403, body: { code: 'scope_not_granted' } });
    const { body } = await post(app, call('rotate_api_key', { keyId: id }), await bearer(app, 'alice'));
    expect(body.result.content[1].text).toBe('You may give these scopes: read');
    expect(await statuses(app, key)).toEqual([200]);
  });

  test('an overlap is whole hours, up to 720', async () => {
    const { id } = await app.createKey('alice');
    for (const overlapHours of [-1, 0.5, 721, '24', null, Number.MAX_SAFE_INTEGER])
      expect(await rotate(app, id, { overlapHours })).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
    expect((await rotate(app, id, { overlapHours: 720 })).body.previous.overlapHours).toBe(720);
  });
});

test('the log says what was rotated and completed, and by which fingerprint, but no secret', async () => {
  const { id, key: old } = await app.createKey('alice');
  const next = (await rotate(app, id, { overlapHours: 1 })).body.key;
  await statuses(app, next);
  app.clock.advance(HOUR_MS + 1);
  await statuses(app, old);
  const lines = (await app.log()).filter(({ keyId }) => keyId === id);
  const of = (event: string) => lines.find((line) => line.event === event);
  expect(of('API key created')?.fingerprint).toBe(fingerprint(old));
  expect(of('API key rotated')).toMatchObject({ level: 'info', userId: 'alice', fingerprint: fingerprint(old) });
  expect(of('API key rotation completed')).toMatchObject({ userId: 'alice', fingerprint: fingerprint(next) });
  expect(of('Invalid or expired API key')).toMatchObject({ reason: 'rotated', fingerprint: fingerprint(next) });
  const text = await app.logText();
  for (const key of [old, next]) {
    expect(text).not.toContain(key.slice(8));
    expect(text).not.toContain(Bun.SHA256.hash(key, 'hex'));
  }
});
