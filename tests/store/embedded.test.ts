// The file mode: what the driver does to a file that several processes write, and how embedded.ts deals with that.

import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createClient } from '@libsql/client';
import { temporaryFolder } from '../support/folder.ts';

const WRITER = join(import.meta.dir, 'file-writer.ts');

/** Has three processes write one file, and counts what they were told is written and what is. */
async function threeWriters(kind: 'raw' | 'ours'): Promise<{ acknowledged: number; missing: number }> {
  const file = join(temporaryFolder(), 'rows.db');
  const client = createClient({ url: `file:${file}` });
  await client.batch(['CREATE TABLE written (id TEXT PRIMARY KEY)'], 'write');
  await client.execute('PRAGMA journal_mode = WAL');
  client.close();
  const writers = Array.from({ length: 3 }, () =>
    Bun.spawn([process.execPath, WRITER, kind, file, '1500'], { stdout: 'pipe' }),
  );
  const told = (
    await Promise.all(writers.map(({ stdout }) => new Response(stdout).json() as Promise<string[]>))
  ).flat();
  const reader = createClient({ url: `file:${file}` });
  const written = new Set((await reader.execute('SELECT id FROM written')).rows.map(({ id }) => id));
  reader.close();
  return { acknowledged: told.length, missing: told.filter((id) => !written.has(id)).length };
}

describe('three processes that write one file', () => {
  // If this one fails, the driver has been fixed (libsql-client-ts #352), and embedded.ts may become simpler.
  test('lose what was acknowledged if a client goes on after SQLITE_BUSY', async () => {
    const { acknowledged, missing } = await threeWriters('raw');
    expect(acknowledged).toBeGreaterThan(0);
    expect(missing).toBeGreaterThan(0);
  }, 20_000);

  test('lose nothing if every error replaces the client', async () => {
    const { acknowledged, missing } = await threeWriters('ours');
    expect(acknowledged).toBeGreaterThan(100);
    expect(missing).toBe(0);
  }, 20_000);
});
