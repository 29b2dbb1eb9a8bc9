// Opens a backup file: copies it with its WAL or journal, checks the copy, and migrates it.

import { realpathSync, rmSync, type Stats, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { makePrivate } from '../../ground/private-files.ts';
import { isOutage } from '../../ground/result.ts';
import { sleep } from '../../ground/runtime.ts';
import { reasonOf } from '../../ground/text.ts';
import { type Database, UnusableDatabase } from '../../store/database.ts';
import { embeddedDatabase } from '../../store/embedded/database.ts';
import { inspect, migrate } from '../../store/schema.ts';
import { copyOntoDisk, shorten } from './file-copy.ts';
import type { Read } from './row-copy.ts';

export interface Backup {
  /** The path of a copy of the file, migrated to this version's schema. */
  readonly path: string;
  readonly read: Read;
  readonly keys: number;
}

/**
 * Checks a backup and passes a migrated copy of it to `use`. Throws UnusableDatabase if it can't be read, is damaged or
 * empty, or isn't ours. `folder`: a private one for the copy, which the caller removes.
 */
export async function withBackup<T>(
  file: string,
  folder: string,
  use: (backup: Backup) => Promise<T>,
  copy = copyFile,
): Promise<T> {
  const path = join(folder, 'backup.db');
  await copyBackup(file, path, copy);
  await letSignalsIn();
  const db = embeddedDatabase(path);
  try {
    await check(db).catch((error) => {
      const what = error instanceof UnusableDatabase ? error.what : reasonOf(error);
      const why = isOutage(error, 'damaged') ? 'it is damaged, or no database' : what;
      throw new UnusableDatabase(`expected a backup, got ${JSON.stringify(file)}: ${why}`);
    });
    await letSignalsIn();
    const [row] = await db.read({ sql: 'SELECT count(*) AS keys FROM api_keys' });
    return await use({ path, read: db.read, keys: Number(row?.keys) });
  } finally {
    await db.close();
    await shorten(path);
  }
}

/** Yields, so that the thread notices signals: SQLite blocks it, and consecutive statements would not let them in. */
export const letSignalsIn = () => sleep(1);

/** What SQLite keeps beside a file whose process was killed: changes that the file itself lacks. */
const PARTS = ['', '-wal', '-journal'];

const NO_ROOM = 'expected room for a copy of the backup in the temporary folder, which TMPDIR names (ENOSPC)';

/** How often the file is copied if a server writes to it meanwhile. */
const COPY_TRIES_MAX = 5;

async function copyBackup(file: string, path: string, copy: typeof copyFile): Promise<void> {
  try {
    const real = realpathSync(file); // the parts are beside the file itself
    if (statOf(real)?.isDirectory())
      throw new UnusableDatabase(`expected a backup, got the folder ${JSON.stringify(file)}`);
    for (let tries = 0; tries < COPY_TRIES_MAX; tries += 1) {
      const before = statesOf(real);
      for (const part of PARTS) {
        rmSync(`${path}${part}`, { force: true }); // a log of an earlier try would take back what the file has since
        makePrivate(`${path}${part}`);
        if (isFilled(`${real}${part}`)) await copy(`${real}${part}`, `${path}${part}`);
      }
      if (statesOf(real) === before) return;
    }
  } catch (error) {
    if (error instanceof UnusableDatabase) throw error;
    const { code } = error as { readonly code?: string };
    if (code === 'ENOSPC') throw new UnusableDatabase(NO_ROOM);
    throw new UnusableDatabase(`expected a backup that can be read, got ${JSON.stringify(file)} (${code})`);
  }
  throw new UnusableDatabase(
    `expected a backup that nobody writes to, got ${JSON.stringify(file)}; of a database in use take one with keys backup`,
  );
}

async function copyFile(from: string, to: string): Promise<void> {
  await using source = await open(from);
  await copyOntoDisk(source, to);
}

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false });

/** Returns whether there is something to copy. A pipe has no size, and opening it would wait for a writer. */
const isFilled = (path: string): boolean => (statOf(path)?.size ?? 0) > 0;

/** Returns a text that changes whenever somebody writes to the file or to what is beside it. */
const statesOf = (file: string): string =>
  PARTS.map((part) => {
    const { ino, size, mtimeMs, ctimeMs } = statOf(`${file}${part}`) ?? {};
    return [ino, size, mtimeMs, ctimeMs].join(' ');
  }).join('\n');

async function check(db: Database): Promise<void> {
  const [integrity] = await db.read({ sql: 'PRAGMA integrity_check(1)' });
  if (integrity?.integrity_check !== 'ok') throw new UnusableDatabase('it is damaged');
  if ((await inspect(db)) === 0) throw new UnusableDatabase('it is empty');
  await migrate(db);
}
