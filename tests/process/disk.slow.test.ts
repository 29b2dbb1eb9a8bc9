// A disk that is full, read-only or can't sync: 503 for what must be written, all else goes on, and no restart is needed.

import { describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { main as token } from '../../src/commands/token.ts';
import { backupOf } from '../support/backups.ts';
import { builtLibrary, noLibrary } from '../support/c-library.ts';
import { userOn } from '../support/client.ts';
import { databaseOf, openDatabase } from '../support/database-client.ts';
import { failingStart } from '../support/failing-start.ts';
import { fillKeys } from '../support/fill.ts';
import { temporaryFolder } from '../support/folder.ts';
import { inProcess, keysCommand, keysProcess } from '../support/keys-command.ts';
import { createModelUser, seeded } from '../support/model-user.ts';
import { openFiles } from '../support/open-files.ts';
import { logOf, type ServerProcess, startServer } from '../support/server-process.ts';
import { canMount, type SmallDisk, smallDisk } from '../support/small-disk.ts';
import { startSqld } from '../support/sqld.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { transportOf } from '../support/transports.ts';
import { waitFor } from '../support/wait-for.ts';

const mountable = canMount();
if (!mountable) console.warn('disk.slow.test.ts is skipped: mounting a tmpfs takes root');

const FAILED_WRITES = 1000;
/** Failed connections are closed by the garbage collector, so some stand open at any time. */
const OPEN_FILES_MAX = 900;

const METRICS_TOKEN = 'a-token-for-scrapers';

const envOn = (disk: SmallDisk) => ({
  METRICS_TOKEN,
  JWT_SECRET: TEST_SECRET,
  RATE_LIMIT_REQUESTS: '0',
  DATABASE_URL: databaseOf(disk),
});

// biome-ignore lint/suspicious/noExplicitAny: what a server says
const healthOf = async ({ url }: ServerProcess): Promise<any> => (await fetch(`${url}/mcp/health`)).json();

/** The beginnings and ends of outages of writing, as its log tells them. */
const outagesOf = (server: ServerProcess): string[] =>
  server.stdout().match(/database (not writable|writable again)/g) ?? [];

async function writableMetricOf({ url }: ServerProcess): Promise<string | undefined> {
  const headers = { authorization: `Bearer ${METRICS_TOKEN}` };
  return /^mcp_keys_store_writable (\d)$/m.exec(await (await fetch(`${url}/metrics`, { headers })).text())?.[1];
}

/** Alice, who writes much. */
async function aliceOn(server: ServerProcess) {
  const alice = await userOn(server);
  return { ...alice, create: () => alice.create({ name: 'n'.repeat(200) }) };
}

const USERS = 8;
/** More than they write on a fast machine. */
const USERS_KIB = 8 * 1024;
const FULL_ROUNDS = 5;
/** As many as an owner may have. */
const KEYS = 1000;

/** A connection that was opened on the read-only disk is replaced once it has failed; until then a write may be 503. */
async function heals(call: () => Promise<number>): Promise<void> {
  let status = await call();
  while (status === 503) status = await call();
  expect(status).toBe(200);
}

describe.skipIf(!mountable)('a disk', () => {
  test('on a full disk writes are 503 with Retry-After, reads and known keys work, and writes recover with the disk', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await aliceOn(server);
    const kept = [(await alice.create()).body, (await alice.create()).body];
    disk.fill();
    let refused = await alice.create();
    while (refused.status === 200) {
      kept.push(refused.body); // what the log still had room for
      refused = await alice.create();
    }
    const [first, second] = kept;
    for (const response of [
      refused,
      await alice.create(),
      await alice.call('revoke_api_key', { keyId: first.id }),
      await alice.call('delete_api_key', { keyId: first.id }),
    ]) {
      expect(response.status).toBe(503);
      expect(response.body.code).toBe('store_unavailable');
      expect(response.headers.get('retry-after')).toBe('1');
    }
    expect(await alice.use(first.key)).toBe(200);
    expect(await alice.ids()).toEqual(kept.map(({ id }) => id).sort());
    expect(await healthOf(server)).toMatchObject({ status: 'ok', store: { ok: true, writable: false } });
    expect(await writableMetricOf(server)).toBe('0');
    const { code, stdout } = await keysCommand({ ...envOn(disk), PUBLIC_URL: server.url }, ['doctor']);
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: expect.stringMatching(/^bad +database +.*SQLITE_FULL[\s\S]*^bad +server +.*no space/m),
    });

    disk.free();
    await waitFor(async () => (await healthOf(server)).store.writable); // nobody writes, but the server tries
    expect(await writableMetricOf(server)).toBe('1');
    expect((await alice.call('revoke_api_key', { keyId: first.id })).status).toBe(200);
    expect(await alice.use(first.key)).toBe(401);
    kept.push((await alice.create()).body);
    expect((await alice.call('delete_api_key', { keyId: second.id })).status).toBe(200);
    await server.kill();

    await using again = await startServer({ env: envOn(disk) });
    expect(await (await aliceOn(again)).ids()).toEqual(
      kept
        .filter((key) => key !== second)
        .map(({ id }) => id)
        .sort(),
    );
  });

  test('full and free again and again while users work: each response is right or 503, and what was answered stays', async () => {
    using disk = smallDisk(USERS_KIB);
    await using server = await startServer({ env: envOn(disk) });
    const users = await Promise.all(
      Array.from({ length: USERS }, (_, index) =>
        createModelUser(`user ${index}`, transportOf(index, server.url), seeded(index)),
      ),
    );
    let over = false;
    let done = 0;
    let refused = 0;
    const work = users.map(async (user) => {
      while (!over) {
        if (await user.step()) done += 1;
        else refused += 1;
      }
    });
    const more = (count: () => number, by: number) => {
      const before = count();
      return waitFor(() => count() >= before + by);
    };
    for (let round = 0; round < FULL_ROUNDS; round += 1) {
      await more(() => done, 10 * USERS);
      disk.fill();
      await more(() => refused, 2 * USERS);
      disk.free();
    }
    over = true;
    await Promise.all(work);
    await server.kill();
    await using again = await startServer({ env: envOn(disk) });
    await Promise.all(users.map((user, index) => user.moveTo(transportOf(index, again.url), 'crash')));
  });

  test('a disk that gets full in the middle of a group: what was answered is there, what was refused is not', async () => {
    using disk = smallDisk();
    const kept: string[] = [];
    let refused = 0;
    {
      await using server = await startServer({ env: envOn(disk) });
      const alice = await aliceOn(server);
      kept.push((await alice.create()).body.id);
      disk.fill(); // what is left of the last page of the log takes some more
      while (refused === 0) {
        for (const { status, body } of await Promise.all(Array.from({ length: 20 }, alice.create))) {
          expect([200, 503]).toContain(status);
          if (status === 200) kept.push(body.id);
          else refused += 1;
        }
      }
      expect(await alice.ids()).toEqual(kept.toSorted());
      disk.free();
      kept.push((await alice.create()).body.id);
      await server.kill();
    }
    await using again = await startServer({ env: envOn(disk) });
    expect(await (await aliceOn(again)).ids()).toEqual(kept.toSorted());
  });

  test(`full: ${FAILED_WRITES} failed writes leave no heap of open files, and are one outage in the log`, async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await aliceOn(server);
    disk.fill();
    for (let count = 0; count < FAILED_WRITES; count += 1) expect((await alice.create()).status).toBe(503);
    expect(openFiles(server.pid).filter((file) => file.startsWith(disk.folder)).length).toBeLessThan(OPEN_FILES_MAX);
    expect(outagesOf(server)).toEqual(['database not writable']);
    disk.free();
    expect((await alice.create()).status).toBe(200);
    await waitFor(() => outagesOf(server).length > 1);
    expect(outagesOf(server)).toEqual(['database not writable', 'database writable again']);
  });

  test('on a read-only disk writes are 503, reads work, and writes recover with the disk', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await aliceOn(server);
    const { id, key } = (await alice.create()).body;
    disk.fill();
    while ((await alice.create()).status === 200); // after a failure the file is opened anew
    disk.coverReadOnly();
    for (const response of [await alice.create(), await alice.call('revoke_api_key', { keyId: id })]) {
      expect(response.status).toBe(503);
      expect(response.headers.get('retry-after')).toBe('1');
    }
    expect(await alice.ids()).toContain(id);
    expect(await alice.use(key)).toBe(200);

    disk.uncover();
    disk.free();
    await heals(async () => (await alice.call('revoke_api_key', { keyId: id })).status);
    expect(await alice.use(key)).toBe(401);
    expect((await alice.create()).status).toBe(200);
  });

  test('with the disk gone every use of the database is 503, never 500, and recovers with the disk', async () => {
    using disk = smallDisk();
    await using server = await startServer({ env: envOn(disk) });
    const alice = await aliceOn(server);
    const { id } = (await alice.create()).body;
    disk.fill();
    while ((await alice.create()).status === 200); // after a failure the file is opened anew
    disk.coverEmpty();
    const responses = [await alice.create(), await alice.call('list_api_keys', {}), await alice.call('get_data', {})];
    expect(responses.map(({ status }) => status)).toEqual([503, 503, 401]);
    // Health is content with a poll that is younger than the polls' interval.
    while ((await fetch(`${server.url}/mcp/health`)).status !== 503) await Bun.sleep(10);
    disk.uncover();
    disk.free();
    await heals(async () => (await alice.call('revoke_api_key', { keyId: id })).status);
    expect((await fetch(`${server.url}/mcp/health`)).status).toBe(200);
  });

  test.each([
    ['read-only', (disk: SmallDisk) => disk.coverReadOnly()],
    ['full', (disk: SmallDisk) => disk.fill()],
  ])('a start that makes a database on a disk that is %s is refused in one line', async (_, change) => {
    using disk = smallDisk();
    change(disk);
    const { code, stderr } = await failingStart(envOn(disk));
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^mcp-key-server: DATABASE_URL: expected a file that can be written, with its -wal and -shm, in a folder that can be written, but .*\n$/,
    );
  });

  test('a start on a file that is read-only in a folder that is not is refused in one line; commands read it', async () => {
    using disk = smallDisk();
    await (await startServer({ env: envOn(disk) })).stop();
    disk.coverReadOnly('keys.db');
    const { code, stderr } = await failingStart(envOn(disk));
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^mcp-key-server: DATABASE_URL: .* SQLITE_READONLY.*\n$/),
    });
    expect(await keysCommand(envOn(disk), ['list'])).toMatchObject({ code: 0 });
    disk.uncover();
    await using server = await startServer({ env: envOn(disk) });
    expect((await (await aliceOn(server)).create()).status).toBe(200);
  });

  test('on a full disk a server that was killed starts again and takes known keys, and commands read', async () => {
    using disk = smallDisk();
    const first = await startServer({ env: envOn(disk) });
    const alice = await aliceOn(first);
    const { key } = (await alice.create()).body;
    disk.fill();
    while ((await alice.create()).status === 200); // the log had room
    await first.kill();
    await using again = await startServer({ env: envOn(disk) });
    const { use, create } = await aliceOn(again);
    expect([await use(key), (await create()).status]).toEqual([200, 503]);
    expect(await keysCommand(envOn(disk), ['list'])).toMatchObject({ code: 0 });
    disk.free();
    await waitFor(async () => (await healthOf(again)).store.writable);
    expect((await create()).status).toBe(200);
  });

  test('a replica whose disk is full says so, and when it follows again', async () => {
    using disk = smallDisk();
    await using sqld = await startSqld();
    const env = { ...sqld.env, JWT_SECRET: TEST_SECRET, DATABASE_REPLICA_FILE: join(disk.folder, 'replica.db') };
    await using server = await startServer({ env });
    const said = (event: string) => logOf(server).filter((line) => line.event === event);
    await waitFor(() => said('replica opened').length === 1);
    const alice = await aliceOn(server);
    disk.fill();
    while (said('replica not in use').length === 0) await alice.create();
    disk.free();
    await waitFor(() => said('replica opened').length === 2);
    expect(said('replica opened')[1]).toMatchObject({ kept: true });
  });

  test('on a read-only disk nothing is restored, and the line names the file', async () => {
    using disk = smallDisk();
    const backup = await backupOf(1);
    await keysCommand(envOn(disk), ['restore', backup]);
    disk.coverReadOnly();
    const { code, stderr } = await keysCommand(envOn(disk), ['restore', backup, '--yes']);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^keys: .*"[^"]*keys\.db"\n$/) });
  });

  test('a restore for which there is no room leaves all as it was', async () => {
    const backup = await backupOf(3000);
    using small = smallDisk(1024);
    using between = smallDisk(2700); // has room for the log or for the file
    using larger = smallDisk(4096);
    const full = { code: 1, stderr: expect.stringContaining('SQLITE_FULL') };
    const restored = (disk: SmallDisk) => keysCommand(envOn(disk), ['restore', backup, '--yes']);
    small.fill();
    expect(await restored(small)).toMatchObject(full);
    expect(readdirSync(small.folder)).toEqual(['filler']);
    small.free();
    expect(await restored(small)).toMatchObject(full);
    expect(readdirSync(small.folder)).toEqual([]);
    for (const disk of [small, between]) {
      const damaged = join(disk.folder, 'keys.db');
      writeFileSync(damaged, 'damaged');
      expect(await restored(disk)).toMatchObject(full);
      expect(readdirSync(disk.folder)).toEqual(['keys.db']);
      expect(readFileSync(damaged, 'utf8')).toBe('damaged');
    }

    expect(await restored(larger)).toMatchObject({ code: 0 });
    await keysCommand(envOn(larger), ['block', 'owner 1']);
    expect(await restored(larger)).toMatchObject(full);
    expect(readdirSync(larger.folder)).toEqual(['keys.db']);
    expect((await keysCommand(envOn(larger), ['block'])).stdout).toContain('owner 1');
  });

  test('changes of many keys need no room for temporary files but beside the database', async () => {
    using temporary = smallDisk(64);
    temporary.fill();
    const env = { JWT_SECRET: TEST_SECRET, ADMIN_CLAIM: 'sub=root', TMPDIR: temporary.folder };
    await using server = await startServer({ env });
    using db = openDatabase(`file:${join(server.folder, 'data/keys.db')}`);
    await fillKeys(db, KEYS, KEYS + 1);
    const root = await userOn(server, 'root');
    const revoked = await root.call('admin_revoke_keys', { owner: 'owner-0@example.com' });
    expect([revoked.status, revoked.body]).toEqual([200, { revoked: KEYS }]);

    await using sqld = await startSqld();
    await (await startServer({ env: { ...env, ...sqld.env } })).stop();
    using primary = openDatabase(sqld.url);
    await fillKeys(primary, KEYS);
    await using reader = await startServer({ env: { ...env, ...sqld.env, DATABASE_REPLICA_FILE: 'replica.db' } });
    await waitFor(async () => (await healthOf(reader)).store.replica === 'in_use');
  });

  test('a restore without room for its own copy of the backup says where that would be', async () => {
    const backup = await backupOf(3000);
    using temporary = smallDisk(1024);
    using disk = smallDisk();
    const env = { ...envOn(disk), TMPDIR: temporary.folder };
    expect(await keysProcess(env, ['restore', backup, '--yes'])).toMatchObject({
      code: 1,
      stderr: 'keys: expected room for a copy of the backup in the temporary folder, which TMPDIR names (ENOSPC)\n',
    });
    expect([readdirSync(temporary.folder), readdirSync(disk.folder)]).toEqual([[], []]);
  });

  test('on a full disk the development secret that is there is used, and none is made', async () => {
    using disk = smallDisk();
    const mint = (env: { DATABASE_URL: string }) => inProcess(token, env, ['--sub', 'alice']);
    const there = { DATABASE_URL: databaseOf(disk) };
    await mint(there);
    disk.fill();
    expect(await mint(there)).toMatchObject({ code: 0, stderr: '' });
    const none = { DATABASE_URL: `file:${join(disk.folder, 'other/keys.db')}` };
    expect(await mint(none)).toMatchObject({ code: 1, stderr: expect.stringContaining('ENOSPC') });
  });

  test('on a full disk `keys header` says so each time, and leaves no lock', async () => {
    using disk = smallDisk();
    disk.fill();
    const header = () => keysCommand({ XDG_CONFIG_HOME: disk.folder } as object, ['header', 'http://127.0.0.1:1']);
    for (const _ of [1, 2])
      expect(await header()).toMatchObject({ code: 1, stderr: expect.stringContaining('ENOSPC') });
    expect(readdirSync(join(disk.folder, 'mcp-key-server'))).toEqual([]);
  });

  test('a start on a full disk, and a command, say that it is full, also of a database that is there', async () => {
    using disk = smallDisk();
    const first = await startServer({ env: envOn(disk) });
    await first.stop();
    disk.fill();
    const { code, stderr } = await failingStart(envOn(disk));
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^.* but SQLITE_FULL: .*\n$/) });
    const listed = await keysCommand(envOn(disk), ['list']);
    expect(listed).toMatchObject({ code: 1, stderr: expect.stringMatching(/^.* but SQLITE_FULL: .*\n$/) });
    disk.free();
    expect(await keysCommand(envOn(disk), ['list'])).toMatchObject({ code: 0 });
  });
});

