// A file that several processes write, that other programs open, and that leaves its place.

import { describe, expect, test } from 'bun:test';
import { copyFileSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { databaseOf, executeAt, openDatabase } from '../../support/database-client.ts';
import { diskFolder } from '../../support/folder.ts';
import { openFiles } from '../../support/open-files.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const WRITER = join(import.meta.dir, 'file-writer.ts');

/** Rows that each process is told are written. */
const ROWS = 60;

/** Has three processes write one file at once, and counts what they were told is written and what is. */
async function threeWriters(): Promise<{ acknowledged: number; missing: number }> {
  const file = join(diskFolder(), 'rows.db');
  await executeAt(`file:${file}`, 'CREATE TABLE written (id TEXT PRIMARY KEY)');
  await executeAt(`file:${file}`, 'PRAGMA journal_mode = WAL');
  const writers = Array.from({ length: 3 }, () =>
    Bun.spawn([process.execPath, WRITER, file, String(ROWS)], { stdin: 'pipe', stdout: 'pipe' }),
  );
  const said = writers.map(() => '');
  const ended = writers.map(async ({ stdout }, writer) => {
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) said[writer] += text;
  });
  await waitFor(() => said.every((text) => text.startsWith('ready\n')));
  for (const { stdin } of writers) stdin.end();
  await Promise.all(ended);
  const told = said.flatMap((text) => JSON.parse(text.slice('ready\n'.length)) as string[]);
  const written = new Set((await executeAt(`file:${file}`, 'SELECT id FROM written')).map(({ id }) => id));
  return { acknowledged: told.length, missing: told.filter((id) => !written.has(id)).length };
}

test('three processes that write one file lose nothing that was acknowledged', async () => {
  const { acknowledged, missing } = await threeWriters();
  expect(acknowledged).toBeGreaterThanOrEqual(3 * ROWS);
  expect(missing).toBe(0);
}, 180_000);

test.each(['C#', 'what?', '100%', 'a b'])('a path may hold "%s", also at its end', async (name) => {
  const folder = join(diskFolder(), name);
  const file = join(folder, name);
  await using app = await createTestApp({ env: { DATABASE_URL: `file:${encodeURIComponent(file)}` } });
  const { key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  expect(readdirSync(folder).sort()).toEqual([name, `${name}-shm`, `${name}-wal`]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

describe('a file that is not in its place any more: nothing is acknowledged, no key accepted, and it heals when it is back', () => {
  const leave: Record<string, (file: string) => void> = {
    'moved away': () => {},
    'replaced by a copy': (file) => copyFileSync(`${file}-before`, file),
  };
  test.each(Object.entries(leave))('%s', async (_, replace) => {
    await using app = await createTestApp({ store: 'embedded' });
    const { key } = await app.createKey('alice');
    const alice = await bearer(app, 'alice');
    const create = async () => (await app.call('create_api_key', { name: 'k', scopes: [] }, alice)).status;
    const seen = async () => {
      app.clock.advance(1001);
      return [await create(), (await app.useKey(key)).status, (await fetch(`${app.url}/mcp/health`)).status];
    };
    expect(await seen()).toEqual([200, 200, 200]);
    const file = join(app.folder, 'keys.db');
    renameSync(file, `${file}-before`);
    replace(file);
    expect(await seen()).toEqual([503, 503, 503]);
    rmSync(file, { force: true });
    renameSync(`${file}-before`, file);
    expect(await seen()).toEqual([200, 200, 200]);
  });
});

test('after a statement that failed the same connection goes on', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const alice = await bearer(app, 'alice');
  const create = async () => (await app.call('create_api_key', { name: 'k', scopes: [] }, alice)).status;
  expect(await create()).toBe(200);
  const files = () => openFiles(process.pid).filter((file) => file.startsWith(app.folder)).length;
  using other = openDatabase(databaseOf(app));
  await other.execute('ALTER TABLE api_keys RENAME TO hidden');
  const before = files();
  for (let round = 0; round < 20; round += 1) expect(await create()).toBe(503);
  expect(files()).toBe(before);
  await other.execute('ALTER TABLE hidden RENAME TO api_keys');
  expect(await create()).toBe(200);
  expect((await fetch(`${app.url}/mcp/health`)).status).toBe(200);
});

test('the client of libSQL opens the file, also while a server has it open, and what it writes counts', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const { id, key } = await app.createKey('alice');
  expect((await app.useKey(key)).status).toBe(200);
  const url = databaseOf(app);
  // In a process of its own: two copies of SQLite in one don't see each other's locks.
  const program = `const client = require('@libsql/client').createClient({ url: ${JSON.stringify(url)} });
await client.execute("UPDATE api_keys SET active = 0 WHERE id = '${id}'");
console.log(JSON.stringify((await client.execute('SELECT name, active FROM api_keys')).rows));
client.close();`;
  const { stdout } = Bun.spawn([process.execPath, '-e', program], { cwd: import.meta.dir, stderr: 'inherit' });
  expect(JSON.parse(await new Response(stdout).text())).toEqual([{ name: 'test key', active: 0 }]);
  app.clock.advance(1001);
  expect((await app.useKey(key)).status).toBe(401);
});
