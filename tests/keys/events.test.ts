// The trail of changes: what each leaves behind, that none can be forgotten, and how it is read.

import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';
import { announced, unfinishedKeys } from '../store/stored.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { actorFor, bearer, createTestApp, eventsIn, fingerprint, type TestApp } from '../support/test-app.ts';

const SRC = join(import.meta.dir, '../../src');

const tool = async (app: TestApp, name: string, input: object, sub = 'alice') =>
  (await app.call(name, input, await bearer(app, sub))).body;

test('changes that share a request id, which a proxy gave twice, are told apart', async () => {
  await using app = await createTestApp({ env: { TRUST_PROXY: '1' } });
  const { id } = await app.createKey('alice');
  const headers = async (sub: string, ip: string) => ({
    ...(await bearer(app, sub)),
    'x-request-id': 'same',
    'x-forwarded-for': ip,
  });
  await app.call('rotate_api_key', { keyId: id }, await headers('alice', '192.0.2.1'));
  await app.call('rotate_api_key', { keyId: id }, await headers('alice', '192.0.2.2'));
  await app.call('revoke_api_key', { keyId: id }, await headers('bob', '192.0.2.3')); // changes nothing
  await app.call('revoke_api_key', { keyId: id }, await headers('alice', '192.0.2.4'));
  await app.call('revoke_api_key', { keyId: id }, await headers('alice', '192.0.2.5')); // changes nothing
  await app.call('delete_api_key', { keyId: id }, await headers('alice', '192.0.2.6'));
  const events = (await eventsIn(app)).filter(({ requestId }) => requestId === 'same');
  expect(events.map(({ kind, actor, address }) => [kind, actor, address])).toEqual([
    ['rotated', 'alice', '192.0.2.1'],
    ['rotated', 'alice', '192.0.2.2'],
    ['revoked', 'alice', '192.0.2.4'],
    ['deleted', 'alice', '192.0.2.6'],
  ]);
});

describe.each(rows(['embedded', 'remote', 'replica'] as const, 1))('%s:', (store) => {
  test('each change leaves one event, with who made it and how', async () => {
    await using app = await createTestApp({ store });
    const { id, key: first } = await app.createKey('alice');
    const { key: second } = await tool(app, 'rotate_api_key', { keyId: id, overlapHours: 1 });
    expect((await app.useKey(second)).status).toBe(200);
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: first }) });
    const { key: third } = await tool(app, 'rotate_api_key', { keyId: id, overlapHours: 0 });
    const { key: fourth } = await tool(app, 'rotate_api_key', { keyId: id });
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: fourth }) });
    await app.update(actorFor('alice'), id, { name: 'new' });
    await tool(app, 'revoke_api_key', { keyId: id });
    await tool(app, 'delete_api_key', { keyId: id });
    const other = await app.createKey('bob');
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: other.key }) });

    const events = await eventsIn(app);
    const byTool = {
      how: 'tool',
      actor: 'alice',
      owner: 'alice',
      keyId: id,
      address: '127.0.0.1',
    };
    const possessed = { ...byTool, kind: 'revoked', how: 'possession', actor: null };
    const seen: object[] = events.map(({ seq, at, requestId, ...event }) => event);
    expect(seen).toEqual([
      { ...byTool, kind: 'created', fingerprint: fingerprint(first) },
      { ...byTool, kind: 'rotated', fingerprint: fingerprint(second) },
      { ...byTool, kind: 'first_used', how: 'use', actor: null, fingerprint: fingerprint(second) },
      { ...possessed, fingerprint: fingerprint(first), secret: 'previous' },
      { ...byTool, kind: 'rotated', fingerprint: fingerprint(third) },
      { ...byTool, kind: 'rotated', fingerprint: fingerprint(fourth) },
      { ...possessed, fingerprint: fingerprint(fourth), secret: 'next' },
      { ...byTool, address: 'here', kind: 'changed', fields: ['name'], fingerprint: fingerprint(third) },
      { ...byTool, kind: 'revoked', fingerprint: fingerprint(third) },
      { ...byTool, kind: 'deleted', fingerprint: fingerprint(third) },
      { ...byTool, kind: 'created', owner: 'bob', actor: 'bob', keyId: other.id, fingerprint: fingerprint(other.key) },
      { ...possessed, owner: 'bob', keyId: other.id, fingerprint: fingerprint(other.key), secret: 'in_force' },
    ]);
    if (store === 'embedded') expect(await unfinishedKeys(databaseOf(app))).toEqual([]);
    const logged = new Set((await app.log()).map(({ requestId }) => requestId));
    expect(events.every(({ requestId }) => logged.has(requestId ?? ''))).toBe(true);
    expect(Math.max(...events.map(({ at }) => Math.abs(Date.parse(at) - Date.now())))).toBeLessThan(60_000);
  });
});

