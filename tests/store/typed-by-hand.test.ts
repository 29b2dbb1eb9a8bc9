// SQL typed by hand beside a running server: which statements it learns of, and which not, as db/README.md says.

import { expect, test } from 'bun:test';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { jsonLines, keysCommand } from '../support/keys-command.ts';
import { startSqld } from '../support/sqld.ts';
import { storeOn } from '../support/store-mode.ts';
import { ADMINS, adminOf, bearer, COUNTED, createTestApp, listedKeys } from '../support/test-app.ts';

const COLUMNS = 'id, user_id, name, key_hash, scopes, active, created_at_ms';
const REVOKED = `SELECT ${COLUMNS.replace('active', '0')} FROM api_keys WHERE id = ?`;

/** Each takes the right to use a key away from whoever has it. */
const NOTICED = {
  UPDATE: 'UPDATE api_keys SET active = 0 WHERE id = ?',
  DELETE: 'DELETE FROM api_keys WHERE id = ?',
  'INSERT … ON CONFLICT … DO UPDATE': `INSERT INTO api_keys (${COLUMNS}) ${REVOKED} ON CONFLICT (id) DO UPDATE SET active = 0`,
};
const BYPASSING = {
  REPLACE: `REPLACE INTO api_keys (${COLUMNS}) ${REVOKED}`,
  'INSERT OR REPLACE': `INSERT OR REPLACE INTO api_keys (${COLUMNS}) ${REVOKED}`,
  'UPDATE OR REPLACE':
    "UPDATE OR REPLACE api_keys SET row = (SELECT row FROM api_keys WHERE id = ?) WHERE name = 'other'",
};
const RECURSIVE = 'PRAGMA recursive_triggers = ON';
const FORGET = 'UPDATE feed SET database_id = lower(hex(randomblob(16)))';

/** What a server responds to a key that it remembers, once `statements` were typed on one connection. */
async function useAfter(statements: readonly string[]): Promise<number> {
  await using app = await createTestApp({ store: 'embedded' });
  const { id, key } = await app.createKey('alice');
  await app.createKey('alice', { name: 'other' });
  expect((await app.useKey(key)).status).toBe(200);
  using shell = openDatabase(databaseOf(app));
  for (const sql of statements) await shell.execute({ sql, args: sql.includes('?') ? [id] : [] });
  const { rows } = await shell.execute({ sql: 'SELECT 1 FROM api_keys WHERE id = ? AND active = 1', args: [id] });
  expect(rows).toEqual([]); // whatever the server believes
  app.clock.advance(1001);
  return (await app.useKey(key)).status;
}

test.each(Object.entries(NOTICED))('%s is noticed', async (_, sql) => {
  expect(await useAfter([sql])).toBe(401);
});

test.each(Object.entries(BYPASSING))(
  '%s is not, unless triggers are recursive, or every server is told to forget',
  async (_, sql) => {
    expect(await useAfter([sql])).toBe(200);
    expect(await useAfter([RECURSIVE, sql])).toBe(401);
    expect(await useAfter([sql, FORGET])).toBe(401);
  },
);

const BEYOND = '9007199254740992';
const NUMBERS = ['created_at_ms', 'expires_at_ms', 'last_used_at_ms', 'second_ends_at_ms', 'overlap_ms', 'rotations'];

test.each(['row', ...NUMBERS])('%s beyond 2^53 is refused when it is typed', async (column) => {
  await using app = await createTestApp({ store: 'embedded' });
  const { id } = await app.createKey('alice');
  using shell = openDatabase(databaseOf(app));
  const second = column === 'second_ends_at_ms' ? ", second_is = 'previous'" : '';
  for (const number of column === 'row' ? [BEYOND] : [BEYOND, `-${BEYOND}`]) {
    const typed = shell.execute({
      sql: `UPDATE OR REPLACE api_keys SET ${column} = ${number}${second} WHERE id = ?`,
      args: [id],
    });
    await expect(typed).rejects.toThrow(
      `CHECK constraint failed: ${column === 'row' ? 'row' : `abs(${column})`} < 9007199254740992`,
    );
  }
});

test.each(['embedded', 'remote'] as const)(
  '%s: a time of an owner beyond 2^53, as in nanoseconds, is a change like any other',
  async (store) => {
    await using sqld = store === 'remote' ? await startSqld() : null;
    await using app = await createTestApp({ store: sqld === null ? store : storeOn(sqld.env) });
    const { key } = await app.createKey('alice');
    expect((await app.useKey(key)).status).toBe(200);
    using shell = openDatabase(sqld?.url ?? databaseOf(app));
    const setting = "quota_requests = 1, quota_period = 'day'";
    await shell.execute("INSERT INTO owners (owner, keys_max, changed_at_ms) VALUES ('alice', 5, 1796000000000000000)");
    await shell.execute(`UPDATE owners SET ${setting}, changed_at_ms = changed_at_ms + 1 WHERE owner = 'alice'`);
    app.clock.advance(1001);
    expect([(await app.useKey(key)).status, (await app.useKey(key)).status]).toEqual([200, 429]);
    await shell.execute("INSERT INTO blocked_owners (owner, blocked_at_ms) VALUES ('bob', 1796000000000000000)");
    const env = { DATABASE_URL: sqld?.url ?? databaseOf(app), TZ: 'UTC' };
    expect((await keysCommand(env, ['block'])).stdout).toContain('bob');
    expect(jsonLines(await keysCommand(env, ['block', '--json']))).toEqual([
      { owner: 'bob', blockedAt: '9999-12-31T23:59:59.999Z' },
    ]);
  },
);

