// A key that is verified without being used: pasted into a page, or looked at for a challenge.

import { expect, test } from 'bun:test';
import { bearer, CALLER, createTestApp, eventsIn, type TestApp } from '../support/test-app.ts';

const listed = async (app: TestApp) => (await app.call('list_api_keys', {}, await bearer(app, 'alice'))).body.keys[0];

test('a pasted key is noted as validated, a key that is looked at is not', async () => {
  await using app = await createTestApp();
  const { key } = await app.createKey('alice');
  const { verifier } = app.service.keyDomain;
  expect((await verifier.look(key, CALLER)).ok).toBe(true);
  expect((await listed(app)).lastUsedAt).toBeUndefined();
  expect((await verifier.paste(key, CALLER)).ok).toBe(true);
  expect((await listed(app)).lastUsedAt).toBe(app.clock.nowMs());
});

test('neither completes a rotation, and the next use does', async () => {
  await using app = await createTestApp();
  const { id } = await app.createKey('alice');
  const rotated = await app.call('rotate_api_key', { keyId: id }, await bearer(app, 'alice'));
  const { verifier } = app.service.keyDomain;
  for (const verify of [verifier.paste, verifier.look, verifier.paste, verifier.look]) {
    expect((await verify(rotated.body.key, CALLER)).ok).toBe(true);
  }
  expect((await listed(app)).rotation.state).toBe('until_first_use');
  expect((await eventsIn(app)).map(({ kind }) => kind)).toEqual(['created', 'rotated']);
  expect((await app.useKey(rotated.body.key)).status).toBe(200);
  expect((await listed(app)).rotation.state).toBe('overlapping');
});

test('a revoked key is refused either way', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice');
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  const { verifier } = app.service.keyDomain;
  expect((await verifier.paste(key, CALLER)).ok).toBe(false);
  expect((await verifier.look(key, CALLER)).ok).toBe(false);
});