test('the statements that change a key are known: each was tried here, or with the command it belongs to', () => {
  // Copies of a database and of its keys change no key.
  const files = [...new Glob('{store,doors}/**/*.ts').scanSync(SRC)].filter((file) => !/(^|\/)copies\//.test(file));
  const source = files.map((file) => readFileSync(join(SRC, file), 'utf8')).join();
  const writing = source.matchAll(
    /\b(?:INSERT INTO|UPDATE|DELETE FROM|REPLACE INTO)\s+(?:api_keys|blocked_owners)\b.{0,40}/gs,
  );
  expect([...writing].map(([sql]) => sql.replace(/\s+/g, ' ').slice(0, 45).trim()).sort()).toEqual([
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as it stands in the source
    'INSERT INTO api_keys (${COLUMNS}, changed_by)', // created, also by import
    'INSERT INTO blocked_owners (owner, changed_by', // blocked
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as it stands in the source
    'UPDATE api_keys SET (changed_by, ${names}) =', // changed, by the command
    'UPDATE api_keys SET active = 0, changed_by =', // revoked, by the command
    'UPDATE api_keys SET active = 0, changed_by =', // revoked
    'UPDATE api_keys SET active = NOT given.whole,', // revoked, by possession
    'UPDATE api_keys SET deleting = 1, changed_by',
    'UPDATE api_keys SET deleting = 1, changed_by', // deleted
    'UPDATE api_keys SET foreign_hash = ?1 WHERE r', // changed, by an import
    'UPDATE api_keys SET key_hash = ?4, second_has', // rotated, at once
    'UPDATE api_keys SET key_hash = second_hash, s', // first_used
    'UPDATE api_keys SET second_hash = ?4, second_', // rotated
    'UPDATE blocked_owners SET deleting = 1, chang', // unblocked
  ]);
});

test('a change typed into a database shell is one event, which says what changed', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { id } = await app.createKey('alice');
  using db = openDatabase(databaseOf(app));
  const set = (columns: string) => db.execute({ sql: `UPDATE api_keys SET ${columns} WHERE id = ?`, args: [id] });
  await set("resource = 'https://a.example/mcp', name = 'new', limit_requests = 5, limit_window_s = 60");
  await set("quota_requests = 5, quota_period = 'day', scopes = '[]', expires_at_ms = 1, name = 'new'");
  await set('active = 0');
  await set('active = 1');
  expect((await eventsIn(app)).map(({ kind, fields }) => [kind, fields])).toEqual([
    ['created', undefined],
    ['changed', ['name', 'rateLimit', 'resource']],
    ['changed', ['scopes', 'expiresAt', 'quota']],
    ['revoked', undefined],
    ['changed', ['active']],
  ]);
});

test('what changes nothing leaves no event', async () => {
  await using app = await createTestApp();
  const { id, key } = await app.createKey('alice');
  await app.update(actorFor('alice'), id, { name: 'test key', scopes: ['read'] });
  await tool(app, 'delete_api_key', { keyId: id }, 'bob');
  await tool(app, 'rotate_api_key', { keyId: id }, 'bob');
  for (let round = 0; round < 3; round += 1) {
    await app.useKey(key);
    await tool(app, 'revoke_api_key', { keyId: id });
    await tool(app, 'rotate_api_key', { keyId: id });
    await fetch(`${app.url}/revoke`, { method: 'POST', body: new URLSearchParams({ token: key }) });
  }
  expect((await eventsIn(app)).map(({ kind }) => kind)).toEqual(['created', 'revoked']);
});