test('a key whose previous secret was ended by typing NULL for its hash alone can be rotated', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const alice = await bearer(app, 'alice');
  const { id, key: previous } = await app.createKey('alice');
  const { body } = await app.call('rotate_api_key', { keyId: id, overlapHours: 24 }, alice);
  expect((await app.useKey(body.key)).status).toBe(200);
  using shell = openDatabase(databaseOf(app));
  await shell.execute({ sql: 'UPDATE api_keys SET second_hash = NULL WHERE id = ?', args: [id] });
  app.clock.advance(1001);
  expect([(await app.useKey(previous)).status, (await app.useKey(body.key)).status]).toEqual([401, 200]);
  expect((await app.call('rotate_api_key', { keyId: id, overlapHours: 24 }, alice)).status).toBe(200);
});

test('an overlap typed as long as a number may be lets the new secret in, and the old one go on', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { id, key: previous } = await app.createKey('alice');
  const alice = await bearer(app, 'alice');
  const { body } = await app.call('rotate_api_key', { keyId: id }, alice);
  using shell = openDatabase(databaseOf(app));
  const typed = 'UPDATE api_keys SET overlap_ms = 9007199254740991 WHERE id = ?';
  await shell.execute({ sql: typed, args: [id] });
  app.clock.advance(1001);
  expect([(await app.useKey(body.key)).status, (await app.useKey(previous)).status]).toEqual([200, 200]);
  const again = await app.call('rotate_api_key', { keyId: id }, alice);
  expect(again.body).toMatchObject({ code: 'rotation_under_way', previousUntil: Number.MAX_SAFE_INTEGER });
});

test('scopes and metadata typed as JSON5, which SQLite takes for JSON, are read as what they say', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { id, key } = await app.createKey('alice');
  using shell = openDatabase(databaseOf(app));
  const typed = `UPDATE api_keys SET scopes = '[''read'', ''write'',]', metadata = '{plan: ''pro''}' WHERE id = ?`;
  await shell.execute({ sql: typed, args: [id] });
  app.clock.advance(1001);
  const { status, headers } = await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
  expect([status, headers.get('x-key-scopes')]).toEqual([200, 'read write']);
  expect(decodeURIComponent(headers.get('x-key-metadata') ?? '')).toBe('{"plan":"pro"}');
  expect(await listedKeys(app, 'alice')).toMatchObject([{ id, scopes: ['read', 'write'] }]);
});

test('metadata typed as {} is none, of a key and of an owner', async () => {
  await using app = await createTestApp({ store: 'embedded', env: ADMINS });
  const { id, key } = await app.createKey('alice');
  using shell = openDatabase(databaseOf(app));
  await shell.execute({ sql: "UPDATE api_keys SET metadata = '{}' WHERE id = ?", args: [id] });
  await shell.execute("INSERT INTO owners (owner, keys_max, metadata, changed_at_ms) VALUES ('alice', 5, '{ }', 1)");
  app.clock.advance(1001);
  const verified = await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
  expect([verified.status, verified.headers.get('x-key-metadata')]).toEqual([200, '']);
  expect((await app.call('whoami', {}, { 'x-api-key': key })).body.metadata).toBeNull();
  const admin = await adminOf(app);
  expect((await app.call('admin_list_keys', {}, admin)).body.keys[0].metadata).toBeUndefined();
  expect((await app.call('admin_update_owner', { owner: 'alice' }, admin)).body).toMatchObject({ metadata: null });
});

test('what is no text among scopes and metadata is read as one, and the memory for keys stays bounded', async () => {
  await using app = await createTestApp({ store: 'embedded', env: { ...COUNTED, KEY_CACHE_MB: '8' } });
  const { id, key } = await app.createKey('alice');
  using shell = openDatabase(databaseOf(app));
  const typed = `UPDATE api_keys SET scopes = '["read", 5, null]', metadata = '{"seats":5,"until":null}' WHERE id = ?`;
  await shell.execute({ sql: typed, args: [id] });
  await shell.execute(`INSERT INTO owners (owner, metadata, changed_at_ms) VALUES ('alice', '{"plan":{"a":1}}', 1)`);
  app.clock.advance(1001);
  const verified = await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } });
  expect([verified.status, verified.headers.get('x-key-scopes')]).toEqual([200, 'read 5 null']);
  const metadata = JSON.parse(decodeURIComponent(verified.headers.get('x-key-metadata') ?? ''));
  expect(metadata).toEqual({ plan: '{"a":1}', seats: '5', until: 'null' });
  // More long records than there is room for: the first is read again.
  const scopes = JSON.stringify(Array.from({ length: 20 }, (_, at) => `${at}`.padStart(95, 'x')));
  const secrets = Array.from({ length: 5000 }, (_, at) => `sk_test_${String(at).padStart(64, '0')}`);
  for (const [at, secret] of secrets.entries()) {
    await shell.execute({
      sql: `INSERT INTO api_keys (${COLUMNS}) VALUES (?, 'bob', 'x', ?, ?, 1, 1)`,
      args: [`typed ${at}`, Bun.SHA256.hash(secret, 'hex'), scopes],
    });
  }
  app.clock.advance(1001);
  for (const secret of secrets) await fetch(`${app.url}/verify`, { headers: { 'x-api-key': secret } });
  const reads = await app.storeReads();
  expect((await fetch(`${app.url}/verify`, { headers: { 'x-api-key': key } })).status).toBe(200);
  expect(await app.storeReads()).toBe(reads + 1);
}, 180_000);
