// POST /keys/events for admins: the events of anybody's key, and those of an owner, with persons and addresses.

import { describe, expect, test } from 'bun:test';
import { postJson } from '../../support/client.ts';
import { databaseOf, executeAt, openDatabase } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { labelled } from '../../support/labels.ts';
import {
  ADMINS,
  adminOf,
  bearer,
  createTestApp,
  eventsIn,
  readResponse,
  type TestApp,
} from '../../support/test-app.ts';

const events = async (app: TestApp, body: object, who?: Record<string, string>) =>
  readResponse(await postJson(`${app.url}/keys/events`, body, who ?? (await adminOf(app))));
const looks = async (app: TestApp) =>
  (await app.log())
    .filter(({ event }) => event === 'Trail read by an admin')
    .map(({ level, actor, keyId, owner }) => ({ level, actor, keyId, owner }));

describe.each(rows(['embedded', 'remote', 'replica'] as const, 1))('%s:', (store) => {
  test('of anybody’s key with persons and addresses, as keys events shows them, also of a deleted one', async () => {
    await using app = await createTestApp({ store, env: ADMINS });
    const { id: keyId } = await app.createKey('alice');
    await app.call('admin_update_key', { keyId, name: 'n' }, await adminOf(app));
    await app.keys('update', keyId, '--name', 'm');
    await app.call('delete_api_key', { keyId }, await bearer(app, 'alice'));
    const { status, body } = await events(app, { keyId });
    expect([status, body.nextCursor]).toEqual([200, undefined]);
    const shown = body.events.map(({ at, ...event }: { at: number }) => event).toReversed();
    const inCommand = (await eventsIn(app, '--key', keyId)).map(
      ({ seq, at, keyId, owner, requestId, actor, address, ...event }) => ({
        ...event,
        ...(actor !== null && { actor }),
        ...(address !== null && { address }),
      }),
    );
    expect(shown).toEqual(inCommand);
    expect(shown.map(({ kind, actor, address }: Record<string, string>) => [kind, actor, address])).toMatchObject([
      ['created', 'alice', '127.0.0.1'],
      ['changed', 'root', '127.0.0.1'],
      ['changed', shown[2].actor, undefined],
      ['deleted', 'alice', '127.0.0.1'],
    ]);
    expect(await looks(app)).toEqual([{ level: 'info', actor: 'root', keyId, owner: undefined }]);
  });

  test('of an owner those that are about no key; of whom there is nothing, none', async () => {
    await using app = await createTestApp({ store, env: ADMINS });
    const owner = 'Zoë';
    await app.createKey(owner);
    const set = async (input: object) => app.call('admin_update_owner', { owner, ...input }, await adminOf(app));
    await set({ keysMax: 3 });
    await set({ blocked: true });
    await app.keys('unblock', owner);
    await app.call('admin_update_owner', { owner: 'other', keysMax: 3 }, await adminOf(app));
    const shown = (await events(app, { owner })).body.events;
    expect(shown.map(({ kind, how, fields }: Record<string, unknown>) => [kind, how, fields])).toEqual([
      ['unblocked', 'command', undefined],
      ['blocked', 'tool', undefined],
      ['owner_changed', 'tool', ['keysMax']],
    ]);
    expect(shown[1]).toMatchObject({ actor: 'root', address: '127.0.0.1', at: expect.any(Number) });
    expect((await events(app, { owner: 'nobody' })).body).toEqual({ events: [] });
    await app.keys('owner', owner, '--delete', '--yes');
    expect((await events(app, { owner })).body.events).toMatchObject([{ kind: 'owner_deleted', how: 'command' }]);
    expect((await looks(app)).map((look) => look.owner)).toEqual([owner, 'nobody', owner]);
  });
});

test('of 120 events each is shown once, newest first, 50 a page, of an owner and of a key of two owners', async () => {
  await using app = await createTestApp({ store: 'embedded', env: ADMINS });
  const client = openDatabase(databaseOf(app));
  const keyId = 'a'.repeat(32);
  for (const [key, owners] of [
    [null, ['alice']],
    [keyId, ['bob', 'alice', 'carol']],
  ] as const) {
    await client.execute({
      sql: `INSERT INTO key_events (key_id, owner, kind, how, actor)
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 119)
SELECT ?1, ?2 ->> CAST(i % ?3 AS INTEGER), CASE WHEN ?1 IS NULL THEN 'owner_changed' ELSE 'changed' END, 'tool', i FROM n`,
      args: [key, JSON.stringify(owners), owners.length],
    });
  }
  client.close();
  for (const whose of [{ owner: 'alice' }, { keyId }]) {
    const pages: string[][] = [];
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const { body } = await events(app, { ...whose, ...(cursor && { cursor }) });
      pages.push(body.events.map(({ actor }: { actor: string }) => actor));
      cursor = body.nextCursor;
    }
    expect(pages.map(({ length }) => length)).toEqual([50, 50, 20]);
    expect(pages.flat().map(Number)).toEqual(Array.from({ length: 120 }, (_, at) => 119 - at));
  }
  expect((await events(app, { keyId }, await bearer(app, 'bob'))).body.events).toHaveLength(40);
});

