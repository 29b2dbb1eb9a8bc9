// Databases that the program itself has made, a file and the data of a primary, copied for each test app: opening a copy
// takes no migration.

import { Database } from 'bun:sqlite';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openDatabase } from './database-client.ts';
import { temporaryFolder } from './folder.ts';
import { dataOf, type Sqld, startSqld } from './sqld.ts';
import { openEmbedded, openRemote } from './stores.ts';

/** What makes a database its own: who trusts another's would believe what it remembers of that one. */
const OWN_IDENTITY = `UPDATE feed SET database_id = lower(hex(randomblob(16)));
UPDATE server_secrets SET value = lower(hex(randomblob(32)))`;

/** The bytes of a file, and the texts in it that are a database's own: a copy by bytes takes a quarter of the time. */
interface Template {
  readonly bytes: Buffer;
  readonly own: readonly string[];
}
let template: Promise<Template> | undefined;

/** Puts a new database, as the program makes it at its first start, at `path`; leaves one that is there. */
export async function newDatabaseAt(path: string): Promise<void> {
  template ??= makeTemplate();
  const { bytes, own } = await template;
  if (existsSync(path)) return;
  const copy = Buffer.from(bytes);
  for (const text of own) copy.write(randomBytes(text.length / 2).toString('hex'), bytes.indexOf(text));
  writeFileSync(path, copy);
}

async function makeTemplate(): Promise<Template> {
  const path = join(temporaryFolder(), 'template.db');
  const { close } = await openEmbedded(path);
  await close();
  const file = new Database(path);
  file.run('PRAGMA wal_checkpoint(TRUNCATE)'); // a copy of the file alone is whole
  const rows = file.query<{ own: string }, []>(
    'SELECT database_id AS own FROM feed UNION ALL SELECT value FROM server_secrets',
  );
  const own = rows.all().map((row) => row.own);
  file.close();
  return { bytes: readFileSync(path), own };
}

/** Paths and contents: folders go with the file of tests that made them. */
type Files = readonly (readonly [path: string, bytes: Uint8Array])[];
let primaryTemplate: Promise<Files> | undefined;

/** A primary with such a database, whose data is in `folder`; with what is there already, if anything is. */
export async function startPrimary(folder = temporaryFolder()): Promise<Sqld> {
  if (existsSync(dataOf(folder))) return startSqld({ folder });
  primaryTemplate ??= makePrimaryTemplate();
  for (const [path, bytes] of await primaryTemplate) {
    const to = join(dataOf(folder), path);
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, bytes);
  }
  const sqld = await startSqld({ folder });
  using copy = openDatabase(sqld.url);
  await copy.executeMultiple(OWN_IDENTITY);
  return sqld;
}

async function makePrimaryTemplate(): Promise<Files> {
  const folder = temporaryFolder();
  const sqld = await startSqld({ folder });
  const { close } = await openRemote(sqld.url);
  await close();
  await sqld.end();
  const data = dataOf(folder);
  const entries = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    return [path.slice(data.length + 1), readFileSync(path)] as const;
  });
}
