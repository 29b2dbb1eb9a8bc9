// The write-ahead log (-wal, -shm) removed, replaced or cut beside running servers: nothing more is acknowledged, no revocation
// goes unseen, the file stays whole, and the servers' log says what happened.

import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import { copyFileSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { userOn } from '../support/client.ts';
import { temporaryFolder } from '../support/folder.ts';
import { startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';
import { refusedWithin } from '../support/wait-for.ts';

const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' };
const BOUND_MS = 1000;
const REASON = '(-wal, -shm) was removed, replaced or cut; start the server anew. What it held may be lost';

const fileOf = ({ folder }: { folder: string }) => join(folder, 'data/keys.db');

function removeLog(file: string): void {
  rmSync(`${file}-wal`);
  rmSync(`${file}-shm`);
}

/** A database that has keys in the file itself, not only in its log. */
async function usedFolder(): Promise<string> {
  const folder = temporaryFolder();
  await using server = await startServer({ env, folder });
  expect((await (await userOn(server)).create()).status).toBe(200);
  expect(await server.stop()).toBe(0);
  return folder;
}

describe('removed', () => {
  test('both servers refuse and say why, also when they stop, and the next start has what was in the file', async () => {
    const folder = await usedFolder();
    await using first = await startServer({ env, folder });
    await using second = await startServer({ env, folder });
    const [alice, there] = [await userOn(first), await userOn(second)];
    const before = await alice.ids();
    const { key } = (await alice.create()).body;
    expect(await alice.use(key)).toBe(200);
    removeLog(fileOf(first));
    const removedMs = performance.now();
    expect((await alice.create()).body).toMatchObject({ status: 503, code: 'store_unavailable' });
    await refusedWithin(BOUND_MS, () => alice.use(key), { status: 503, sinceMs: removedMs });
    for (const server of [first, second]) expect((await fetch(`${server.url}/mcp/health`)).status).toBe(503);
    expect((await there.create()).status).toBe(503);
    for (const server of [first, second]) {
      expect(await server.stop()).toBe(0);
      expect(server.stdout()).toContain(REASON);
    }
    await using again = await startServer({ env, folder });
    expect(await (await userOn(again)).ids()).toEqual(before);
  });

  test('when the log is removed, work of another process before that is noticed stays, and its revocations are not missed', async () => {
    const folder = await usedFolder();
    await using frozen = await startServer({ env, folder });
    const alice = await userOn(frozen);
    const { id, key } = (await alice.create()).body; // in the log only
    expect(await alice.use(key)).toBe(200);
    frozen.signal('SIGSTOP');
    removeLog(fileOf(frozen));
    await using other = await startServer({ env, folder });
    const there = await userOn(other);
    const made = await there.ids();
    expect(made).not.toContain(id);
    for (let count = 0; count < 200; count += 1) made.push((await there.create()).body.id);
    frozen.signal('SIGCONT');
    await refusedWithin(BOUND_MS, () => alice.use(key), { status: 503 });
    expect((await alice.create()).status).toBe(503);
    expect(await frozen.stop()).toBe(0);
    expect(frozen.stdout()).toContain(REASON);
    made.push((await there.create()).body.id);
    expect(await there.ids()).toEqual(made.sort());
    expect(await other.stop()).toBe(0);
    using file = new Database(fileOf(frozen), { readonly: true });
    expect(file.query('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    expect(file.query('SELECT id FROM api_keys ORDER BY id').values().flat()).toEqual(made);
  }, 180_000);
});

describe('one of its files', () => {
  const changes: readonly (readonly [what: string, change: (file: string) => void, kept: boolean])[] = [
    ['-wal replaced by a copy', (file) => replaceByCopy(`${file}-wal`), true],
    ['-shm replaced by a copy', (file) => replaceByCopy(`${file}-shm`), true],
    ['-shm removed', (file) => rmSync(`${file}-shm`), true],
    ['-wal removed', (file) => rmSync(`${file}-wal`), false],
    ['-wal emptied', (file) => truncateSync(`${file}-wal`), false],
  ];
  test.each(changes)('%s: no statement runs, and the next start has what is there', async (_, change, kept) => {
    const folder = await usedFolder();
    await using server = await startServer({ env, folder });
    const alice = await userOn(server);
    const { id } = (await alice.create()).body;
    change(fileOf(server));
    expect((await alice.create()).status).toBe(503);
    expect(await server.stop()).toBe(0);
    await using again = await startServer({ env, folder });
    const back = await userOn(again);
    expect((await back.ids()).includes(id)).toBe(kept);
    expect((await back.create()).status).toBe(200);
  });
});

function replaceByCopy(file: string): void {
  copyFileSync(file, `${file}-copy`);
  renameSync(`${file}-copy`, file);
}

test('a log that a checkpoint has emptied is none that was cut', async () => {
  await using server = await startServer({ env });
  const alice = await userOn(server);
  const made = [(await alice.create()).body.id];
  using shell = new Database(fileOf(server));
  expect(shell.query('PRAGMA wal_checkpoint(TRUNCATE)').get()).toEqual({ busy: 0, log: 0, checkpointed: 0 });
  expect(statSync(`${fileOf(server)}-wal`).size).toBe(0);
  for (let count = 0; count < 2; count += 1) made.push((await alice.create()).body.id);
  expect(await alice.ids()).toEqual(made.sort());
});

test('moved away and back: no statement runs until a restart, for somebody may have made another meanwhile', async () => {
  await using server = await startServer({ env });
  const alice = await userOn(server);
  const wal = `${fileOf(server)}-wal`;
  renameSync(wal, `${wal}-away`);
  expect((await alice.create()).status).toBe(503);
  renameSync(`${wal}-away`, wal);
  expect((await alice.create()).status).toBe(503);
});
