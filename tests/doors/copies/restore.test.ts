// `keys restore` in an emergency: onto nothing, in the place of a file that nobody has open, into a remote database without
// keys; what is said and asked before, what stays, and what happens to one that is killed.

import { expect, test } from 'bun:test';
import {
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { storedSecrets } from '../../store/stored.ts';
import { backupOf, withLostPage } from '../../support/backups.ts';
import { testClock } from '../../support/clock.ts';
import { executeAt, openDatabase } from '../../support/database-client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { jsonLines, keysCommand, keysProcess, startKeys } from '../../support/keys-command.ts';
import { startServer } from '../../support/server-process.ts';
import { startSqld } from '../../support/sqld.ts';
import { storeOn } from '../../support/store-mode.ts';
import { bearer, createTestApp, eventsIn, fingerprint, TEST_SECRET, type TestApp } from '../../support/test-app.ts';
import { advanceUntil, waitFor } from '../../support/wait-for.ts';

/** A user who isn't root. */
const ANYBODY = 12345;

/** The bound, and a millisecond. */
const LATER_MS = 1001;

/** With the time of the commands. */
const serve = (folder = temporaryFolder()) =>
  createTestApp({ store: 'embedded', folder, clock: testClock(Date.now()) });
const fileOf = ({ folder }: Pick<TestApp, 'folder'>) => join(folder, 'keys.db');
const at = (path: string) => ({ DATABASE_URL: `file:${path}` });
const keys = (app: Pick<TestApp, 'folder'>, ...args: string[]) => keysCommand(at(fileOf(app)), args);
const use = async (app: TestApp, key: string) => (await app.useKey(key)).status;
const call = async (app: TestApp, tool: string, input: object) =>
  (await app.call(tool, input, await bearer(app, 'alice'))).body;
/** What was there before the restores onto its file. */
const beforeOf = ({ folder }: Pick<TestApp, 'folder'>) =>
  readdirSync(folder)
    .filter((name) => name.startsWith('keys.db.before-'))
    .sort()
    .map((name) => join(folder, name));
const contentOf = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder).map((name) => [name, Bun.SHA256.hash(readFileSync(join(folder, name)), 'hex')]),
  );
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
  expect(stderr).toContain('a new database does not know what was revoked, deleted or blocked after the backup');
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

test('a trigger of another program is in the backup, whatever its name', async () => {
  await using app = await serve();
  const client = openDatabase(`file:${fileOf(app)}`);
  await client.execute('CREATE TABLE _others (at)');
  await client.execute(`CREATE TRIGGER "another's ""own" AFTER INSERT ON _others BEGIN DELETE FROM _others; END`);
  const triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name";
  const { rows } = await client.execute(triggers);
  client.close();
  expect(await executeAt(`file:${await backup(app)}`, triggers)).toEqual(rows);
});

test('a column that was added by hand stays where it is, and keeps nothing from being restored', async () => {
  await using app = await serve();
  const { key } = await app.createKey('alice');
  const before = await backup(app);
  for (const table of ['api_keys', 'key_events', 'blocked_owners'])
    await executeAt(`file:${fileOf(app)}`, `ALTER TABLE ${table} ADD COLUMN "a note" TEXT DEFAULT 'n'`);
  await app.keys('block', 'bob');
  const file = await backup(app);
  await using restored = await restoredFrom(file);
  expect(await use(restored, key)).toBe(200);
  await using sqld = await startSqld();
  expect(await keysCommand(sqld.env, ['restore', file])).toMatchObject({ code: 0 });
  expect((await keysCommand(sqld.env, ['events', '--json'])).stdout).toContain('"blocked"');
  await using other = await startSqld();
  await keysCommand(other.env, ['list']);
  await executeAt(other.url, `ALTER TABLE api_keys ADD COLUMN "a note" TEXT DEFAULT 'n'`);
  await executeAt(other.url, `ALTER TABLE key_events ADD COLUMN "a note" TEXT`);
  for (const one of [before, file]) {
    expect(await keysCommand(other.env, ['restore', one, '--yes'])).toMatchObject({ code: 0 });
    expect(await executeAt(other.url, 'SELECT "a note" FROM api_keys')).toEqual([{ 'a note': 'n' }]);
    await executeAt(other.url, 'DELETE FROM api_keys');
  }
  await app.close();
  for (const one of [file, before]) expect(await keys(app, 'restore', one, '--yes')).toMatchObject({ code: 0 });
  expect(await executeAt(`file:${fileOf(app)}`, 'SELECT "a note" FROM api_keys')).toEqual([{ 'a note': 'n' }]);
});

