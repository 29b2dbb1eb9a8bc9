// A backup of a database with so many keys, whose names have so many characters more, and a damaged file.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLog, systemClock } from '../../src/start/package/index.ts';
import { executeAt } from './database-client.ts';
import { temporaryFolder } from './folder.ts';
import { keysCommand } from './keys-command.ts';
import { openEmbedded } from './stores.ts';

const log = createLog({ level: 'error', clock: systemClock, write: async () => {} });
export const OPTIONS = { clock: systemClock, log };

export async function backupOf(keys: number, more = 0): Promise<string> {
  const folder = temporaryFolder();
  const path = join(folder, 'keys.db');
  const { close } = await openEmbedded(path);
  await executeAt(
    `file:${path}`,
    `INSERT INTO api_keys (id, user_id, name, key_hash, scopes, active, created_at_ms)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${keys})
SELECT lower(hex(randomblob(16))), 'owner ' || (i % 100), 'key ' || i || hex(zeroblob(${more / 2})), lower(hex(randomblob(32))), '["read"]', 1, i FROM n`,
  );
  await close();
  const file = join(folder, 'backup.db');
  await keysCommand({ DATABASE_URL: `file:${path}` }, ['backup', file]);
  return file;
}

/** Returns what a database file would hold if a page of it were lost. */
export const withLostPage = (file: string): Buffer => readFileSync(file).fill(0x55, 8192, 12_288);
