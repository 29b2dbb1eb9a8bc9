// JWT_OWNER_CLAIM: the claim that owns keys. Members of a team share its keys, and can't lock each other out.

import { describe, expect, test } from 'bun:test';
import { callAll } from '../support/mcp.ts';
import { bearer, createTestApp, type TestApp } from '../support/test-app.ts';

const env = { JWT_OWNER_CLAIM: 'org_id' };
const KEY = { name: 'n', scopes: ['read'] };

const member = (app: TestApp, sub: string, claims: Record<string, unknown> = { org_id: 'acme' }) =>
  bearer(app, sub, claims);

test('the members of a team share its keys; others don’t see them', async () => {
  await using app = await createTestApp({ env });
  const [alice, bob] = [await member(app, 'alice'), await member(app, 'bob')];
  const other = await member(app, 'alice', { org_id: 'other' });
  const { body: made } = await app.call('create_api_key', KEY, alice);
  const idsFor = async (headers: Record<string, string>) =>
    (await app.call('list_api_keys', {}, headers)).body.keys.map(({ id }: { id: string }) => id);
  expect([await idsFor(alice), await idsFor(bob), await idsFor(other)]).toEqual([[made.id], [made.id], []]);
  expect((await app.useKey(made.key)).body.owner).toBe('acme');
  await app.call('revoke_api_key', { keyId: made.id }, other);
  expect((await app.useKey(made.key)).status).toBe(200);
  await app.call('revoke_api_key', { keyId: made.id }, bob);
  expect((await app.useKey(made.key)).status).toBe(401);
});

test('log and access log have the owner as userId, and the person as actor where they differ', async () => {
  await using app = await createTestApp({ env: { ...env, ACCESS_LOG: '1' } });
  for (const [sub, org_id] of [
    ['alice', 'acme'],
    ['bob', 'bob'],
  ] as const) {
    const headers = await member(app, sub, { org_id });
    const { body } = await app.call('create_api_key', KEY, headers);
    await app.call('revoke_api_key', { keyId: body.id }, headers);
    await app.call('delete_api_key', { keyId: 'no id' }, headers);
  }
  const lines = (await app.log()).filter(({ event }) => event === 'request' || event.startsWith('API key '));
  const changed = ['API key created', 'request', 'API key revoked', 'request', 'API key deleted', 'request'];
  expect(lines.map(({ event, userId, actor }) => ({ event, userId, actor }))).toEqual([
    ...changed.map((event) => ({ event, userId: 'acme', actor: 'alice' })),
    ...changed.map((event) => ({ event, userId: 'bob', actor: undefined })),
  ]);
});

test('of the owner claim 255 characters own keys; anything else, or no sub, is refused: sub is no fallback', async () => {
  await using app = await createTestApp({ env });
  const create = async (claims: object) => app.call('create_api_key', KEY, await member(app, 'alice', { ...claims }));
  expect((await create({ org_id: '😀'.repeat(255) })).status).toBe(200);
  for (const org_id of [undefined, null, 7, ['acme'], { id: 'acme' }, '', 'ac\0me', 'a'.repeat(256)]) {
    expect({ org_id, code: (await create({ org_id })).body.code }).toEqual({ org_id, code: 'invalid_token' });
    expect((await app.log()).at(-1)).toMatchObject({
      event: 'Invalid user token',
      reason: 'org_id must be 1 to 255 characters without controls',
    });
  }
  expect((await create({ sub: undefined, org_id: 'acme' })).status).toBe(401);
});

describe('a claim is named by its very name, or by a path with dots into objects', () => {
  const NESTED = {
    JWT_OWNER_CLAIM: 'org.id',
    JWT_SCOPE_CLAIM: 'realm_access.scopes',
  };
  const ORG = { org: { id: 'acme' } };

  test.each([
    ['the owner', ORG, 200],
    ['the very name before the path', { ...ORG, 'org.id': 'other' }, 403],
    ['the very name, wrong, before the path', { ...ORG, 'org.id': 7 }, 401],
    ['no object on the way', { org: 'acme' }, 401],
    ['a list on the way', { org: [{ id: 'acme' }] }, 401],
    ['what every object has', { org: {} }, 401],
    ['nothing', {}, 401],
  ])('%s', async (_, claims, status) => {
    await using app = await createTestApp({ env: { JWT_OWNER_CLAIM: 'org.id', JWT_SCOPE_CLAIM: 'org.id' } });
    const headers = await member(app, 'alice', claims);
    expect((await app.call('create_api_key', { name: 'k', scopes: ['acme'] }, headers)).status).toBe(status);
  });

  test('scopes that may be given', async () => {
    await using app = await createTestApp({ env: NESTED });
    const as = (realm_access: unknown) => member(app, 'alice', { ...ORG, realm_access });
    const statusOf = async (tool: string, input: object, realm_access: unknown) =>
      (await app.call(tool, input, await as(realm_access))).status;
    const key = { name: 'k', scopes: ['read'] };
    expect(await statusOf('create_api_key', key, { scopes: 'read write' })).toBe(200);
    expect(await statusOf('create_api_key', key, { scopes: ['write'] })).toBe(403);
  });
});

describe('a member who uses up his turns', () => {
  test('a member who used up his creations creates no more; his colleague still does', async () => {
    await using app = await createTestApp({
      env: { ...env, USER_RATE_LIMIT: '0', OWNER_KEYS: '3000', REVOCATION_LAG_MAX_MS: '60000' },
    });
    const alice = await member(app, 'alice');
    const made = await callAll(app, 'create_api_key', Array(2000).fill(KEY), alice);
    expect(made.filter(({ isError }) => isError)).toEqual([]);
    expect((await app.call('create_api_key', KEY, alice)).status).toBe(429);
    expect((await app.call('create_api_key', KEY, await member(app, 'bob'))).status).toBe(200);
    expect((await app.log()).find(({ event }) => event === 'Rate limit exceeded')).toMatchObject({
      userId: 'acme',
      actor: 'alice',
    });
  }, 180_000);

  test('a member who lists in a loop does not slow down his colleague', async () => {
    await using app = await createTestApp({ env });
    const listOf = async (name: string) => (await app.call('list_api_keys', {}, await member(app, name))).status;
    const statuses = await Promise.all(Array.from({ length: 60 }, () => listOf('alice')));
    expect(statuses.filter((status) => status === 429)).toHaveLength(20);
    expect(await listOf('bob')).toBe(200);
  });
});
