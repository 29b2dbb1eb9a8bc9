// `keys restore` in an emergency: what is beside the file, what ended since, who was unblocked since, and no database yet.

import { expect, test } from 'bun:test';
import { cpSync, existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { backupOf } from '../store/backups.ts';
import { storedSecrets } from '../store/tables.ts';
import { callOver, userHeaders } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { rows } from '../support/everything.ts';
import { temporaryFolder } from '../support/folder.ts';
import { keysCommand, keysProcess, startKeys } from '../support/keys-command.ts';
import { type ServerProcess, startServer } from '../support/server-process.ts';
import { startSqld } from '../support/sqld.ts';
import { startStore } from '../support/store-mode.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { waitFor } from '../support/wait-for.ts';

const ENV = { JWT_SECRET: TEST_SECRET };
const fileOf = ({ folder }: ServerProcess) => join(folder, 'data/keys.db');
const at = (path: string) => ({ ...ENV, DATABASE_URL: `file:${path}` });
const use = async ({ url }: ServerProcess, key: string) =>
  (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status;
const call = async ({ url }: ServerProcess, tool: string, input: object, owner = 'alice') =>
  (await callOver(url, tool, input, await userHeaders(owner))).body;
const create = (server: ServerProcess, owner = 'alice') =>
  call(server, 'create_api_key', { name: 'n', scopes: ['read'] }, owner);

const secretsOf = (place: string) => storedSecrets(place.startsWith('http') ? place : `file:${place}`);

/** A server on a database that a restore makes of `file`, at a path where there is none. */
async function restoredFrom(file: string, path = join(temporaryFolder(), 'data/keys.db')): Promise<ServerProcess> {
  const { code, stderr } = await keysCommand(at(path), ['restore', file]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(`there was no database at ${path}`) });
  return startServer({ env: at(path) });
}

test('of a file of a server that was killed, what is in the log beside it counts: a revocation, a creation', async () => {
  const server = await startServer({ env: ENV });
  const [revoked, kept] = [await create(server), await create(server)];
  await call(server, 'revoke_api_key', { keyId: revoked.id });
  await server.kill();
  const copied = join(temporaryFolder(), 'copied');
  cpSync(join(server.folder, 'data'), copied, { recursive: true });
  expect(statSync(join(copied, 'keys.db-wal')).size).toBeGreaterThan(0);
  const names = readdirSync(copied).sort();
  await using restored = await restoredFrom(join(copied, 'keys.db'));
  expect([await use(restored, revoked.key), await use(restored, kept.key)]).toEqual([401, 200]);
  expect(readdirSync(copied).sort()).toEqual(names); // and the copy is as it was
});

test('onto a machine without a database it makes one, for its owner alone, and does not ask', async () => {
  const server = await startServer({ env: ENV });
  const { key } = await create(server);
  const backup = join(temporaryFolder(), 'backup.db');
  await keysCommand(at(fileOf(server)), ['backup', backup]);
  await server.stop();
  const path = join(temporaryFolder(), 'data/keys.db');
  await using restored = await restoredFrom(backup, path);
  expect(await use(restored, key)).toBe(200);
  expect(await secretsOf(path)).toEqual(await secretsOf(backup)); // what OAuth clients were registered with
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test('over a database in use, beside a server, it leaves a file that is no larger than before', async () => {
  const backup = await backupOf(5000);
  const file = join(temporaryFolder(), 'data/keys.db');
  await using restored = await restoredFrom(backup, file);
  const { key } = await create(restored);
  const before = statSync(file).size;
  for (let time = 0; time < 2; time += 1) {
    expect((await keysCommand(at(file), ['restore', backup, '--yes'])).code).toBe(0);
    const client = openDatabase(`file:${file}`);
    await client.execute('PRAGMA wal_checkpoint(PASSIVE)');
    expect((await client.execute('PRAGMA integrity_check')).rows).toEqual([{ integrity_check: 'ok' }]);
    client.close();
    expect(statSync(file).size).toBeLessThanOrEqual(before * 1.05);
  }
  await waitFor(async () => (await use(restored, key)) === 401); // it was made after the backup
});

test('a remote database that is empty is made as well', async () => {
  const server = await startServer({ env: ENV });
  const { key } = await create(server);
  const backup = join(temporaryFolder(), 'backup.db');
  await keysCommand(at(fileOf(server)), ['backup', backup]);
  await server.stop();
  await using sqld = await startSqld();
  expect(await keysCommand(sqld.env, ['restore', backup])).toMatchObject({ code: 0 });
  await using remote = await startServer({ env: { ...ENV, ...sqld.env } });
  expect(await use(remote, key)).toBe(200);
  expect(await secretsOf(sqld.url)).toEqual(await secretsOf(backup));
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
  await using server = await startServer({ env: ENV });
  const { id, key } = await create(server);
  const backup = join(temporaryFolder(), 'backup.db');
  await keysCommand(at(fileOf(server)), ['backup', backup]);
  await call(server, 'delete_api_key', { keyId: id });
  const { code, stderr } = await keysCommand(at(fileOf(server)), ['restore', backup]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`deleted since: ${id} of "alice"`) });
  expect(await use(server, key)).toBe(401);
  const client = openDatabase(`file:${fileOf(server)}`);
  await client.execute('UPDATE server_secrets SET value = lower(hex(randomblob(32)))'); // one leaked
  client.close();
  const secrets = await secretsOf(fileOf(server));
  expect((await keysCommand(at(fileOf(server)), ['restore', backup, '--yes'])).code).toBe(0);
  expect(await secretsOf(fileOf(server))).toEqual(secrets);
});

test('every secret that has ended since is counted and named, not whole keys alone', async () => {
  await using server = await startServer({ env: ENV });
  const [revoked, deleted, leaked, rotated, untouched] = await Promise.all(
    Array.from({ length: 5 }, () => create(server)),
  );
  // Two secrets: the previous one ends alone after the backup, by whoever found it.
  const second = await call(server, 'rotate_api_key', { keyId: leaked.id });
  expect(await use(server, second.key)).toBe(200);
  const backup = join(temporaryFolder(), 'backup.db');
  await keysCommand(at(fileOf(server)), ['backup', backup]);
  await call(server, 'revoke_api_key', { keyId: revoked.id });
  await call(server, 'delete_api_key', { keyId: deleted.id });
  const form = new URLSearchParams({ token: leaked.key });
  expect((await fetch(`${server.url}/revoke`, { method: 'POST', body: form })).status).toBe(200);
  await call(server, 'rotate_api_key', { keyId: rotated.id, overlapHours: 0 });
  await create(server);
  const { code, stderr } = await keysCommand(at(fileOf(server)), ['restore', backup]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('they will work again: 4.') });
  expect(stderr).toContain('Created or rotated since, they will be refused: 2.');
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
  expect(stderr).not.toContain(second.id === leaked.id ? fingerprint(second.key) : '');
});