test('a look at what is the admin’s own is not logged, though persons and addresses are there', async () => {
  await using app = await createTestApp({ env: { ...ADMINS, JWT_OWNER_CLAIM: 'team' } });
  const as = (sub: string, team: string, claims = {}) => bearer(app, sub, { team, ...claims });
  const { body } = await app.call('create_api_key', { name: 'k', scopes: [] }, await as('bob', 'blue'));
  const root = await as('root', 'blue', { roles: 'keys-admin' });
  for (const whose of [{ keyId: body.id }, { owner: 'blue' }])
    expect((await events(app, whose, root)).status).toBe(200);
  const [created] = (await events(app, { keyId: body.id }, root)).body.events;
  expect(created).toMatchObject({ kind: 'created', actor: 'bob', address: '127.0.0.1' });
  expect(await looks(app)).toEqual([]);
  await events(app, { keyId: body.id }, await as('root', 'red', { roles: 'keys-admin' }));
  expect(await looks(app)).toMatchObject([{ actor: 'root', keyId: body.id }]);
});

test('with EVENT_ADDRESSES=0 there are no addresses', async () => {
  await using app = await createTestApp({ env: { ...ADMINS, EVENT_ADDRESSES: '0' } });
  const { id: keyId } = await app.createKey('alice');
  const [created] = (await events(app, { keyId })).body.events;
  expect(created).toMatchObject({ kind: 'created', actor: 'alice' });
  expect(created).not.toHaveProperty('address');
});

test('a key that is not there is 404, for an admin too; one without events left is not', async () => {
  await using app = await createTestApp({ store: 'embedded', env: ADMINS });
  const { id: keyId, key } = await app.createKey('alice');
  for (const other of ['f'.repeat(32), 'x', '', key])
    expect(await events(app, { keyId: other })).toMatchObject({ status: 404, body: { code: 'key_not_found' } });
  expect(await looks(app)).toEqual([]);
  await executeAt(databaseOf(app), 'DELETE FROM key_events');
  expect(await events(app, { keyId })).toMatchObject({ status: 200, body: { events: [] } });
  expect(await looks(app)).toMatchObject([{ keyId }]);
});

test('without the claim an owner is 403, and where there are no admins too; a key is as ever', async () => {
  for (const env of [ADMINS, {}]) {
    await using app = await createTestApp({ env });
    const { id: keyId } = await app.createKey('alice');
    const alice = await bearer(app, 'alice');
    expect(await events(app, { owner: 'alice' }, alice)).toMatchObject({
      status: 403,
      body: { code: 'admin_required' },
    });
    expect((await events(app, { keyId }, alice)).body.events).toMatchObject([{ kind: 'created', actor: 'alice' }]);
    expect((await events(app, { keyId }, await bearer(app, 'bob'))).status).toBe(404);
    if (env !== ADMINS) expect((await events(app, { owner: 'alice' })).status).toBe(403); // the claim means nothing here
  }
});

test.each(
  labelled([
    {},
    { keyId: 'f'.repeat(32), owner: 'a' },
    { owner: '' },
    { owner: 'a\0b' },
    { owner: 'x'.repeat(256) },
    { owner: 1 },
    { owner: 'a', cursor: 'x' },
    { owner: 'a', cursor: '0' },
    { owner: 'a', only: 'blocked' },
  ]),
)('bad input is refused: %s', async (_, body) => {
  await using app = await createTestApp({ env: ADMINS });
  for (const who of [await adminOf(app), await bearer(app, 'alice')])
    expect(await events(app, body, who)).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
});

test('an admin whose token is no more one, and one who is blocked, reads no more', async () => {
  await using app = await createTestApp({ env: ADMINS });
  expect((await events(app, { owner: 'a' }, await bearer(app, 'root'))).status).toBe(403);
  await app.call('admin_update_owner', { owner: 'root', blocked: true }, await adminOf(app, 'other'));
  expect((await events(app, { owner: 'a' })).body.code).toBe('user_blocked');
});
