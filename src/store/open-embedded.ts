// Opening a libSQL file: is it ours, then WAL, then migrations. Every step waits for other processes that do the same.

import { errorReason, UnusableDatabase } from './database.ts';
import { embeddedDatabase } from './embedded.ts';
import { createKeyStore } from './key-store.ts';
import { inspect, migrate, unwrap } from './schema.ts';

/** The file is written on the event loop: this many keys take 2 to 3 ms. */
const USES_PER_WRITE = 100;

const DAMAGED = /SQLITE_(NOTADB|CORRUPT)/;

export async function openEmbedded(path: string) {
  const db = embeddedDatabase(path);
  try {
    await inspect(db); // before WAL, which writes to the file
    unwrap(await db.write({ sql: 'PRAGMA journal_mode = WAL', args: [] }));
    await migrate(db);
  } catch (error) {
    db.close();
    if (DAMAGED.test(String(error))) {
      throw new UnusableDatabase(
        'DATABASE_URL: the file is damaged or no database; nothing was changed. Restore it from a backup, or move it away to start empty',
      );
    }
    if (error instanceof UnusableDatabase) throw error;
    throw new Error(`DATABASE_URL: expected a file that can be opened and written, but ${errorReason(error)}`);
  }
  return { store: createKeyStore({ primary: db, usesPerWrite: USES_PER_WRITE }), close: async () => db.close() };
}
