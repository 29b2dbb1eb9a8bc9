// What is acknowledged is on the disk: the process has waited for it (fsync, fdatasync) before each response. What may be
// lost by a power cut, uses, is not waited for.

import { expect, setDefaultTimeout, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtLibrary, noLibrary } from '../../support/c-library.ts';
import { callOver, userHeaders } from '../../support/client.ts';
import { diskFolder, temporaryFolder } from '../../support/folder.ts';
import { startServer } from '../../support/server-process.ts';
import { TEST_SECRET } from '../../support/test-app.ts';

setDefaultTimeout(180_000); // processes are started, on machines that do other things too

const missing = noLibrary();
if (missing !== null) console.log(`What is synced is not tested: ${missing}`);

/** Loaded before libc: counts fsync and fdatasync. */
const SOURCE = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int64_t *count;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SYNC_COUNT");
  int file = path == NULL ? -1 : open(path, O_RDWR);
  if (file < 0) return;
  void *mapped = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) count = mapped;
}

static int synced(int failed) {
  if (!failed && count != NULL) __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
  return failed;
}

int fsync(int file) { return synced((int)syscall(SYS_fsync, file)); }
int fdatasync(int file) { return synced((int)syscall(SYS_fdatasync, file)); }
`;

/** Counts how often a process has waited for the disk so far, with this environment. */
function countedSyncs() {
  const path = join(temporaryFolder(), 'syncs');
  writeFileSync(path, new Uint8Array(8));
  return {
    env: { LD_PRELOAD: builtLibrary(SOURCE), SYNC_COUNT: path },
    count: () => Number(readFileSync(path).readBigInt64LE()),
  };
}

test.skipIf(missing !== null)('each change of a key is synced before its response, and a use is not', async () => {
  const syncs = countedSyncs();
  await using server = await startServer({ runtime: 'bun', env: { JWT_SECRET: TEST_SECRET, ...syncs.env } });
  const alice = await userHeaders('alice');
  const syncsOf = async (tool: string, input: object, headers: Record<string, string> = alice) => {
    const before = syncs.count();
    const { status, body } = await callOver(server.url, tool, input, headers);
    expect(status).toBe(200);
    return { body, synced: syncs.count() - before };
  };
  const ofUses: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const { body, synced } = await syncsOf('create_api_key', { name: 'n', scopes: ['read'] });
    expect(synced).toBeGreaterThan(0);
    ofUses.push((await syncsOf('get_data', {}, { 'x-api-key': body.key })).synced);
    expect((await syncsOf('rotate_api_key', { keyId: body.id })).synced).toBeGreaterThan(0);
    expect((await syncsOf('revoke_api_key', { keyId: body.id })).synced).toBeGreaterThan(0);
    expect((await syncsOf('delete_api_key', { keyId: body.id })).synced).toBeGreaterThan(0);
  }
  expect(Math.min(...ofUses)).toBe(0); // what is old may be removed meanwhile
});

/** Writes as `argv` says, all at the same moment; prints how often it waited for the disk meanwhile. */
const WRITES = `
import { readFileSync } from 'node:fs';
import { embeddedDatabase } from '${join(import.meta.dir, '../../../src/store/embedded/database.ts')}';
const [path, ...writes] = process.argv.slice(1);
const syncs = () => Number(readFileSync(process.env.SYNC_COUNT).readBigInt64LE());
const db = embeddedDatabase(path);
await db.read({ sql: 'PRAGMA journal_mode = WAL' });
await db.write({ sql: 'CREATE TABLE entries (value INTEGER)' });
const before = syncs();
await Promise.all(writes.map((how) => db.write({ sql: 'INSERT INTO entries VALUES (1)', unsynced: how === 'unsynced' })));
console.log(syncs() - before);
`;

test.skipIf(missing !== null).each([
  ['one that is not synced', ['unsynced'], 0],
  ['one that is', ['synced'], 1],
  ['one that is, behind one that is not', ['unsynced', 'synced'], 1],
  ['one that is, before one that is not', ['synced', 'unsynced'], 1],
])('%s', async (_, writes, expected) => {
  const { env } = countedSyncs();
  const argv = [process.execPath, '-e', WRITES, join(diskFolder(), 'entries.db'), ...writes];
  const written = Bun.spawn(argv, { env, stdout: 'pipe', stderr: 'inherit' });
  expect(Number(await new Response(written.stdout).text())).toBe(expected);
});
