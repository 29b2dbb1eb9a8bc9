// Scopes are a set: the same one twice is stored once, whoever gives it, and another order is no change.

import { expect, test } from 'bun:test';
import { postJson } from '../../support/client.ts';
import { ADMINS, adminOf, bearer, createTestApp, eventsIn } from '../../support/test-app.ts';

const TWICE = ['write', 'read', 'write'];
const ONCE = ['write', 'read'];

test('the same scope twice is stored once, and another order is no change', async () => {
  await using app = await createTestApp({ env: ADMINS });
  const alice = await bearer(app, 'alice');
  const admin = await adminOf(app);
  const made = await app.call('create_api_key', { name: 'k', scopes: TWICE }, alice);
  const { id: keyId, key } = made.body;
  expect(made.body.scopes).toEqual(ONCE);
  const listed = async () => (await app.call('list_api_keys', {}, alice)).body.keys[0].scopes;
  const changes = async () => (await eventsIn(app, '--key', keyId)).filter(({ kind }) => kind === 'changed').length;
  expect(await listed()).toEqual(ONCE);
  expect((await app.call('whoami', {}, { 'x-api-key': key })).body.scopes).toEqual(ONCE);

  const edit = async (scopes: string[]) => (await postJson(`${app.url}/keys/update`, { keyId, scopes }, alice)).status;
  for (const scopes of [TWICE, [...ONCE].reverse(), ['read', 'read', 'write']]) expect(await edit(scopes)).toBe(200);
  const byAdmin = (scopes: string[]) => app.call('admin_update_key', { keyId, scopes }, admin);
  expect((await byAdmin(TWICE)).body.scopes).toEqual(ONCE);
  expect((await byAdmin([...ONCE].reverse())).body.scopes).toEqual(ONCE);
  await app.keys('update', keyId, '--scope', 'read', '--scope', 'write');
  expect([await listed(), await changes()]).toEqual([ONCE, 0]);

  expect(await edit(['read', 'read'])).toBe(200);
  expect([await listed(), await changes()]).toEqual([['read'], 1]);
  await app.keys('update', keyId, '--scope', 'write', '--scope', 'read', '--scope', 'write');
  expect([await listed(), await changes()]).toEqual([ONCE, 2]);
});
