// A database file that the program itself has made, copied for each test app: opening a copy takes no migration.

import { Database } from 'bun:sqlite';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openEmbedded } from './embedded.ts';
import { temporaryFolder } from './folder.ts';

/** What makes a database its own: who trusts another's would believe what it remembers of that one. */
const OWN_IDENTITY = `UPDATE feed SET database_id = lower(hex(randomblob(16)));
UPDATE server_secrets SET value = lower(hex(randomblob(32)))`;

let template: Promise<Uint8Array> | undefined;

/** Puts a new database, as the program makes it at its first start, at `path`; leaves one that is there. */
export async function newDatabaseAt(path: string): Promise<void> {
  template ??= makeTemplate();
  const bytes = await template;
  if (existsSync(path)) return;
  writeFileSync(path, bytes);
  const copy = new Database(path);
  copy.run(OWN_IDENTITY);
  copy.close();
}

async function makeTemplate(): Promise<Uint8Array> {
  const path = join(temporaryFolder(), 'template.db');
  const { close } = await openEmbedded(path);
  await close();
  const file = new Database(path);
  file.run('PRAGMA wal_checkpoint(TRUNCATE)'); // a copy of the file alone is whole
  file.close();
  return readFileSync(path);
}