test('where a link leads to nothing, the database is made there, and the link stays', async () => {
  await using app = await serve();
  const { key } = await app.createKey('alice');
  const [folder, elsewhere] = [temporaryFolder(), join(temporaryFolder(), 'elsewhere.db')];
  symlinkSync(elsewhere, fileOf({ folder }));
  if (process.getuid?.() === 0) chownSync(dirname(elsewhere), ANYBODY, ANYBODY);
  expect(await keys({ folder }, 'restore', await backup(app))).toMatchObject({ code: 0 });
  expect(statSync(elsewhere).mode & 0o777).toBe(0o600);
  expect(statSync(elsewhere).uid).toBe(statSync(dirname(elsewhere)).uid);
  expect(lstatSync(fileOf({ folder })).isSymbolicLink()).toBe(true);
  await using restored = await serve(folder);
  expect(await use(restored, key)).toBe(200);
});

test('days of uses that a backup no longer has are missing where it was restored, too', async () => {
  await using app = await serve();
  await executeAt(`file:${fileOf(app)}`, 'UPDATE schema_migrations SET applied_at_ms = 0 WHERE version = 1');
  const file = await backup(app);
  await using sqld = await startSqld();
  for (const env of [at(join(temporaryFolder(), 'keys.db')), sqld.env]) {
    expect(await keysCommand(env, ['restore', file])).toMatchObject({ code: 0 });
    const { code, stderr } = await keysCommand(env, ['usage', '--days', '400']);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('missing, because uses are kept') });
  }
});

/** Whoever has the file open, until it is disposed. */
const OPENED_BY = {
  'a server': async (env: Record<string, string>) => startServer({ env: { ...env, JWT_SECRET: TEST_SECRET } }),
  'a command that follows events': async (env: Record<string, string>) => {
    const command = startKeys(env, ['events', '--follow'], temporaryFolder(), { stdout: 'pipe' });
    await (command.stdout as ReadableStream).getReader().read();
    return killing(command);
  },
  'a program that has read from it, and is idle': async ({ DATABASE_URL = '' }: Record<string, string>) => {
    const script = `const { DatabaseSync } = require('node:sqlite');
const db = new DatabaseSync(${JSON.stringify(DATABASE_URL.slice('file:'.length))}, { readOnly: true });
db.prepare('SELECT name FROM sqlite_master').all();
console.log('read');
setInterval(() => {}, 1000);`;
    const program = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' });
    await program.stdout.getReader().read();
    return killing(program);
  },
};

const killing = (child: Bun.Subprocess) => ({
  async [Symbol.asyncDispose]() {
    child.kill('SIGKILL');
    await child.exited;
  },
});

test.each(Object.keys(OPENED_BY) as (keyof typeof OPENED_BY)[])(
  'a file that %s has open is not restored: a line, and nothing has changed',
  async (who) => {
    const app = await serve();
    await app.createKey('alice');
    const file = await backup(app);
    await app.createKey('alice');
    await app.close();
    await using _ = await OPENED_BY[who](at(fileOf(app)));
    // What is open is written to by whoever has it open: the files are the same, and so is what is in them.
    const look = async () => [Object.keys(contentOf(app.folder)), await secretsOf(fileOf(app))];
    const before = await look();
    expect(await keysProcess(at(fileOf(app)), ['restore', file, '--yes'])).toEqual({
      code: 1,
      stdout: '',
      stderr: `keys: DATABASE_URL: another process has "${fileOf(app)}" open (a server, a command, or a program that copies it); nothing was changed. Stop it, and restore again\n`,
    });
    expect(await look()).toEqual(before);
  },
);

