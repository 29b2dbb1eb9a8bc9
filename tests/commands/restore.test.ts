// `keys restore` in an emergency: what is beside the file, what ended since, who was unblocked since, and no database yet.

import { expect, test } from 'bun:test';
import { cpSync, existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { backupOf } from '../store/backups.ts';
import { storedSecrets } from '../store/tables.ts';
import { testClock } from '../support/clock.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand, keysProcess, startKeys } from '../support/keys-command.ts';
import { startSqld } from '../support/sqld.ts';
import { startStore, storeOn } from '../support/store-mode.ts';
import { bearer, createTestApp, eventsIn, type TestApp } from '../support/test-app.ts';
import { advanceUntil, waitFor } from '../support/wait-for.ts';

/** The bound, and a millisecond. */
const LATER_MS = 1001;

/** With the time of the commands. */
const serve = (folder = temporaryFolder()) =>
  createTestApp({ store: 'embedded', folder, clock: testClock(Date.now()) });
const fileOf = ({ folder }: TestApp) => join(folder, 'keys.db');
const at = (path: string) => ({ DATABASE_URL: `file:${path}` });
const keys = (app: TestApp, ...args: string[]) => keysCommand(at(fileOf(app)), args);
const use = async (app: TestApp, key: string) => (await app.useKey(key)).status;
const call = async (app: TestApp, tool: string, input: object) =>
  (await app.call(tool, input, await bearer(app, 'alice'))).body;
const secretsOf = (place: string) => storedSecrets(place.startsWith('http') ? place : `file:${place}`);

/** A backup of what an app has. */
async function backup(app: TestApp): Promise<string> {
  const file = join(temporaryFolder(), 'backup.db');
  await app.keys('backup', file);
  return file;
}

/** An app on a database that a restore makes of `file`, at a path where there is none. */
async function restoredFrom(file: string): Promise<TestApp> {
  const path = join(temporaryFolder(), 'data/keys.db');
  const { code, stderr } = await keysCommand(at(path), ['restore', file]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(`there was no database at ${path}`) });
  return serve(dirname(path));
}

test('of a file of a server that ended without a stop, what is in the log beside it counts', async () => {
  await using app = await serve();
  const [revoked, kept] = [await app.createKey('alice'), await app.createKey('alice')];
  await call(app, 'revoke_api_key', { keyId: revoked.id });
  const copied = join(temporaryFolder(), 'copied');
  cpSync(app.folder, copied, { recursive: true });
  expect(statSync(join(copied, 'keys.db-wal')).size).toBeGreaterThan(0);
  const names = readdirSync(copied).sort();
  await using restored = await restoredFrom(join(copied, 'keys.db'));
  expect([await use(restored, revoked.key), await use(restored, kept.key)]).toEqual([401, 200]);
  expect(readdirSync(copied).sort()).toEqual(names); // and the copy is as it was
});

test('onto a machine without a database, or an empty remote one, it makes one, for its owner alone, and does not ask', async () => {
  await using app = await serve();
  const { key } = await app.createKey('alice');
  const file = await backup(app);
  await using restored = await restoredFrom(file);
  expect(await use(restored, key)).toBe(200);
  expect(await secretsOf(fileOf(restored))).toEqual(await secretsOf(file)); // what OAuth clients were registered with
  expect(statSync(fileOf(restored)).mode & 0o777).toBe(0o600);

  await using sqld = await startSqld();
  expect(await keysCommand(sqld.env, ['restore', file])).toMatchObject({ code: 0 });
  await using remote = await createTestApp({ store: storeOn(sqld.env) });
  expect(await use(remote, key)).toBe(200);
  expect(await secretsOf(sqld.url)).toEqual(await secretsOf(file));
});

