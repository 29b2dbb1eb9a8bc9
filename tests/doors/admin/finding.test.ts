// How admins find keys: by id, by fingerprint, what a key has made, and those that may be trouble.

import { describe, expect, test } from 'bun:test';
import { childOf } from '../../support/children.ts';
import { testClock } from '../../support/clock.ts';
import { databaseOf, executeAt, openDatabase } from '../../support/database-client.ts';
import { rows } from '../../support/everything.ts';
import { labelled } from '../../support/labels.ts';
import { call, post } from '../../support/mcp.ts';
import { ADMINS, adminOf, bearer, createTestApp, fingerprint, type TestApp } from '../../support/test-app.ts';

const DAY_MS = 86_400_000;
const list = async (app: TestApp, input: object) => app.call('admin_list_keys', input, await adminOf(app));
/** The same over MCP. */
const listOverMcp = async (app: TestApp, input: object) =>
  (await post(app, call('admin_list_keys', input), await adminOf(app))).body.result.structuredContent;
const own = async (app: TestApp, name: string, input: object, sub = 'alice') =>
  (await app.call(name, input, await bearer(app, sub))).body;
// biome-ignore lint/suspicious/noExplicitAny: tests read results of any shape
const idsIn = ({ keys }: any): string[] => keys.map(({ id }: { id: string }) => id);

/** Makes keys by SQL, each an object of columns beside the usual ones. */
async function insertKeys(app: TestApp, keys: readonly Record<string, string | number | null>[]): Promise<void> {
  const client = openDatabase(databaseOf(app));
  const usual = { user_id: 'u', name: 'k', scopes: '[]', active: 1, created_at_ms: 1, expires_at_ms: null };
  const all = keys.map((key) => ({ ...usual, ...key }));
  for (let from = 0; from < all.length; from += 5000)
    await client.execute({
      sql: `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms, expires_at_ms)
SELECT coalesce(value ->> 'id', lower(hex(randomblob(16)))), value ->> 'user_id', value ->> 'name', lower(hex(randomblob(32))),
value ->> 'scopes', value ->> 'active', value ->> 'created_at_ms', value ->> 'expires_at_ms' FROM json_each(?)`,
      args: [JSON.stringify(all.slice(from, from + 5000))],
    });
  client.close();
}

/** Reads all pages, or the first ones. */
async function pagesOf(app: TestApp, input: object, most = 1000) {
  const pages: { keys: { id: string; name: string; owner: string }[]; looked?: number; nextCursor?: string }[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined && pages.length < most) {
    const { status, body } = await list(app, { ...input, ...(cursor && { cursor }) });
    expect(status).toBe(200);
    pages.push(body);
    cursor = body.nextCursor;
  }
  return pages;
}

describe.each(rows(['embedded', 'remote', 'replica'] as const, 1))('by name, %s:', (store) => {
  test('finds a key by its id and by the fingerprint of each of its secrets; of a child its parent', async () => {
    await using app = await createTestApp({ store, env: ADMINS });
    const { id, key: first } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
    await app.createKey('alice');
    const child = await childOf(app, first);
    const { key: second } = await own(app, 'rotate_api_key', { keyId: id });
    const [whole] = (await list(app, { keyId: id })).body.keys;
    expect(whole).toMatchObject({ id, owner: 'alice', children: 1, fingerprint: fingerprint(first) });
    expect(await listOverMcp(app, { keyId: id })).toEqual({ keys: [whole] });
    for (const secret of [first, second])
      for (const written of [fingerprint(secret), fingerprint(secret).toUpperCase()])
        expect((await list(app, { fingerprint: written })).body).toEqual({ keys: [whole] });
    const ofChild = { keys: [{ ...whole, childId: child.id }] };
    expect((await list(app, { keyId: child.id })).body).toEqual(ofChild);
    expect((await list(app, { fingerprint: fingerprint(child.key) })).body).toEqual(ofChild);
    expect((await app.useKey(second)).status).toBe(200);
    await own(app, 'rotate_api_key', { keyId: id, overlapHours: 0 });
    expect(idsIn((await list(app, { fingerprint: fingerprint(second) })).body)).toEqual([]); // replaced: not on record
    for (const nothing of [{ keyId: 'f'.repeat(32) }, { keyId: first }, { keyId: '' }, { fingerprint: '0'.repeat(12) }])
      expect((await list(app, nothing)).body).toEqual({ keys: [] });
    expect(await app.logText()).not.toContain(first);
  });

  test('lists what anybody’s key has made as its owner sees it', async () => {
    await using app = await createTestApp({ store, env: ADMINS });
    const { id, key } = await app.createKey('alice', { scopes: ['read', 'delegate'] });
    const made = [await childOf(app, key), await childOf(app, key)];
    const { body } = await list(app, { childrenOf: id });
    expect(idsIn(body)).toEqual(made.map((child) => child.id).toReversed());
    expect(body).toEqual(await own(app, 'list_api_keys', { childrenOf: id }));
    expect(await listOverMcp(app, { childrenOf: id })).toEqual(body);
    for (const nothing of ['f'.repeat(32), made[0]?.id, key])
      expect((await list(app, { childrenOf: nothing })).body).toEqual({ keys: [] });
  });
});