test('in the place of a file it leaves the file of before beside it, whole, and nothing else', async () => {
  const file = await backupOf(5000);
  const app = await restoredFrom(file);
  const { id } = await app.createKey('alice');
  await app.close();
  for (let time = 1; time <= 2; time += 1) {
    expect(await keys(app, 'restore', file, '--yes')).toMatchObject({ code: 0 });
    expect(beforeOf(app)).toHaveLength(time);
    expect(readdirSync(app.folder).sort()).toEqual(
      ['keys.db', ...beforeOf(app).map((path) => path.slice(app.folder.length + 1))].sort(),
    );
    expect(await executeAt(`file:${fileOf(app)}`, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  }
  const [before = ''] = beforeOf(app);
  expect(statSync(before).mode & 0o777).toBe(0o600);
  expect(statSync(fileOf(app)).size).toBeLessThanOrEqual(statSync(before).size * 1.05);
  expect((await keys(app, 'show', id)).code).toBe(1); // it was made after the backup
  expect((await keysCommand(at(before), ['show', id])).code).toBe(0);
  // And back again.
  expect((await keys(app, 'restore', before, '--yes')).code).toBe(0);
  expect((await keys(app, 'show', id)).code).toBe(0);
});

test('a damaged file that a server has open is not replaced: a line, and nothing has changed', async () => {
  const app = await serve();
  const file = await backup(app);
  await app.close();
  await using _ = await OPENED_BY['a server'](at(fileOf(app)));
  writeFileSync(fileOf(app), withLostPage(fileOf(app)));
  const names = readdirSync(app.folder);
  expect(await keysProcess(at(fileOf(app)), ['restore', file, '--yes'])).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(/^keys: DATABASE_URL: another process has .* open .*; nothing was changed\..*\n$/),
  });
  expect(readdirSync(app.folder)).toEqual(names);
});

test.each([
  ['is no database', (path: string) => writeFileSync(path, 'x'.repeat(10_000))],
  ['was cut', (path: string) => truncateSync(path, 20_000)],
  ['has lost a page', (path: string) => writeFileSync(path, withLostPage(path))],
] as const)('a file that %s is replaced after a question that says so, and stays beside', async (_, damage) => {
  const app = await serve();
  const { key } = await app.createKey('alice');
  const file = await backup(app);
  await app.close();
  damage(fileOf(app));
  const damaged = readFileSync(fileOf(app));
  const asked = await keys(app, 'restore', file);
  expect(asked).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("what has ended since the backup can't be told"),
  });
  expect(readFileSync(fileOf(app)).equals(damaged)).toBe(true);
  expect(await keys(app, 'restore', file, '--yes')).toMatchObject({ code: 0 });
  expect(readFileSync(beforeOf(app)[0] ?? '').equals(damaged)).toBe(true);
  await using again = await serve(app.folder);
  expect(await use(again, key)).toBe(200);
});

test('a file of another program is not touched', async () => {
  const path = join(temporaryFolder(), 'keys.db');
  await executeAt(`file:${path}`, 'CREATE TABLE recipes (name TEXT)');
  const before = contentOf(dirname(path));
  const { code, stderr } = await keysCommand(at(path), ['restore', await backupOf(1), '--yes']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('belongs to another program') });
  expect(contentOf(dirname(path))).toEqual(before);
});

test('a remote database with keys is not restored: a line, and nothing has changed', async () => {
  const file = await backupOf(3);
  await using sqld = await startSqld();
  await using app = await createTestApp({ store: storeOn(sqld.env) });
  const { id, key } = await app.createKey('alice');
  const events = async () => jsonLines(await keysCommand(sqld.env, ['events', '--json']));
  const before = await events();
  expect(await keysCommand(sqld.env, ['restore', file, '--yes'])).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'keys: DATABASE_URL: the database has keys, and a remote one is only restored without any; nothing was changed. Restore into a new one, and point DATABASE_URL at it\n',
  });
  expect([jsonLines(await keysCommand(sqld.env, ['list', '--json'])).map((one) => one.id), await events()]).toEqual([
    [id],
    before,
  ]);
  // Without them it is, beside the server, whose events stay; those of the backup come behind.
  await call(app, 'delete_api_key', { keyId: id });
  await app.keys('block', 'mallory');
  const asked = await keysCommand(sqld.env, ['restore', file]);
  expect(asked).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Replace the keys that are there (0) by those of the backup (3)'),
  });
  expect((await keysCommand(sqld.env, ['restore', file, '--yes'])).code).toBe(0);
  expect((await events()).map(({ kind }) => kind)).toEqual([
    'created',
    'deleted',
    'blocked',
    'created',
    'created',
    'created',
    'restored',
  ]);
  expect(await app.keys('block')).toContain('mallory');
  app.clock.advance(LATER_MS);
  expect(await use(app, key)).toBe(401);
  expect((await keysCommand(sqld.env, ['restore', file, '--yes'])).code).toBe(1);
});