test('over a database in use, beside a server, it leaves a file that is no larger than before', async () => {
  const file = await backupOf(5000);
  await using restored = await restoredFrom(file);
  const { key } = await restored.createKey('alice');
  const before = statSync(fileOf(restored)).size;
  for (let time = 0; time < 2; time += 1) {
    expect((await keys(restored, 'restore', file, '--yes')).code).toBe(0);
    const client = openDatabase(`file:${fileOf(restored)}`);
    await client.execute('PRAGMA wal_checkpoint(PASSIVE)');
    expect((await client.execute('PRAGMA integrity_check')).rows).toEqual([{ integrity_check: 'ok' }]);
    client.close();
    expect(statSync(fileOf(restored)).size).toBeLessThanOrEqual(before * 1.05);
  }
  restored.clock.advance(LATER_MS);
  expect(await use(restored, key)).toBe(401); // it was made after the backup
});

test('a bad backup makes no database', async () => {
  const path = join(temporaryFolder(), 'data/keys.db');
  const file = join(import.meta.dir, '../../package.json');
  const { code, stderr } = await keysCommand(at(path), ['restore', file]);
  expect({ code, stderr, made: existsSync(path) }).toEqual({
    code: 1,
    stderr: expect.stringContaining(`expected a backup, got "${file}"`),
    made: false,
  });
});

test('a database whose keys were all deleted is in use: it asks, names them, and keeps its secrets', async () => {
  await using app = await serve();
  const { id, key } = await app.createKey('alice');
  const file = await backup(app);
  await call(app, 'delete_api_key', { keyId: id });
  const { code, stderr } = await keys(app, 'restore', file);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`deleted since: ${id} of "alice"`) });
  expect(await use(app, key)).toBe(401);
  const client = openDatabase(`file:${fileOf(app)}`);
  await client.execute('UPDATE server_secrets SET value = lower(hex(randomblob(32)))'); // one leaked
  client.close();
  const secrets = await secretsOf(fileOf(app));
  expect((await keys(app, 'restore', file, '--yes')).code).toBe(0);
  expect(await secretsOf(fileOf(app))).toEqual(secrets);
});

test('every secret that has ended since is counted and named, not whole keys alone', async () => {
  await using app = await serve();
  const [revoked, deleted, leaked, rotated, untouched] = await Promise.all(
    Array.from({ length: 5 }, () => app.createKey('alice', { name: 'n' })),
  );
  if (!revoked || !deleted || !leaked || !rotated || !untouched) throw new Error('five were made');
  // Two secrets: the previous one ends alone after the backup, by whoever found it.
  const second = await call(app, 'rotate_api_key', { keyId: leaked.id });
  expect(await use(app, second.key)).toBe(200);
  const file = await backup(app);
  await call(app, 'revoke_api_key', { keyId: revoked.id });
  await call(app, 'delete_api_key', { keyId: deleted.id });
  const form = new URLSearchParams({ token: leaked.key });
  expect((await fetch(`${app.url}/revoke`, { method: 'POST', body: form })).status).toBe(200);
  await call(app, 'rotate_api_key', { keyId: rotated.id, overlapHours: 0 });
  await app.createKey('alice');
  const { code, stderr } = await keys(app, 'restore', file);
  expect(code).toBe(2);
  expect(stderr).toContain(
    'Replace the keys that are there (5) by those of the backup (5). Created or rotated since, they will be refused: 2. Revoked, deleted or rotated out since, they will work again: 4. Confirm with --yes',
  );
  const fingerprint = (key: string) => Bun.SHA256.hash(key, 'hex').slice(0, 12);
  for (const [ended, { id, key }] of [
    ['revoked', revoked],
    ['deleted', deleted],
    ['rotated out', leaked],
    ['rotated out', rotated],
  ] as const) {
    expect(stderr).toContain(`${ended} since: ${id} of "alice", "n", fingerprint ${fingerprint(key)}\n`);
  }
  expect(stderr).not.toContain(untouched.id);
  expect(stderr).not.toContain(fingerprint(second.key));
});

