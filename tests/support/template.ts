// Databases that the program itself has made, a file and the data of a primary, copied for each test app: opening a copy
// takes no migration.

import { Database } from 'bun:sqlite';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from './database-client.ts';
import { openEmbedded, openRemote } from './embedded.ts';
import { temporaryFolder } from './folder.ts';
import { dataOf, type Sqld, startSqld } from './sqld.ts';

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

let primaryTemplate: Promise<string> | undefined;

/** A primary with such a database, whose data is in `folder`; with what is there already, if anything is. */
export async function startPrimary(folder = temporaryFolder()): Promise<Sqld> {
  if (existsSync(dataOf(folder))) return startSqld({ folder });
  primaryTemplate ??= makePrimaryTemplate();
  cpSync(await primaryTemplate, dataOf(folder), { recursive: true });
  const sqld = await startSqld({ folder });
  const copy = openDatabase(sqld.url);
  await copy.executeMultiple(OWN_IDENTITY);
  copy.close();
  return sqld;
}

async function makePrimaryTemplate(): Promise<string> {
  const folder = temporaryFolder();
  const sqld = await startSqld({ folder });
  const { close } = await openRemote(sqld.url);
  await close();
  await sqld.end();
  return dataOf(folder);
}