test('a bad backup makes no database', async () => {
  const path = join(temporaryFolder(), 'data/keys.db');
  const file = join(import.meta.dir, '../../../package.json');
  const { code, stderr } = await keysCommand(at(path), ['restore', file]);
  expect({ code, stderr, made: existsSync(path) }).toEqual({
    code: 1,
    stderr: expect.stringContaining(`expected a backup, got "${file}"`),
    made: false,
  });
});

test('a database whose keys were all deleted is in use: it asks, names them, and keeps its secrets', async () => {
  const app = await serve();
  const { id, key } = await app.createKey('alice');
  const file = await backup(app);
  await call(app, 'delete_api_key', { keyId: id });
  expect(await use(app, key)).toBe(401);
  await app.close();
  const { code, stderr } = await keys(app, 'restore', file);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`deleted since: ${id} of "alice"`) });
  await executeAt(`file:${fileOf(app)}`, 'UPDATE server_secrets SET value = lower(hex(randomblob(32)))'); // one leaked
  const secrets = await secretsOf(fileOf(app));
  expect((await keys(app, 'restore', file, '--yes')).code).toBe(0);
  expect(await secretsOf(fileOf(app))).toEqual(secrets);
});

test('every secret that has ended since is counted and named, not whole keys alone', async () => {
  const app = await serve();
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
  await app.close();
  const { code, stderr } = await keys(app, 'restore', file);
  expect({ code, before: beforeOf(app) }).toEqual({ code: 2, before: [] });
  expect(stderr).toContain(
    'Replace the keys that are there (5) by those of the backup (5). Created or rotated since, they will be refused: 2. Revoked, deleted or rotated out since, they will work again: 4. Confirm with --yes',
  );
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
  const app = await serve();
  const { key } = await app.createKey('frank');
  await app.keys('block', 'frank');
  await app.keys('block', 'grace');
  const file = await backup(app);
  await app.keys('unblock', 'frank');
  app.clock.advance(LATER_MS);
  expect(await use(app, key)).toBe(200);
  await app.close();
  const asked = await keys(app, 'restore', file);
  expect(asked.stderr).toContain('unblocked since, and blocked again: "frank"\n');
  expect(asked.stderr).not.toContain('grace');
  expect((await keys(app, 'restore', file, '--yes')).code).toBe(0);
  await using again = await serve(app.folder);
  expect(await use(again, key)).toBe(401);
  const events = await eventsIn(again);
  expect(events.map(({ seq, kind, owner }) => [seq, kind, owner])).toEqual([
    [1, 'created', 'frank'],
    [2, 'blocked', 'frank'],
    [3, 'blocked', 'grace'],
    [4, 'unblocked', 'frank'],
    [5, 'restored', null],
  ]);
  expect(events[4]).toMatchObject({ how: 'command', keyId: null, actor: expect.any(String), backupSeq: 3 });
});

test('a backup of another database comes with its events, behind those that are there', async () => {
  await using before = await serve();
  const { key } = await before.createKey('ivan');
  const file = await backup(before);
  const after = await serve();
  await after.createKey('judy');
  await after.close();
  expect((await keys(after, 'restore', file)).code).toBe(2);
  expect((await keys(after, 'restore', file, '--yes')).code).toBe(0);
  await using again = await serve(after.folder);
  expect(await use(again, key)).toBe(200);
  // Both databases had an event 1.
  expect((await eventsIn(again)).map(({ seq, owner, kind }) => [seq, owner, kind])).toEqual([
    [1, 'judy', 'created'],
    [2, 'ivan', 'created'],
    [3, null, 'restored'],
  ]);
  expect((await eventsIn(again))[2]).toMatchObject({ backupSeq: 2 });
});

test('owners who were blocked since stay blocked', async () => {
  const app = await serve();
  const { key } = await app.createKey('heidi');
  const file = await backup(app);
  await app.keys('block', 'heidi', '--yes');
  await app.close();
  expect((await keys(app, 'restore', file, '--yes')).code).toBe(0);
  await using again = await serve(app.folder);
  expect([await use(again, key), await again.keys('block')]).toEqual([401, expect.stringContaining('heidi')]);
});

test('what a killed restore left in the temporary folder is removed by the next one, which says so', async () => {
  const app = await serve();
  await app.createKey('alice');
  const file = await backup(app);
  await app.close();
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
