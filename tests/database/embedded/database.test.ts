// The file mode: what the driver does to a file that several processes write, and how embedded.ts deals with that.

import { describe, expect, test } from 'bun:test';
import { copyFileSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { temporaryFolder } from '../../support/folder.ts';
import { bearer, createTestApp } from '../../support/test-app.ts';
import { waitFor } from '../../support/wait-for.ts';

const WRITER = join(import.meta.dir, 'file-writer.ts');

/** Rows that each process is told are written. */
const ROWS = 60;

/** Has three processes write one file at once, and counts what they were told is written and what is. */
async function threeWriters(kind: 'driver' | 'ours'): Promise<{ acknowledged: number; missing: number }> {
  const file = join(temporaryFolder(), 'rows.db');
  const client = createClient({ url: `file:${file}` });
  await client.batch(['CREATE TABLE written (id TEXT PRIMARY KEY)'], 'write');
  await client.execute('PRAGMA journal_mode = WAL');
  client.close();
  const writers = Array.from({ length: 3 }, () =>
    Bun.spawn([process.execPath, WRITER, kind, file, String(ROWS)], { stdin: 'pipe', stdout: 'pipe' }),
  );
  const said = writers.map(() => '');
  const ended = writers.map(async ({ stdout }, writer) => {
    for await (const text of stdout.pipeThrough(new TextDecoderStream())) said[writer] += text;
  });
  await waitFor(() => said.every((text) => text.startsWith('ready\n')));
  for (const { stdin } of writers) stdin.end();
  await Promise.all(ended);
  const told = said.flatMap((text) => JSON.parse(text.slice('ready\n'.length)) as string[]);
  const reader = createClient({ url: `file:${file}` });
  const written = new Set((await reader.execute('SELECT id FROM written')).rows.map(({ id }) => id));
  reader.close();
  return { acknowledged: told.length, missing: told.filter((id) => !written.has(id)).length };
}

describe('three processes that write one file', () => {
  // If this one fails, the driver has been fixed (libsql-client-ts #352), and embedded.ts may become simpler.
  test('three writing processes lose acknowledged rows if a client goes on after SQLITE_BUSY', async () => {
    const { acknowledged, missing } = await threeWriters('driver');
    expect(acknowledged).toBeGreaterThanOrEqual(3 * ROWS);
    expect(missing).toBeGreaterThan(0);
  }, 60_000);

  test('three writing processes lose nothing if every error replaces the client', async () => {
    const { acknowledged, missing } = await threeWriters('ours');
    expect(acknowledged).toBeGreaterThanOrEqual(3 * ROWS);
    expect(missing).toBe(0);
  }, 60_000);
});

test.each(['C#', 'what?', '100%', 'a b'])('a path may hold "%s", also at its end', async (name) => {
  const folder = join(temporaryFolder(), name);
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

test('after errors that close every connection the log is still in its place, and nothing is refused', async () => {
  await using app = await createTestApp({ store: 'embedded' });
  const alice = await bearer(app, 'alice');
  const create = async () => (await app.call('create_api_key', { name: 'k', scopes: [] }, alice)).status;
  expect(await create()).toBe(200);
  const other = createClient({ url: `file:${join(app.folder, 'keys.db')}` });
  await other.execute('ALTER TABLE api_keys RENAME TO hidden');
  expect(await create()).toBe(503);
  await other.execute('ALTER TABLE hidden RENAME TO api_keys');
  other.close();
  for (let round = 0; round < 3; round += 1) {
    Bun.gc(true); // the driver closes a connection when its statements are collected
    await Bun.sleep(1);
  }
  expect(await create()).toBe(200);
  expect((await fetch(`${app.url}/mcp/health`)).status).toBe(200);
});
