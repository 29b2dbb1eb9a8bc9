// The write-ahead log (-wal, -shm) removed or replaced beside running servers: nothing is acknowledged and lost, no
// revocation goes unseen, the file stays whole, and the next start has everything.

import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import { copyFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { callOver, userHeaders } from '../../support/client.ts';
import { temporaryFolder } from '../../support/folder.ts';
import { type ServerProcess, startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

const env = { JWT_SECRET: TEST_SECRET, RATE_LIMIT_REQUESTS: '0' };
const BOUND_MS = 1000;
const SAVED = 'What it held is in the file';
const UNSAVED = 'What it held may be lost';

const fileOf = ({ folder }: { folder: string }) => join(folder, 'data/keys.db');

function removeLog(file: string): void {
  rmSync(`${file}-wal`);
  rmSync(`${file}-shm`);
}

/** Alice on one of the servers. */
async function aliceOn({ url }: ServerProcess) {
  const headers = await userHeaders('alice');
  const call = (tool: string, input: object) => callOver(url, tool, input, headers);
  return {
    create: () => call('create_api_key', { name: 'n', scopes: ['read'] }),
    revoke: async (keyId: string) => (await call('revoke_api_key', { keyId })).status,
    use: async (key: string) => (await callOver(url, 'get_data', {}, { 'x-api-key': key })).status,
    listed: async (): Promise<string[]> =>
      (await call('list_api_keys', {})).body.keys.map(({ id }: { id: string }) => id).sort(),
  };
}

/** Asks with a key until it is refused, and says how long after `sinceMs` the last success was asked for. */
async function lastSuccessMs(use: () => Promise<number>, sinceMs: number): Promise<number> {
  let lastMs = 0;
  while (lastMs < 2 * BOUND_MS) {
    const askedMs = performance.now();
    const status = await use();
    if (status !== 200) {
      expect(status).toBe(503);
      break;
    }
    lastMs = askedMs - sinceMs;
  }
  return lastMs;
}

/** A database that has keys in the file itself, not only in its log. */
async function usedFolder(): Promise<string> {
  const folder = temporaryFolder();
  await using server = await startServer({ env, folder });
  expect((await (await aliceOn(server)).create()).status).toBe(200);
  expect(await server.stop()).toBe(0);
  return folder;
}

describe('removed', () => {
  test('both servers refuse and say why, and after a restart everything acknowledged is there', async () => {
    const folder = temporaryFolder();
    await using first = await startServer({ env, folder });
    await using second = await startServer({ env, folder });
    const [alice, there] = [await aliceOn(first), await aliceOn(second)];
    const kept = (await alice.create()).body;
    const revoked = (await there.create()).body;
    expect(await alice.revoke(revoked.id)).toBe(200);
    expect(await alice.use(kept.key)).toBe(200);
    removeLog(fileOf(first));
    const removedMs = performance.now();
    expect((await alice.create()).body).toMatchObject({ status: 503, code: 'store_unavailable' });
    expect(await lastSuccessMs(() => alice.use(kept.key), removedMs)).toBeLessThan(BOUND_MS);
    for (const server of [first, second]) expect((await fetch(`${server.url}/mcp/health`)).status).toBe(503);
    expect((await there.create()).status).toBe(503);
    for (const server of [first, second]) {
      expect(await server.stop()).toBe(0);
      expect(server.stdout()).toContain('(-wal, -shm) was removed or replaced; start the server anew');
      expect(server.stdout()).toContain(SAVED);
    }
    await using again = await startServer({ env, folder });
    const back = await aliceOn(again);
    expect(await back.listed()).toEqual([kept.id, revoked.id].sort());
    expect(await back.use(kept.key)).toBe(200);
    expect(await back.use(revoked.key)).toBe(401);
  });

  test('when the log is removed, work of another process before that is noticed stays, and its revocations are not missed', async () => {
    const folder = await usedFolder();
    await using frozen = await startServer({ env, folder });
    const alice = await aliceOn(frozen);
    const { id, key } = (await alice.create()).body; // in the log only
    expect(await alice.use(key)).toBe(200);
    frozen.signal('SIGSTOP');
    removeLog(fileOf(frozen));
    await using other = await startServer({ env, folder });
    const there = await aliceOn(other);
    const made = await there.listed();
    expect(made).not.toContain(id);
    for (let count = 0; count < 200; count += 1) made.push((await there.create()).body.id);
    frozen.signal('SIGCONT');
    expect(await lastSuccessMs(() => alice.use(key), performance.now())).toBeLessThan(BOUND_MS);
    expect((await alice.create()).status).toBe(503);
    expect(await frozen.stop()).toBe(0);
    expect(frozen.stdout()).toContain(UNSAVED);
    made.push((await there.create()).body.id);
    expect(await there.listed()).toEqual(made.sort());
    expect(await other.stop()).toBe(0);
    using file = new Database(fileOf(frozen), { readonly: true });
    expect(file.query('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    expect(file.query('SELECT id FROM api_keys ORDER BY id').values().flat()).toEqual(made);
  }, 60_000);

  test('a log that is removed just before the server stops is saved', async () => {
    const folder = await usedFolder();
    await using server = await startServer({ env, folder });
    const alice = await aliceOn(server);
    const { key } = (await alice.create()).body;
    server.signal('SIGSTOP');
    removeLog(fileOf(server));
    server.signal('SIGTERM');
    server.signal('SIGCONT');
    expect(await server.exited).toBe(0);
    await using again = await startServer({ env, folder });
    expect(await (await aliceOn(again)).use(key)).toBe(200);
  });

  test.each([
    ['-wal', '-shm'],
    ['-shm', '-wal'],
  ])('%s first: what the log holds is saved as soon as one is missed', async (one, other) => {
    const folder = await usedFolder();
    await using server = await startServer({ env, folder });
    const alice = await aliceOn(server);
    const { id } = (await alice.create()).body;
    rmSync(fileOf(server) + one);
    expect((await alice.create()).status).toBe(503);
    rmSync(fileOf(server) + other);
    expect(await server.stop()).toBe(0);
    expect(server.stdout()).toContain(SAVED);
    await using again = await startServer({ env, folder });
    expect(await (await aliceOn(again)).listed()).toContain(id);
  });
});

describe('one of its files', () => {
  const changes: Record<string, (file: string) => void> = {
    '-wal replaced by a copy': (file) => replaceByCopy(`${file}-wal`),
    '-shm replaced by a copy': (file) => replaceByCopy(`${file}-shm`),
  };
  test.each(Object.entries(changes))(
    '%s: no statement runs, and the next start has what was there',
    async (_, change) => {
      const folder = await usedFolder();
      await using server = await startServer({ env, folder });
      const alice = await aliceOn(server);
      const { id } = (await alice.create()).body;
      change(fileOf(server));
      expect((await alice.create()).status).toBe(503);
      expect(await server.stop()).toBe(0);
      await using again = await startServer({ env, folder });
      const back = await aliceOn(again);
      expect(await back.listed()).toContain(id);
      expect((await back.create()).status).toBe(200);
    },
  );
});

function replaceByCopy(file: string): void {
  copyFileSync(file, `${file}-copy`);
  renameSync(`${file}-copy`, file);
}

test('moved away and back: no statement runs until a restart, for somebody may have made another meanwhile', async () => {
  await using server = await startServer({ env });
  const alice = await aliceOn(server);
  const wal = `${fileOf(server)}-wal`;
  renameSync(wal, `${wal}-away`);
  expect((await alice.create()).status).toBe(503);
  renameSync(`${wal}-away`, wal);
  expect((await alice.create()).status).toBe(503);
});
