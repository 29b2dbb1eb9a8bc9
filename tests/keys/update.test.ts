// The service-level update of name and scopes. No tool offers it, so it is called directly.

import { expect, test } from 'bun:test';
import { actorFor, bearer, listedKeys, sharedApp } from '../support/test-app.ts';

const alice = actorFor('alice');

const app = await sharedApp();

const seen = async (keyId: string) => {
  const { name, scopes } = (await listedKeys(app, 'alice')).find(({ id }) => id === keyId) ?? {};
  return { name, scopes };
};
const updates = async () => (await app.log()).filter(({ event }) => event === 'API key updated');

test.each([
  [{ name: 'new' }, { name: 'new', scopes: ['read'] }],
  [{ scopes: ['write'] }, { name: 'old', scopes: ['write'] }],
  [
    { name: 'new', scopes: ['write', 'x'] },
    { name: 'new', scopes: ['write', 'x'] },
  ],
  [
    { name: '', scopes: ['write'] },
    { name: 'old', scopes: ['write'] },
  ],
  [
    { name: 'new', scopes: [] },
    { name: 'new', scopes: ['read'] },
  ],
])('%j changes only what is given and not empty', async (fields, expected) => {
  const { id } = await app.createKey('alice', { name: 'old' });
  expect(await app.update(alice, id, fields)).toEqual({ ok: true, value: undefined });
  expect(await seen(id)).toEqual(expected);
});

test.each([[{ name: '', scopes: [] }], [{}]])('%j changes nothing, and logs nothing', async (fields) => {
  const { id } = await app.createKey('alice', { name: 'old' });
  const logged = await updates();
  expect(await app.update(alice, id, fields)).toEqual({ ok: true, value: undefined });
  expect(await seen(id)).toEqual({ name: 'old', scopes: ['read'] });
  expect(await updates()).toEqual(logged);
});

test.each([
  [{ name: ' ' }, 'name'],
  [{ name: 'a\0b' }, 'name'],
  [{ name: 'n'.repeat(201) }, 'name'],
  [{ name: 'new', scopes: ['read', 'a b'] }, 'scopes.1'],
  [{ scopes: Array.from({ length: 101 }, (_, index) => `s${index}`) }, 'scopes'],
])('what no key can have is refused, and changes nothing (row %#)', async (fields, path) => {
  const { id } = await app.createKey('alice', { name: 'old' });
  const issues = [{ path, message: expect.stringContaining('Expected ') }];
  expect(await app.update(alice, id, fields)).toMatchObject({ ok: false, error: { code: 'invalid_input', issues } });
  expect(await seen(id)).toEqual({ name: 'old', scopes: ['read'] });
});

test('an update of a key of another owner changes nothing', async () => {
  const { id } = await app.createKey('alice', { name: 'old' });
  await app.update(actorFor('mallory'), id, { name: 'mine' });
  expect(await seen(id)).toEqual({ name: 'old', scopes: ['read'] });
  expect((await updates()).at(-1)).toMatchObject({ userId: 'mallory', changed: false });
});

test('scopes given or taken count from the next request on; a revoked key stays revoked', async () => {
  const { id, key } = await app.createKey('alice', { scopes: ['read'] });
  const use = async () => (await app.useKey(key)).status;
  expect(await use()).toBe(200);
  await app.update(alice, id, { scopes: ['write'] });
  expect(await use()).toBe(403);
  await app.update(alice, id, { scopes: ['read'] });
  expect(await use()).toBe(200);
  await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
  await app.update(alice, id, { name: 'new', scopes: ['read'] });
  expect(await use()).toBe(401);
});
