// The service-level update of name and scopes. No tool offers it, so it is called directly.

import { describe, expect, test } from 'bun:test';
import { actorFor, bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const alice = actorFor('alice');
const seen = async (app: TestApp) => {
  const { body } = await app.call('list_api_keys', {}, await bearer(app, 'alice'));
  const [{ name, scopes }] = body.keys;
  return { name, scopes };
};

describe('update', () => {
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
    [
      { name: '', scopes: [] },
      { name: 'old', scopes: ['read'] },
    ],
    [{}, { name: 'old', scopes: ['read'] }],
  ])('%j changes only what is given and not empty', async (fields, expected) => {
    await using app = await createTestApp();
    const { id } = await app.createKey('alice', { name: 'old' });
    expect(await app.update(alice, id, fields)).toEqual({ ok: true, value: undefined });
    expect(await seen(app)).toEqual(expected);
  });

  test('an update with nothing given changes nothing, and logs nothing', async () => {
    await using app = await createTestApp();
    const { id } = await app.createKey('alice');
    await app.update(alice, id, { name: '', scopes: [] });
    expect((await app.log()).map(({ event }) => event)).not.toContain('API key updated');
  });

  test('an update of a key of another owner changes nothing', async () => {
    await using app = await createTestApp();
    const { id } = await app.createKey('alice', { name: 'old' });
    await app.update(actorFor('mallory'), id, { name: 'mine' });
    expect(await seen(app)).toEqual({ name: 'old', scopes: ['read'] });
    const lines = (await app.log()).filter(({ event }) => event === 'API key updated');
    expect(lines).toMatchObject([{ userId: 'mallory', changed: false }]);
  });

  test('scopes given or taken count from the next request on', async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice', { scopes: ['read'] });
    const use = async () => (await app.useKey(key)).status;
    expect(await use()).toBe(200);
    await app.update(alice, id, { scopes: ['write'] });
    expect(await use()).toBe(403);
    await app.update(alice, id, { scopes: ['read'] });
    expect(await use()).toBe(200);
  });

  test('a revoked key stays revoked', async () => {
    await using app = await createTestApp();
    const { id, key } = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: id }, await bearer(app, 'alice'));
    await app.update(alice, id, { name: 'new', scopes: ['read'] });
    expect((await app.useKey(key)).status).toBe(401);
  });
});