const noSyncs = noLibrary();
if (noSyncs !== null) console.warn(`A disk that can't sync is not tested: ${noSyncs}`);

/** Loaded before libc: syncs fail while there is a file FAILS_WHILE. */
const FAILING_SYNCS = `
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int synced(int call, int file) {
  if (access(getenv("FAILS_WHILE"), F_OK) != 0) return (int)syscall(call, file);
  errno = EIO;
  return -1;
}

int fsync(int file) { return synced(SYS_fsync, file); }
int fdatasync(int file) { return synced(SYS_fdatasync, file); }
`;

test.skipIf(noSyncs !== null)("while a disk can't sync, failed writes are one outage in the log", async () => {
  const failing = join(temporaryFolder(), 'failing');
  const env = { JWT_SECRET: TEST_SECRET, LD_PRELOAD: builtLibrary(FAILING_SYNCS), FAILS_WHILE: failing };
  await using server = await startServer({ env });
  const alice = await aliceOn(server);
  const made = [(await alice.create()).body.id];
  writeFileSync(failing, '');
  for (let count = 0; count < 5; count += 1) expect((await alice.create()).status).toBe(503);
  expect((await healthOf(server)).store).toMatchObject({ ok: true, writable: false });
  rmSync(failing);
  made.push((await alice.create()).body.id);
  await waitFor(() => outagesOf(server).length > 1);
  expect(outagesOf(server)).toEqual(['database not writable', 'database writable again']);
  expect(await alice.ids()).toEqual(made.sort());
});