test('owners who were unblocked since are named, are blocked again, and an event says what was put back', async () => {
  await using app = await serve();
  const { key } = await app.createKey('frank');
  await app.keys('block', 'frank');
  await app.keys('block', 'grace');
  const file = await backup(app);
  await app.keys('unblock', 'frank');
  app.clock.advance(LATER_MS);
  expect(await use(app, key)).toBe(200);
  const asked = await keys(app, 'restore', file);
  expect(asked.stderr).toContain('unblocked since, and blocked again: "frank"\n');
  expect(asked.stderr).not.toContain('grace');
  expect((await keys(app, 'restore', file, '--yes')).code).toBe(0);
  app.clock.advance(LATER_MS);
  expect(await use(app, key)).toBe(401);
  const events = await eventsIn(app);
  expect(events.map(({ seq, kind, owner }) => [seq, kind, owner])).toEqual([
    [1, 'created', 'frank'],
    [2, 'blocked', 'frank'],
    [3, 'blocked', 'grace'],
    [4, 'unblocked', 'frank'],
    [5, 'restored', null],
  ]);
  expect(events[4]).toMatchObject({ how: 'command', keyId: null, actor: null, backupSeq: 3 });
});

test('a backup of another database is put into that of a new server, and the events of both stay', async () => {
  await using before = await serve();
  const { key } = await before.createKey('ivan');
  const file = await backup(before);
  await using after = await serve();
  await after.createKey('judy');
  expect((await keys(after, 'restore', file)).code).toBe(2);
  expect((await keys(after, 'restore', file, '--yes')).code).toBe(0);
  after.clock.advance(LATER_MS);
  expect(await use(after, key)).toBe(200);
  // Both databases had an event 1.
  expect((await eventsIn(after)).map(({ seq, owner, kind }) => [seq, owner, kind])).toEqual([
    [1, 'ivan', 'created'],
    [2, 'judy', 'created'],
    [3, null, 'restored'],
  ]);
});

test.each(rows(['embedded', 'remote'] as const, 1))('owners who were blocked since stay blocked (%s)', async (mode) => {
  await using store = await startStore(mode);
  await using app = await createTestApp({ store });
  const { key } = await app.createKey('heidi');
  const file = await backup(app);
  await app.keys('block', 'heidi', '--yes');
  app.clock.advance(LATER_MS);
  expect(await use(app, key)).toBe(401);
  await app.keys('restore', file, '--yes');
  expect(await app.keys('block')).toContain('heidi');
  await using next = await createTestApp({ store }); // which knows nothing of before
  app.clock.advance(LATER_MS);
  expect([await use(next, key), await use(app, key)]).toEqual([401, 401]);
});

test('what a killed restore left in the temporary folder is removed by the next one, which says so', async () => {
  await using app = await serve();
  await app.createKey('alice');
  const file = await backup(app);
  const temporary = temporaryFolder();
  const left = () => readdirSync(temporary).filter((name) => name.startsWith('keys-'));
  const restore = () => keysProcess({ ...at(fileOf(app)), TMPDIR: temporary }, ['restore', file, '--yes']);
  await using sqld = await startSqld();
  sqld.freeze(); // so that it waits, with the copy made
  const command = startKeys(sqld.env, ['restore', file, '--yes'], temporary);
  await waitFor(() => left().length > 0);
  const running = left();
  expect((await restore()).code).toBe(0);
  expect(left()).toEqual(running); // of a command that runs
  command.kill('SIGKILL');
  await command.exited;
  expect((await restore()).stderr).toContain(
    `removed what a command that was killed had left: ${join(temporary, running[0] ?? '')}`,
  );
  expect(left()).toEqual([]);
});

test('where a database was removed under a server, restore says that it starts anew, and doctor that it is away', async () => {
  await using app = await serve();
  const file = await backup(app);
  for (const part of ['', '-wal', '-shm']) rmSync(`${fileOf(app)}${part}`);
  const restored = await keys(app, 'restore', file);
  expect(restored).toMatchObject({ code: 0, stderr: expect.stringContaining('it is made; start servers anew') });
  await advanceUntil(app.clock, async () => (await fetch(`${app.url}/mcp/health`)).status === 503, LATER_MS);
  const { stdout } = await keysCommand({ ...at(fileOf(app)), PUBLIC_URL: app.url }, ['doctor']);
  expect(stdout).toMatch(/^ok +database .*\n(.*\n)*bad +server +unavailable at /m);
});