test('with EVENT_ADDRESSES=0 there are no addresses', async () => {
  await using app = await createTestApp({ env: { EVENT_ADDRESSES: '0' } });
  await app.createKey('alice');
  expect(await eventsIn(app)).toMatchObject([{ kind: 'created', actor: 'alice', address: null }]);
});

test('with an owner claim, the event has the owner and the person', async () => {
  await using app = await createTestApp({ env: { JWT_OWNER_CLAIM: 'org_id' } });
  const authorization = `Bearer ${await app.token('alice', { org_id: 'acme' })}`;
  await app.call('create_api_key', { name: 'n', scopes: [] }, { authorization });
  expect(await eventsIn(app)).toMatchObject([{ owner: 'acme', actor: 'alice' }]);
});

describe('reading', () => {
  test('events are read oldest first: the newest, or those after a number; of one key, or of one owner', async () => {
    await using app = await createTestApp();
    const [a, b] = [await app.createKey('alice'), await app.createKey('bob')];
    const c = await app.createKey('alice');
    await tool(app, 'revoke_api_key', { keyId: a.id });
    const read = async (...options: string[]) =>
      (await eventsIn(app, ...options)).map(({ keyId, kind }) => [keyId, kind]);
    const all = [
      [a.id, 'created'],
      [b.id, 'created'],
      [c.id, 'created'],
      [a.id, 'revoked'],
    ];
    expect(await read()).toEqual(all);
    expect(await read('--limit', '2')).toEqual(all.slice(2));
    const [first] = await eventsIn(app);
    expect(await read('--after', String(first?.seq), '--limit', '2')).toEqual(all.slice(1, 3));
    expect(await read('--after', '1000000')).toEqual([]);
    expect(await read('--key', a.id)).toEqual([all[0], all[3]] as string[][]);
    expect(await read('--user', 'bob')).toEqual([all[1]] as string[][]);
    expect(await read('--user', 'bob', '--key', a.id)).toEqual([]);
  });

  test('an owner’s events are found among hundreds of thousands, which no one statement reads', async () => {
    await using app = await createTestApp({ store: 'embedded' });
    const { id } = await app.createKey('alice');
    const database = openDatabase(databaseOf(app));
    const others = `INSERT INTO key_events (key_id, owner, kind, how) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL
SELECT i + 1 FROM n WHERE i < 105000) SELECT 'id', 'bob', 'created', 'sql' FROM n`;
    await database.execute(others);
    const second = (await app.createKey('alice')).id;
    await database.execute(others);
    database.close();
    const read = async (...options: string[]) =>
      (await eventsIn(app, '--user', 'alice', ...options)).map(({ keyId }) => keyId);
    expect(await read()).toEqual([id, second]);
    expect(await read('--limit', '1')).toEqual([second]);
    expect(await read('--after', '0', '--limit', '1')).toEqual([id]);
    expect(await read('--after', '1')).toEqual([second]);
    expect(await read('--after', '105002')).toEqual([]);
  });
});

test('blocking and unblocking an owner, by whatever way, is announced in the feed and in the audit trail', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const db = openDatabase(databaseOf(app));
  const by = JSON.stringify({ how: 'command', actor: null, requestId: null, address: null });
  await db.execute({ sql: "INSERT INTO blocked_owners (owner, changed_by) VALUES ('alice', ?)", args: [by] });
  await db.execute({
    sql: "UPDATE blocked_owners SET deleting = 1, changed_by = ? WHERE owner = 'alice'",
    args: [by],
  });
  await db.execute("INSERT INTO blocked_owners (owner) VALUES ('alice')");
  await db.execute("DELETE FROM blocked_owners WHERE owner = 'alice'");
  db.close();
  expect(await announced(databaseOf(app))).toEqual(Array(4).fill('owner:alice'));
  expect((await eventsIn(app)).slice(1)).toMatchObject([
    { kind: 'blocked', how: 'command', owner: 'alice', keyId: null, fingerprint: null },
    { kind: 'unblocked', how: 'command', owner: 'alice' },
    { kind: 'blocked', how: 'sql', owner: 'alice' },
    { kind: 'unblocked', how: 'sql', owner: 'alice' },
  ]);
  app.clock.advance(1001);
  expect((await app.useKey(key)).status).toBe(200);
});
