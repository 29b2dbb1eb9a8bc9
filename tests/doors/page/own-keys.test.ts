// POST /keys/update and /keys/events: what an owner changes of a key and reads of its past, over HTTP.

import { describe, expect, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { postJson } from '../../support/client.ts';
import { rows } from '../../support/everything.ts';
import { startSlowStore } from '../../support/slow-store.ts';
import { ADMINS, bearer, createTestApp, readResponse, type TestApp } from '../../support/test-app.ts';

const DAY_MS = 86_400_000;

const as = (app: TestApp, sub = 'alice', claims = {}) => bearer(app, sub, claims);
const post = async (app: TestApp, path: string, body: unknown, who?: Record<string, string>) =>
  readResponse(await postJson(app.url + path, body, who ?? (await as(app))));
const update = (app: TestApp, body: object, who?: Record<string, string>) => post(app, '/keys/update', body, who);
const history = (app: TestApp, body: object, who?: Record<string, string>) => post(app, '/keys/events', body, who);
const listed = async (app: TestApp) => (await app.call('list_api_keys', {}, await as(app))).body.keys[0];

describe.each(rows(['embedded', 'remote', 'replica'] as const, 1))('POST /keys/update, %s:', (store) => {
  test('gives a new name, fewer scopes, an earlier end; what is left out or empty stays; the next request counts', async () => {
    await using app = await createTestApp({ store });
    const { id: keyId, key } = await app.createKey('alice', {
      name: 'old',
      scopes: ['read', 'write'],
      expiresInDays: 10,
    });
    const { createdAt, expiresAt } = await listed(app);
    for (const [change, expected] of [
      [{ name: 'new' }, { name: 'new', scopes: ['read', 'write'], expiresAt }],
      [
        { name: '', scopes: [] },
        { name: 'new', scopes: ['read', 'write'], expiresAt },
      ],
      [{}, { name: 'new', scopes: ['read', 'write'], expiresAt }],
      [{ scopes: ['write'] }, { name: 'new', scopes: ['write'], expiresAt }],
      [
        { scopes: ['write'], expiresInDays: 1 },
        { name: 'new', scopes: ['write'], expiresAt: createdAt + DAY_MS },
      ],
    ] as const) {
      const { status, body } = await update(app, { keyId, ...change });
      expect([status, body]).toMatchObject([200, expected]);
      expect(await listed(app)).toEqual(body);
    }
    expect((await app.useKey(key)).status).toBe(403);
    app.clock.advance(DAY_MS + 1);
    expect((await app.useKey(key)).status).toBe(401);
  });

  test('never gives more, whoever asks and whatever the key is then', async () => {
    await using app = await createTestApp({ store, env: ADMINS });
    const { id: keyId } = await app.createKey('alice', { scopes: ['read', 'write'], expiresInDays: 10 });
    const { id: endless } = await app.createKey('alice', { scopes: [] });
    const { id: revoked } = await app.createKey('alice');
    await app.call('revoke_api_key', { keyId: revoked }, await as(app));
    await app.call('admin_update_key', { keyId, scopes: ['read'] }, await as(app, 'root', { roles: 'keys-admin' }));
    const before = await listed(app);
    for (const [body, status, code] of [
      [{ keyId, scopes: ['write'] }, 400, 'invalid_input'],
      [{ keyId, scopes: ['read', 'admin'], name: 'x' }, 400, 'invalid_input'],
      [{ keyId, expiresInDays: 10.1 }, 400, 'invalid_input'],
      [{ keyId: endless, scopes: ['read'] }, 400, 'invalid_input'],
      [{ keyId: revoked, name: 'x' }, 409, 'key_not_active'],
      [{ keyId: revoked }, 409, 'key_not_active'],
      [{ keyId: '0'.repeat(32), name: 'x' }, 404, 'key_not_found'],
      [{ keyId: 'no id', name: 'x' }, 404, 'key_not_found'],
      [{ keyId, name: ' ' }, 400, 'invalid_input'],
      [{ keyId, name: 7 }, 400, 'invalid_input'],
      [{ keyId, expiresInDays: 0 }, 400, 'invalid_input'],
      [{ keyId, rateLimit: { requests: 1, window: '1m' } }, 400, 'invalid_input'],
      [{ name: 'x' }, 400, 'invalid_input'],
    ] as const) {
      expect([body, (await update(app, body)).body]).toMatchObject([body, { status, code }]);
    }
    expect((await update(app, { keyId, expiresInDays: 11 })).body.detail).toContain(
      'rotate it with another expiry, make a new key, or ask an admin',
    );
    expect((await update(app, { keyId, name: 'x' }, await as(app, 'mallory'))).status).toBe(404);
    expect(await listed(app)).toEqual(before);
    expect((await update(app, { keyId: endless, expiresInDays: 36_500 })).status).toBe(200); // it never ended
  });
});

test('an edit needs no right to grant, leaves an event of the page, and is a line of the log', async () => {
  await using app = await createTestApp({ env: { JWT_SCOPE_CLAIM: 'may' } });
  const may = await as(app, 'alice', { may: 'read write' });
  const { id: keyId } = (await app.call('create_api_key', { name: 'k', scopes: ['read', 'write'] }, may)).body;
  expect((await update(app, { keyId, scopes: ['write'] }, await as(app, 'alice', { may: '' }))).status).toBe(200);
  const [newest] = (await history(app, { keyId })).body.events;
  expect(newest).toMatchObject({ kind: 'changed', how: 'page', actor: 'alice', fields: ['scopes'] });
  const line = { event: 'API key updated', keyId, userId: 'alice' };
  expect(await app.log()).toContainEqual(expect.objectContaining(line)); // a replica may be opened after it
});

test('edits and histories take a user token in its header, and nothing else; without the page they are not there', async () => {
  await using app = await createTestApp();
  const { id: keyId, key } = await app.createKey('alice');
  for (const path of ['/keys/update', '/keys/events']) {
    expect((await post(app, path, { keyId }, {})).body.code).toBe('missing_token');
    expect((await post(app, path, { keyId }, { authorization: `Bearer ${key}` })).body.code).toBe('invalid_token');
  }
  await using without = await createTestApp({ env: { KEYS_PAGE: '0' } });
  for (const path of ['/keys/update', '/keys/events']) {
    expect((await post(without, path, { keyId })).body).toMatchObject({ status: 404, code: 'not_found' });
  }
});

describe.each(rows(['embedded', 'remote'] as const, 1))('POST /keys/events, %s:', (store) => {
  test('says what happened, newest first, 50 a page, also of a deleted key, and to its owner alone', async () => {
    await using app = await createTestApp({ store });
    const { id: keyId } = await app.createKey('alice', { name: 'n0' });
    for (let index = 1; index <= 50; index += 1) await update(app, { keyId, name: `n${index}` });
    expect((await history(app, { keyId })).body).toMatchObject({
      events: { length: 50 },
      nextCursor: expect.any(String),
    });
    await app.call('delete_api_key', { keyId }, await as(app));
    const first = (await history(app, { keyId })).body;
    expect(first.events.map(({ kind }: { kind: string }) => kind)).toEqual(['deleted', ...Array(49).fill('changed')]);
    const second = (await history(app, { keyId, cursor: first.nextCursor })).body;
    expect(second.events.map(({ kind }: { kind: string }) => kind)).toEqual(['changed', 'created']);
    expect(second.nextCursor).toBeUndefined();
    for (const [body, who, code] of [
      [{ keyId }, 'mallory', 'key_not_found'],
      [{ keyId: 'f'.repeat(32) }, 'alice', 'key_not_found'],
      [{ keyId, cursor: '0' }, 'alice', 'invalid_input'],
      [{ keyId, cursor: 'x' }, 'alice', 'invalid_input'],
    ] as const) {
      expect([code, (await history(app, body, await as(app, who))).body]).toMatchObject([code, { code }]);
    }
  });

  test('of other persons it says what they are, and no address', async () => {
    await using app = await createTestApp({ store, env: { ...ADMINS, JWT_OWNER_CLAIM: 'org' } });
    const alice = await as(app, 'alice', { org: 'team' });
    const bob = await as(app, 'bob', { org: 'team' });
    const admin = await as(app, 'root', { org: 'operations', roles: 'keys-admin' });
    const { id: keyId } = (await app.call('create_api_key', { name: 'k', scopes: ['read', 'x'] }, alice)).body;
    const { key } = (await app.call('rotate_api_key', { keyId }, bob)).body;
    await app.useKey(key);
    await update(app, { keyId, name: 'renamed' }, bob);
    await app.call('admin_update_key', { keyId, scopes: ['read'] }, admin);
    await app.keys('update', keyId, '--name', 'again');
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) });
    const seen = async (who: Record<string, string>) =>
      (await history(app, { keyId }, who)).body.events.map(({ kind, actor, address }: Record<string, string>) => [
        kind,
        actor,
        address,
      ]);
    const others = [
      ['revoked', 'somebody who had the key', undefined],
      ['changed', 'an admin', undefined],
      ['changed', 'an admin', undefined],
    ];
    const use = ['first_used', 'somebody who had the key', undefined];
    expect(await seen(alice)).toEqual([
      ...others,
      ['changed', 'a member', undefined],
      use,
      ['rotated', 'a member', undefined],
      ['created', 'alice', '127.0.0.1'],
    ]);
    expect(await seen(bob)).toEqual([
      ...others,
      ['changed', 'bob', '127.0.0.1'],
      use,
      ['rotated', 'bob', '127.0.0.1'],
      ['created', 'a member', undefined],
    ]);
  });
});