test('owners who were unblocked since are named, are blocked again, and an event says what was put back', async () => {
  await using server = await startServer({ env: { ...ENV, REVOCATION_LAG_MAX_MS: '1000' } });
  const { key } = await create(server, 'frank');
  const keys = (...args: string[]) => keysCommand(at(fileOf(server)), args);
  await keys('block', 'frank');
  await keys('block', 'grace');
  const backup = join(temporaryFolder(), 'backup.db');
  await keys('backup', backup);
  await keys('unblock', 'frank');
  await waitFor(async () => (await use(server, key)) === 200);
  const asked = await keys('restore', backup);
  expect(asked.stderr).toContain('unblocked since, and blocked again: "frank"\n');
  expect(asked.stderr).not.toContain('grace');
  expect((await keys('restore', backup, '--yes')).code).toBe(0);
  await waitFor(async () => (await use(server, key)) === 401);
  const events = (await keys('events', '--json')).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events.map(({ seq, kind, owner }) => [seq, kind, owner])).toEqual([
    [1, 'created', 'frank'],
    [2, 'blocked', 'frank'],
    [3, 'blocked', 'grace'],
    [4, 'unblocked', 'frank'],
    [5, 'restored', null],
  ]);
  expect(events[4]).toMatchObject({ how: 'command', keyId: null, actor: null, backupSeq: 3 });
});

test.each(rows(['embedded', 'remote'] as const, 1))('owners who were blocked since stay blocked (%s)', async (mode) => {
  await using store = await startStore(mode);
  const env = { ...ENV, REVOCATION_LAG_MAX_MS: '1000', ...store.env() };
  await using server = await startServer({ env });
  const { key } = await create(server, 'heidi');
  const keys = (...args: string[]) => keysCommand(env, args);
  const backup = join(temporaryFolder(), 'backup.db');
  expect((await keys('backup', backup)).code).toBe(0);
  await keys('block', 'heidi', '--yes');
  await waitFor(async () => (await use(server, key)) === 401);
  expect((await keys('restore', backup, '--yes')).code).toBe(0);
  expect((await keys('block')).stdout).toContain('heidi');
  await using next = await startServer({ env }); // which knows nothing of before
  expect(await use(next, key)).toBe(401);
  await waitFor(async () => (await use(server, key)) === 401);
});

test('what a killed restore left in the temporary folder is removed by the next one, which says so', async () => {
  const server = await startServer({ env: ENV });
  await create(server);
  await server.stop();
  const backup = join(temporaryFolder(), 'backup.db');
  await keysCommand(at(fileOf(server)), ['backup', backup]);
  const temporary = temporaryFolder();
  const left = () => readdirSync(temporary).filter((name) => name.startsWith('keys-'));
  await using sqld = await startSqld();
  sqld.freeze(); // so that it waits, with the copy made
  const command = startKeys(sqld.env, ['restore', backup, '--yes'], temporary);
  await waitFor(() => left().length > 0);
  const running = left();
  const beside = await keysProcess({ ...at(fileOf(server)), TMPDIR: temporary }, ['restore', backup, '--yes']);
  expect(beside.code).toBe(0);
  expect(left()).toEqual(running); // of a command that runs
  command.kill('SIGKILL');
  await command.exited;
  const next = await keysProcess({ ...at(fileOf(server)), TMPDIR: temporary }, ['restore', backup, '--yes']);
  expect(next.stderr).toContain(
    `removed what a command that was killed had left: ${join(temporary, running[0] ?? '')}`,
  );
  expect(left()).toEqual([]);
});

test('where a database was removed under a running server, restore says that it starts anew, and doctor that it is away', async () => {
  await using server = await startServer({ env: ENV });
  const backup = join(temporaryFolder(), 'backup.db');
  const keys = (...args: string[]) => keysCommand({ ...at(fileOf(server)), PUBLIC_URL: server.url }, args);
  await keys('backup', backup);
  for (const part of ['', '-wal', '-shm']) rmSync(`${fileOf(server)}${part}`);
  const restored = await keys('restore', backup);
  expect(restored).toMatchObject({ code: 0, stderr: expect.stringContaining('it is made; start servers anew') });
  await waitFor(async () => (await fetch(`${server.url}/mcp/health`)).status === 503);
  expect((await keys('doctor')).stdout).toMatch(/^ok +database .*\n(.*\n)*bad +server +unavailable at /m);
});