test('children that are more than a page of bytes come in pages', async () => {
  await using app = await createTestApp({ env: ADMINS });
  const scopes = Array.from({ length: 19 }, (_, at) => `${at}`.padEnd(100, 'x'));
  const { id, key } = await app.createKey('alice', { scopes: [...scopes, 'delegate'] });
  const made: string[] = [];
  for (let count = 0; count < 60; count += 1) made.push((await childOf(app, key, { scope: scopes.join(' ') })).id);
  const pages = await pagesOf(app, { childrenOf: id });
  expect(pages.length).toBe(2);
  expect(pages.flatMap(idsIn)).toEqual(made.toReversed());
});

test('a fingerprint that several keys share shows ten of them at most', async () => {
  await using app = await createTestApp({ store: 'embedded', env: ADMINS });
  await insertKeys(app, Array(12).fill({}));
  await executeAt(databaseOf(app), "UPDATE api_keys SET key_hash = 'abcdefabcdef' || substr(key_hash, 13)");
  expect((await list(app, { fingerprint: 'abcdefabcdef' })).body.keys).toHaveLength(10);
});

describe('only', () => {
  test.each(rows(['embedded', 'remote'] as const, 1))(
    'those that are good, in their order, also of one owner (%s)',
    async (store) => {
      const clock = testClock(Date.now() - 200 * DAY_MS);
      await using app = await createTestApp({ store, clock, env: { ...ADMINS, OWNER_KEYS: '10000' } });
      const make = async (owner: string, days?: number) =>
        (await app.createKey(owner, days === undefined ? {} : { expiresInDays: days })) as { id: string; key: string };
      const names = new Map<string, string>();
      const named = async (name: string, owner: string, days?: number) => {
        const made = await make(owner, days);
        names.set(made.id, name);
        return made;
      };
      await named('old', 'a');
      const used = await named('used', 'a');
      await named('blocked', 'mallory', 102);
      const ended = await named('ended', 'b');
      clock.advance(98 * DAY_MS);
      await named('later', 'b', 8);
      await named('third', 'a', 7);
      await named('first', 'b', 1);
      await named('second', 'a', 2);
      const revoked = await named('revoked', 'a', 3);
      await named('new', 'b');
      for (const [owner, { id }] of [
        ['b', ended],
        ['a', revoked],
      ] as const)
        await own(app, 'revoke_api_key', { keyId: id }, owner);
      await app.call('admin_update_owner', { owner: 'mallory', blocked: true }, await adminOf(app));
      expect((await app.useKey(used.key)).status).toBe(200);
      clock.advance(5000);
      const only = async (choice: string, more = {}) => {
        const pages = await pagesOf(app, { only: choice, ...more });
        expect(await listOverMcp(app, { only: choice, ...more })).toEqual(pages[0]);
        return pages.flatMap(idsIn).map((id) => names.get(id));
      };
      expect(await only('expiring')).toEqual(['first', 'second', 'third']);
      expect(await only('expiring', { owner: 'a' })).toEqual(['second', 'third']);
      expect(await only('never_expires')).toEqual(['new', 'used', 'old']);
      expect(await only('never_expires', { owner: 'b' })).toEqual(['new']);
      expect(await only('unused')).toEqual(['old']);
      expect(await only('unused', { owner: 'b' })).toEqual([]);
      clock.advance(92 * DAY_MS);
      expect(await only('unused')).toEqual(['new', 'used', 'old']);
    },
  );

  test('each request looks at 10,000 keys, and brings 100 at most', async () => {
    await using app = await createTestApp({ store: 'embedded', env: ADMINS });
    const rare = (at: number) => (at % 6000 === 0 ? {} : { expires_at_ms: app.clock.nowMs() + 30 * DAY_MS });
    await insertKeys(
      app,
      Array.from({ length: 20_000 }, (_, at) => ({ name: `k${at}`, ...rare(at) })),
    );
    const pages = await pagesOf(app, { only: 'never_expires' });
    expect(pages.map(({ looked, keys }) => [looked, keys.map(({ name }) => name)])).toEqual([
      [10_000, ['k18000', 'k12000']],
      [10_000, ['k6000', 'k0']],
    ]);
    const many = await pagesOf(app, { only: 'unused' }, 3);
    expect(many.map(({ looked, keys }) => [looked, keys.length])).toEqual(Array(3).fill([100, 100]));
    expect(new Set(many.flatMap(idsIn)).size).toBe(300);
    const soon = Array.from({ length: 250 }, (_, at) => ({
      user_id: 'soon',
      expires_at_ms: app.clock.nowMs() + DAY_MS + (at >> 1),
    }));
    await insertKeys(app, soon);
    for (const input of [{ only: 'expiring' }, { only: 'expiring', owner: 'soon' }]) {
      const found = await pagesOf(app, input);
      expect(found.map(({ looked, keys }) => [looked, keys.length])).toEqual([
        [100, 100],
        [100, 100],
        [50, 50],
      ]);
      expect(new Set(found.flatMap(idsIn)).size).toBe(250);
    }
  }, 180_000);

  test('where there are exactly as many keys as are looked at, nothing follows', async () => {
    await using app = await createTestApp({ store: 'embedded', env: ADMINS });
    await insertKeys(app, Array(10_000).fill({ active: 0 }));
    expect((await list(app, { only: 'never_expires' })).body).toEqual({ keys: [], looked: 10_000 });
    expect((await list(app, { only: 'never_expires', owner: 'nobody' })).body).toEqual({ keys: [], looked: 0 });
  });
});