test('of a revocation by a tool it says whether a member or an admin did it, also where the admin’s owner is another', async () => {
  await using app = await createTestApp({ env: { ...ADMINS, JWT_OWNER_CLAIM: 'org' } });
  const alice = await as(app, 'alice', { org: 'team' });
  const bob = await as(app, 'bob', { org: 'team' });
  const root = await as(app, 'root', { org: 'operations', roles: 'keys-admin' });
  const teamAdmin = await as(app, 'carol', { org: 'team', roles: 'keys-admin' });
  for (const [tool, who, expected] of [
    ['revoke_api_key', bob, 'a member'],
    ['revoke_api_key', teamAdmin, 'a member'],
    ['admin_revoke_keys', teamAdmin, 'an admin'],
    ['admin_revoke_keys', root, 'an admin'],
    ['admin_revoke_keys', await as(app, 'alice', { org: 'operations', roles: 'keys-admin' }), 'alice'],
  ] as const) {
    const { id: keyId } = (await app.call('create_api_key', { name: 'k', scopes: [] }, alice)).body;
    const input = tool === 'revoke_api_key' ? { keyId } : { keyIds: [keyId] };
    expect((await app.call(tool, input, who)).status).toBe(200);
    const [{ kind, actor }] = (await history(app, { keyId }, alice)).body.events;
    expect([tool, kind, actor]).toEqual([tool, 'revoked', expected]);
  }
  const made = await app.call('create_api_key', { name: 'k', scopes: ['read', 'delegate'] }, alice);
  const child = await childOf(app, made.body.key);
  await app.call('admin_revoke_keys', { keyIds: [child.id] }, root);
  const [ended] = (await history(app, { keyId: made.body.id }, alice)).body.events;
  expect(ended).toMatchObject({ kind: 'child_ended', actor: 'an admin' });
});

