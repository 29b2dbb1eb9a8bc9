// The tools for admins: who may call them, what they list, what they revoke, and what the trail says of it.

import { describe, expect, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { call, post } from '../../support/mcp.ts';
import { startProxy } from '../../support/proxy.ts';
import { startStore, storeOn } from '../../support/store-mode.ts';
import { startPrimary } from '../../support/template.ts';
import { ADMINS, adminOf, bearer, createTestApp, eventsIn, sharedApp } from '../../support/test-app.ts';

const app = await sharedApp({ env: ADMINS });
const withRoles = (roles: unknown) => bearer(app, 'root', { roles });
const admin = await withRoles(['other', 'keys-admin']);
const list = (input: object = {}, headers = admin) => app.call('admin_list_keys', input, headers);
const revoke = (input: object, headers = admin) => app.call('admin_revoke_keys', input, headers);
const update = (input: object, headers = admin) => app.call('admin_update_key', input, headers);

describe('who may call them', () => {
  test('without ADMIN_CLAIM there are no admin tools', async () => {
    await using other = await createTestApp();
    for (const tool of ['admin_list_keys', 'admin_revoke_keys', 'admin_update_key']) {
      expect((await other.call(tool, {}, await bearer(other, 'root'))).body.code).toBe('tool_not_found');
    }
  });

  test.each([[['keys-admin']], ['keys-admin'], ['reader keys-admin']])('%j is an admin', async (roles) => {
    expect((await list({}, await withRoles(roles))).status).toBe(200);
  });

  test.each([[undefined], [['admin']], ['keys-admin2'], [['keys-admin', 1]], [true], [{ 'keys-admin': 1 }]])(
    '%j is none',
    async (roles) => {
      const headers = await withRoles(roles);
      const nothing = { keyId: 'f'.repeat(32), name: 'n' };
      const responses = [
        await list({}, headers),
        await revoke({ owner: 'alice' }, headers),
        await update(nothing, headers),
      ];
      for (const response of responses) {
        expect(response).toMatchObject({ status: 403, body: { code: 'admin_required' } });
      }
    },
  );

  test('the claim may be named by a path', async () => {
    await using other = await createTestApp({ env: { ADMIN_CLAIM: 'realm_access.roles=adm' } });
    const statusOf = async (realm_access: unknown) => {
      return (await other.call('admin_list_keys', {}, await bearer(other, 'root', { realm_access }))).status;
    };
    const claims = [{ roles: ['x', 'adm'] }, { roles: { adm: true } }, undefined];
    expect(await Promise.all(claims.map(statusOf))).toEqual([200, 403, 403]);
  });

  test('the log says who is none: the owner, and the person only if another', async () => {
    await using other = await createTestApp({ env: { ...ADMINS, JWT_OWNER_CLAIM: 'team' } });
    for (const team of ['eve', 'blue']) {
      expect((await other.call('admin_list_keys', {}, await bearer(other, 'eve', { team }))).status).toBe(403);
    }
    const lines = (await other.log()).filter(({ event }) => event === 'Admin required');
    expect(lines.map(({ userId, actor }) => ({ userId, actor }))).toEqual([
      { userId: 'eve', actor: undefined },
      { userId: 'blue', actor: 'eve' },
    ]);
  });

  test('an API key is never an admin, whatever its scopes and owner', async () => {
    const { key } = await app.createKey('root', { scopes: ['keys-admin'] });
    const asKey = { authorization: `Bearer ${key}` };
    for (const response of [await list({}, asKey), await update({ keyId: 'x', name: 'n' }, asKey)]) {
      expect(response.body).toMatchObject({ code: 'invalid_token' });
    }
  });
});

test('lists the keys of all owners or of one, newest first, 100 a page, each once', async () => {
  const ids: string[] = [];
  for (let count = 0; count < 201; count += 1) ids.push((await app.createKey(`owner ${count % 2}`)).id);
  const seen: { id: string; owner: string }[] = [];
  for (let cursor: string | undefined; ; ) {
    const { body } = await list({ ...(cursor && { cursor }) });
    seen.push(...body.keys);
    cursor = body.nextCursor;
    if (cursor === undefined) break;
    expect(body.keys).toHaveLength(100);
  }
  const listed = seen.filter(({ owner }) => owner.startsWith('owner ')).map(({ id }) => id);
  expect(listed).toEqual(ids.toReversed());
  const { body } = await list({ owner: 'owner 1' });
  expect(body.keys).toHaveLength(100);
  expect(body.nextCursor).toBeUndefined(); // nothing follows
  expect(new Set(body.keys.map(({ owner }: { owner: string }) => owner))).toEqual(new Set(['owner 1']));
  expect(body.keys[0]).toMatchObject({ id: ids[199], active: true, scopes: ['read'], fingerprint: expect.any(String) });
  for (const cursor of ['x', '0', '-1', '1e3', ''])
    expect((await list({ cursor })).body).toMatchObject({ code: 'invalid_input', issues: [{ path: 'cursor' }] });
});

test('children stand with their parent as a number, end alone or with it, and can’t be changed', async () => {
  const parent = await app.createKey('ina', { scopes: ['read', 'delegate'] });
  const [one, other] = [await childOf(app, parent.key), await childOf(app, parent.key)];
  const statuses = async () => [(await app.useKey(one.key)).status, (await app.useKey(other.key)).status];
  expect((await list({ owner: 'ina' })).body.keys).toMatchObject([{ id: parent.id, children: 2 }]);
  expect((await update({ keyId: one.id, name: 'n' })).body.code).toBe('key_not_found');
  expect((await revoke({ keyIds: [one.id] })).body).toEqual({ revoked: 1 });
  expect(await statuses()).toEqual([401, 200]);
  expect((await eventsIn(app, '--key', parent.id)).at(-1)).toMatchObject({ kind: 'child_ended', actor: 'root' });
  await update({ keyId: parent.id, scopes: ['read'] });
  expect(await statuses()).toEqual([401, 401]);
  await update({ keyId: parent.id, scopes: ['read', 'delegate'] });
  expect(await statuses()).toEqual([401, 200]);
  expect((await revoke({ owner: 'ina' })).body).toEqual({ revoked: 1 });
  expect(await statuses()).toEqual([401, 401]);
  expect((await list({ owner: 'ina' })).body.keys[0]).not.toHaveProperty('children');
});

test('revokes all keys of an owner, at once, and leaves an event with the admin for each, and their ids in the log', async () => {
  const keys = [await app.createKey('mallory'), await app.createKey('mallory')];
  const other = await app.createKey('nora');
  expect((await app.useKey(keys[0]?.key ?? '')).status).toBe(200);
  expect((await revoke({ owner: 'mallory' })).body).toEqual({ revoked: 2 });
  for (const { key } of keys) expect((await app.useKey(key)).status).toBe(401);
  expect((await app.useKey(other.key)).status).toBe(200);
  expect((await revoke({ owner: 'mallory' })).body).toEqual({ revoked: 0 });
  const events = await eventsIn(app, '--user', 'mallory');
  expect(events.slice(-2)).toMatchObject([
    { kind: 'revoked', how: 'tool', actor: 'root' },
    { kind: 'revoked', how: 'tool', actor: 'root' },
  ]);
  const lines = (await app.log()).filter(({ event }) => event === 'API keys revoked by an admin');
  const logged = lines.flatMap((line) => line.keyIds as string[]);
  for (const { id } of keys) expect(logged).toContain(id);
});

test('revokes keys by id, of whatever owner, and passes over unknown ones', async () => {
  const [one, two] = [await app.createKey('olga'), await app.createKey('paul')];
  const keyIds = [one.id, two.id, 'f'.repeat(32), 'no id'];
  expect((await revoke({ keyIds })).body).toEqual({ revoked: 2 });
  expect((await app.useKey(two.key)).status).toBe(401);
});

test('what names neither an owner nor keys, or both, is bad input, and changes nothing', async () => {
  const { key } = await app.createKey('quinn');
  const many = Array.from({ length: 101 }, () => 'x');
  for (const input of [{}, { owner: 'a', keyIds: ['b'] }, { keyIds: [] }, { keyIds: many }, { all: true }])
    expect(await revoke(input)).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
  expect((await app.useKey(key)).status).toBe(200);
});

test('a revocation that arrives once more, late, ends no key made since', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  const store = storeOn({ DATABASE_URL: proxy.url });
  await using remote = await createTestApp({ store, env: ADMINS });
  const { id } = await remote.createKey('alice');
  const letThrough = proxy.holdUp('UPDATE api_keys SET active = 0');
  expect((await remote.call('admin_revoke_keys', { owner: 'alice' }, await adminOf(remote))).body).toEqual({
    revoked: 1,
  });
  await remote.call('delete_api_key', { keyId: id }, await bearer(remote, 'alice'));
  const { key } = await remote.createKey('bob');
  await letThrough();
  remote.clock.advance(1001);
  expect((await remote.useKey(key)).status).toBe(200);
});

