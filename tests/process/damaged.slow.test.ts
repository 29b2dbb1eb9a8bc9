// A damaged database file: the start is refused, says what to do, and changes no byte. In a large file, which is not
// read whole, damage that every call would meet is found at the start, other damage by the call that meets it.

import { beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { backupOf } from '../support/backups.ts';
import { callOver, userOn } from '../support/client.ts';
import { openDatabase } from '../support/database-client.ts';
import { folderWith } from '../support/folder.ts';
import { keysCommand } from '../support/keys-command.ts';
import { runToExit, startServer } from '../support/server-process.ts';
import { TEST_SECRET } from '../support/test-app.ts';

const env = { JWT_SECRET: TEST_SECRET };
const PAGE_BYTES = 4096;
const ROWS = 5000;
/** More than 64 MiB, with names of 4,000 characters. */
const LARGE_KEYS = 20_000;

/** A database with many keys, all of it in the one file. */
async function makeDatabase(): Promise<Buffer> {
  const server = await startServer({ env });
  await server.stop();
  return written(
    server.folder,
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), 'user ' || i % 100, 'n', lower(hex(randomblob(32))), '["read"]', 1, i FROM n`,
  );
}

/** The file after `statement`, with nothing left beside it. */
async function written(folder: string, statement: string): Promise<Buffer> {
  const file = join(folder, 'data/keys.db');
  using db = openDatabase(`file:${file}`);
  await db.execute(statement);
  await db.execute('PRAGMA wal_checkpoint(TRUNCATE)');
  return readFileSync(file);
}

const whole = await makeDatabase();
const pages = Math.floor(whole.length / PAGE_BYTES);
const overwrite = (file: Buffer, page: number, byte: number) =>
  file.fill(byte, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);

type Damage = readonly [string, (file: Buffer) => Buffer];

/** Every call meets it. */
const FATAL: readonly Damage[] = [
  ['its header is gone', (file) => file.fill(0, 0, 100)],
  ['its list of tables is garbage', (file) => file.fill(0xff, 120, PAGE_BYTES)],
  ['its second half is gone', (file) => file.subarray(0, Math.floor(pages / 2) * PAGE_BYTES)],
  ['the first page of the keys is garbage', (file) => overwrite(file, 2, 0xa5)],
];
const IN_ONE_PLACE: readonly Damage[] = [
  ['its last page is cut off', (file) => file.subarray(0, file.length - 1000)],
  ['one page in its middle is garbage', (file) => overwrite(file, Math.floor(pages / 2), 0xa5)],
  ['one page in its middle is zero', (file) => overwrite(file, Math.floor(pages / 2) + 1, 0)],
];

/** Starts on `folder`, whose database is damaged, and expects the one line and untouched files. */
async function expectRefusal(folder: string): Promise<void> {
  const data = join(folder, 'data');
  const before = new Map(readdirSync(data).map((name) => [name, readFileSync(join(data, name))]));
  const { code, stderr } = await runToExit({ env, folder });
  expect(code).toBe(1);
  expect(stderr).toBe(
    'mcp-key-server: DATABASE_URL: the file is damaged or no database; nothing was changed. Restore it from a backup, or move it away to start empty\n',
  );
  for (const [name, bytes] of before) {
    if (name.endsWith('-shm')) continue; // the index of the log, rebuilt by every process
    expect(readFileSync(join(data, name)).equals(bytes), name).toBe(true);
  }
}

const folderOf = (file: Buffer) => folderWith({ 'data/keys.db': file });

test.each([...FATAL, ...IN_ONE_PLACE])('a file is refused when %s', (_, damage) =>
  expectRefusal(folderOf(damage(Buffer.from(whole)))),
);

test('a write-ahead log left by a crash stays as it is beside a damaged file', async () => {
  const folder = folderOf(whole);
  const file = join(folder, 'data/keys.db');
  const server = await startServer({ env, folder });
  await (await userOn(server)).create({ name: 'in the log' });
  await server.kill();
  expect(readFileSync(`${file}-wal`).length).toBeGreaterThan(0);
  const damaged = readFileSync(file);
  for (let page = 2; page < pages; page += 1) overwrite(damaged, page, 0xa5); // more than the log holds copies of
  writeFileSync(file, damaged);
  await expectRefusal(folder);
});

describe('a file too large to be read whole', () => {
  /** 64 MiB are read whole. */
  const LARGE_MB = 70;

  /** A database with the keys `lost` and `safe`, the rest of a large file between them. */
  async function makeLarge() {
    const folder = folderOf(whole);
    const createKey = async (name: string): Promise<string> => {
      await using server = await startServer({ env, folder });
      return (await (await userOn(server)).create({ name })).body.key;
    };
    const lost = await createKey('the key that is lost');
    await written(
      folder,
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${LARGE_MB})
INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
SELECT lower(hex(randomblob(16))), 'filler', hex(zeroblob(500000)), lower(hex(randomblob(32))), '[]', 1, i FROM n`,
    );
    const safe = await createKey('the key that is safe');
    return { bytes: await written(folder, 'SELECT 1'), lost, safe };
  }

  let large: Awaited<ReturnType<typeof makeLarge>>;
  beforeAll(async () => {
    large = await makeLarge();
  }, 180_000);

  test.each(FATAL)('is refused when %s', (_, damage) => expectRefusal(folderOf(damage(Buffer.from(large.bytes)))));

  test('responds 503 to what meets the damage, says so in the log, and serves the rest', async () => {
    const { bytes, lost, safe } = large;
    const damaged = overwrite(Buffer.from(bytes), Math.floor(bytes.indexOf('the key that is lost') / PAGE_BYTES), 0xa5);
    await using server = await startServer({ env, folder: folderOf(damaged) });
    const use = (key: string) => callOver(server.url, 'get_data', {}, { 'x-api-key': key });
    expect((await use(lost)).body).toMatchObject({ status: 503, code: 'store_unavailable' });
    expect((await use(safe)).status).toBe(200);
    expect(await server.stop()).toBe(0);
    expect(server.stdout()).toContain('the database file is damaged; restore it from a backup');
  });
});

test('a large file that is damaged where a start does not look is restored', async () => {
  const backup = await backupOf(LARGE_KEYS, 4000);
  const path = join(dirname(backup), 'keys.db');
  const file = readFileSync(path);
  expect(file.length).toBeGreaterThan(64 * 2 ** 20);
  const from = Math.floor(file.length / 2);
  writeFileSync(path, file.fill(0xa5, from, from + 100 * PAGE_BYTES));
  const { code, stderr } = await keysCommand({ DATABASE_URL: `file:${path}` }, ['restore', backup, '--yes']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(`keys restored: ${LARGE_KEYS}`) });
});