describe('bad input', () => {
  const id = 'f'.repeat(32);
  test.each(
    labelled([
      { keyId: id, fingerprint: '0'.repeat(12) },
      { keyId: id, childrenOf: id },
      { keyId: id, only: 'unused' },
      { fingerprint: '0'.repeat(12), only: 'unused' },
      { childrenOf: id, only: 'unused' },
      { owner: 'a', keyId: id },
      { owner: 'a', fingerprint: '0'.repeat(12) },
      { owner: 'a', childrenOf: id },
      { owner: 'a', keyId: id, only: 'unused' },
      { only: 'used' },
      { only: ['unused'] },
      { fingerprint: '0'.repeat(11) },
      { fingerprint: `${'0'.repeat(12)}\n` },
      { fingerprint: 'g'.repeat(12) },
      { keyId: 'x'.repeat(201) },
      { keyId: null },
    ]),
  )('is refused: %s', async (_, input) => {
    await using app = await createTestApp({ env: ADMINS });
    expect(await list(app, input)).toMatchObject({ status: 400, body: { code: 'invalid_input' } });
  });

  test('a cursor is good for the same fields with the same values alone', async () => {
    await using app = await createTestApp({ store: 'embedded', env: ADMINS });
    await insertKeys(app, Array(205).fill({ user_id: 'a', expires_at_ms: app.clock.nowMs() + DAY_MS }));
    const asked = [{}, { owner: 'a' }, { only: 'expiring' }, { only: 'unused' }, { only: 'expiring', owner: 'a' }];
    for (const input of asked) {
      const cursor = (await list(app, input)).body.nextCursor;
      expect(cursor).toBeString();
      for (const other of [
        ...asked,
        { owner: 'b' },
        { keyId: id },
        { fingerprint: '0'.repeat(12) },
        { childrenOf: id },
      ]) {
        const { status, body } = await list(app, { ...other, cursor });
        expect([other, status]).toEqual([other, Bun.deepEquals(other, input) ? 200 : 400]);
        if (status === 400) expect(body.issues).toMatchObject([{ path: 'cursor' }]);
      }
    }
  });
});