test('a person reads 40 histories at once, then 20 a second; others read on', async () => {
  await using app = await createTestApp();
  const { id: keyId } = await app.createKey('alice');
  const ask = async () => (await history(app, { keyId })).status;
  for (let index = 0; index < 40; index += 1) expect(await ask()).toBe(200);
  const refused = await history(app, { keyId });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  expect((await history(app, { keyId }, await as(app, 'bob'))).status).toBe(404);
  app.clock.advance(50);
  expect([await ask(), await ask()]).toEqual([200, 429]);
});

test.each([
  ['update', 'UPDATE api_keys SET (', { name: 'another' }],
  ['events', 'ORDER BY seq DESC', {}],
])(
  'POST /keys/%s refuses when its response is late and the owner was blocked meanwhile',
  async (path, statement, asked) => {
    await using slow = await startSlowStore();
    const lag = 60_000;
    await using late = await createTestApp({ store: slow.store, env: { REVOCATION_LAG_MAX_MS: `${lag}` } });
    const { id: keyId } = await late.createKey('alice');
    const held = slow.delayResponseTo(statement);
    const response = postJson(`${late.url}/keys/${path}`, { keyId, ...asked }, await bearer(late, 'alice'));
    await held.made;
    await late.keys('block', 'alice');
    late.clock.sleep(lag);
    held.release();
    expect(await readResponse(await response)).toMatchObject({ status: 403, body: { code: 'user_blocked' } });
  },
);