test('a key in place of an id is sent to no database', async () => {
  await using sqld = await startPrimary();
  await using proxy = await startProxy(sqld.url);
  await using remote = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }), env: ADMINS });
  const { key } = await remote.createKey('alice');
  const root = await adminOf(remote);
  const page = (path: string, body: object) =>
    fetch(`${remote.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...root },
      body: JSON.stringify(body),
    });
  const found = [
    (await remote.call('admin_update_key', { keyId: key, name: 'n' }, root)).status,
    (await remote.call('admin_list_keys', { keyId: key }, root)).body.keys,
    (await remote.call('admin_list_keys', { childrenOf: key }, root)).body.keys,
    (await page('/keys/update', { keyId: key, name: 'n' })).status,
    (await page('/keys/events', { keyId: key })).status,
  ];
  expect(found).toEqual([404, [], [], 404, 404]);
  expect(proxy.sent('alice')).toBeGreaterThan(0);
  expect(proxy.sent(key)).toBe(0);
});

describe('admin_update_key', () => {
  const RATE_LIMIT = { requests: 2, window: '1h' };
  const eventsOf = (keyId: string) => eventsIn(app, '--key', keyId);

  test('changes what is given of anybody’s key, returns it, and leaves an event with the admin', async () => {
    const { id, key } = await app.createKey('rita', { name: 'old', scopes: ['read'] });
    expect((await app.useKey(key)).status).toBe(200);
    const quota = { requests: 5, period: 'day' };
    const changes = { name: 'new', scopes: ['write'], expiresInDays: 1, rateLimit: RATE_LIMIT, quota };
    const { status, body } = await update({ keyId: id, ...changes });
    expect(status).toBe(200);
    const { expiresAt, ...shown } = body;
    expect(shown).toMatchObject({ id, owner: 'rita', name: 'new', scopes: ['write'], rateLimit: RATE_LIMIT, quota });
    expect(Math.abs(expiresAt - Date.now() - 86_400_000)).toBeLessThan(60_000); // by the clock of the database
    expect((await list({ owner: 'rita' })).body.keys).toEqual([body]);
    expect((await app.useKey(key)).body.code).toBe('insufficient_scope'); // at once
    const fields = ['name', 'scopes', 'expiresAt', 'rateLimit', 'quota'];
    expect((await eventsOf(id)).at(-1)).toMatchObject({ kind: 'changed', how: 'tool', actor: 'root', fields });
    expect((await app.logText()).includes('API key updated')).toBe(true);
  });

  test('null takes the expiry, the limit and the quota away; what is not given stays', async () => {
    const { id } = await app.createKey('sam', { expiresInDays: 1 });
    await update({ keyId: id, rateLimit: RATE_LIMIT, quota: { requests: 5, period: 'month' } });
    const { body } = await update({ keyId: id, expiresInDays: null, rateLimit: null, quota: null });
    expect(body).toMatchObject({ id, name: 'test key', scopes: ['read'], active: true, expiresAt: null });
    expect(body).not.toHaveProperty('rateLimit');
    expect(body).not.toHaveProperty('quota');
  });

  test('an expired key may get days, and a revoked key stays revoked', async () => {
    const { id, key } = await app.createKey('tom');
    await revoke({ keyIds: [id] });
    expect((await update({ keyId: id, name: 'named', expiresInDays: 3 })).body).toMatchObject({ active: false });
    expect((await app.useKey(key)).status).toBe(401);
  });

  test('what is so already is no change, and leaves no event', async () => {
    const { id } = await app.createKey('uma', { name: 'n' });
    const before = (await eventsOf(id)).length;
    expect((await update({ keyId: id, name: 'n' })).body).toMatchObject({ id, name: 'n' });
    expect(await eventsOf(id)).toHaveLength(before);
  });

  test('an admin adds no scope and no life that a person could not give, but sets limits and takes away', async () => {
    const env = {
      ADMIN_CLAIM: 'roles=adm',
      JWT_SCOPE_CLAIM: 'scope',
      KEY_SCOPES: 'read write extra',
      KEY_MAX_DAYS: '30',
    };
    await using other = await createTestApp({ env: { ...env, RATE_LIMIT_REQUESTS: '10' } });
    const as = (scope: string) => bearer(other, 'root', { roles: 'adm', scope });
    const [narrow, wide] = [await as('read'), await as('read write extra')];
    const { body: key } = await other.call('create_api_key', { name: 'k', scopes: ['write'], expiresInDays: 2 }, wide);
    const edit = (input: object, headers = narrow) =>
      other
        .call('admin_update_key', { keyId: key.id, ...input }, headers)
        .then(({ status, body }) => ({ status, ...body }));
    const { expiresAt, status } = await edit({ name: 'before', scopes: ['write'] });
    expect(status).toBe(200);
    const refused = [
      [{ scopes: ['write', 'extra'] }, 'scope_not_granted'],
      [{ scopes: ['write', 'other'] }, 'invalid_input'],
      [{ expiresInDays: 30.1 }, 'invalid_input'],
      [{ expiresInDays: null }, 'invalid_input'],
    ] as const;
    for (const [input, code] of refused) expect(await edit({ name: 'after', ...input })).toMatchObject({ code });
    expect(await edit({ scopes: ['write', 'other'] })).toMatchObject({ issues: [{ path: 'scopes.1' }] });
    const rateLimit = { requests: 1000, window: '1m' };
    expect(await edit({ rateLimit })).toMatchObject({ name: 'before', scopes: ['write'], expiresAt, rateLimit });
    expect(await edit({ scopes: ['write', 'read'], expiresInDays: 30 })).toMatchObject({ scopes: ['write', 'read'] });
    expect(await edit({ scopes: ['read'], expiresInDays: 1 })).toMatchObject({ status: 200, scopes: ['read'] });
    expect(await edit({ scopes: ['write'] })).toMatchObject({ code: 'scope_not_granted' }); // taken away, it is no more held
    expect(await edit({ scopes: ['extra'] }, wide)).toMatchObject({ scopes: ['extra'] });
  });

  test('a life that is shorter than it was passes, though it is longer than a new key gets', async () => {
    await using store = await startStore('embedded');
    await using before = await createTestApp({ store });
    const [long, endless] = [await before.createKey('vera', { expiresInDays: 20_000 }), await before.createKey('vera')];
    await using capped = await createTestApp({ store, env: { ADMIN_CLAIM: 'sub=root', KEY_MAX_DAYS: '30' } });
    const root = await bearer(capped, 'root');
    const edit = (keyId: string, expiresInDays: number | null) =>
      capped.call('admin_update_key', { keyId, expiresInDays }, root).then(({ status }) => status);
    expect(await edit(long.id, 10_000)).toBe(200);
    expect(await edit(long.id, 30_000)).toBe(400);
    expect(await edit(endless.id, null)).toBe(200);
    expect(await edit(endless.id, 100)).toBe(200);
    expect(await edit(endless.id, null)).toBe(400);
  });

  test('of two admins none gives back the scope that the other has just taken away', async () => {
    const env = { ADMIN_CLAIM: 'roles=adm', JWT_SCOPE_CLAIM: 'scope' };
    await using sqld = await startPrimary();
    await using proxy = await startProxy(sqld.url);
    await using other = await createTestApp({ store: storeOn({ DATABASE_URL: proxy.url }), env });
    const as = (scope: string) => bearer(other, 'root', { roles: 'adm', scope });
    const made = await other.call('create_api_key', { name: 'k', scopes: ['write', 'read'] }, await as('write read'));
    const { id } = made.body;
    const late = proxy.delayResponseTo('AS last_seq');
    const kept = other.call('admin_update_key', { keyId: id, scopes: ['write', 'read'], name: 'n' }, await as('read'));
    await late.made;
    const taken = await other.call('admin_update_key', { keyId: id, scopes: ['read'] }, await as(''));
    expect(taken.body).toMatchObject({ scopes: ['read'] });
    late.release();
    expect((await kept).body).toMatchObject({ code: 'scope_not_granted' });
  });

  test('of fifty edits of a key at once none is refused', async () => {
    const { id } = await app.createKey('zoe');
    const edits = Array.from({ length: 50 }, (_, n) => update({ keyId: id, name: `name ${n}` }));
    expect(new Set((await Promise.all(edits)).map(({ status }) => status))).toEqual(new Set([200]));
  });

  test('bad input changes nothing', async () => {
    const { id } = await app.createKey('wim');
    const [before] = (await list({ owner: 'wim' })).body.keys;
    for (const input of [
      {},
      { name: '' },
      { name: ' ' },
      { scopes: 'read' },
      { scopes: ['a b'] },
      { expiresInDays: 0 },
      { expiresInDays: '1' },
      { rateLimit: { requests: 0, window: '1h' } },
      { rateLimit: { requests: 1, window: 'soon' } },
      { quota: { requests: 1, period: 'year' } },
      { active: true },
    ]) {
      const { body } = await update({ keyId: id, ...input });
      expect({ input, ...body }).toMatchObject({ input, status: 400, code: 'invalid_input' });
    }
    expect((await list({ owner: 'wim' })).body.keys[0]).toEqual(before);
  });

  test('an unknown id, and a key in place of one, are 404, and the key is in no log', async () => {
    const { key } = await app.createKey('xenia');
    for (const keyId of ['f'.repeat(32), 'no id', key]) {
      const { body } = await update({ keyId, name: 'n' });
      expect(body).toMatchObject({ status: 404, code: 'key_not_found' });
      expect(body.detail).toBe('There is no key with this id that you may change');
    }
    expect(await app.logText()).not.toContain(key);
  });

  test('the same over MCP', async () => {
    const { id } = await app.createKey('yara');
    const changed = await post(app, call('admin_update_key', { keyId: id, scopes: [] }), admin);
    expect(changed.body.result.structuredContent).toMatchObject({ id, owner: 'yara', scopes: [] });
    const refused = await post(app, call('admin_update_key', { keyId: id, name: 'n' }), await withRoles('none'));
    expect(refused.body.result).toMatchObject({ isError: true, content: [{ text: 'Only an admin may do this' }] });
  });
});
