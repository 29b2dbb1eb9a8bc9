// Opening a libSQL file: is it ours and whole, then WAL, then migrations. Every step waits for other processes that do
// the same.

import { type Database, errorReason, type Statement, UnusableDatabase, unwrap } from './database.ts';
import { embeddedDatabase } from './embedded.ts';
import { createKeyStore } from './key-store.ts';
import { inspect, migrate } from './schema.ts';

/** The file is written on the event loop: 200 uses hold it up for 0.6 ms, among a million keys for 1.2 ms. */
const USES_PER_WRITE = 200;

/** Up to this a file is read whole at the start: some 200,000 keys, 0.1 s from memory, 0.5 s from a slow disk. */
const READ_WHOLE_BYTES_MAX = 64 * 1024 * 1024;

const SIZE: Statement = { sql: 'SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size' };
/** Reads one page of each level of every table and index. */
const NEWEST_ENDS: Statement = {
  sql: `SELECT (SELECT max(row) FROM api_keys), (SELECT max(id) FROM api_keys), (SELECT max(key_hash) FROM api_keys),
(SELECT max(user_id) FROM api_keys), (SELECT max(seq) FROM changes), (SELECT max(changed_at_ms) FROM changes),
(SELECT pruned_seq FROM feed), (SELECT max(row) FROM key_uses)`,
};

/** Moves the write-ahead log into the file. The driver's close doesn't: a copy of the file alone would lack it. */
const CHECKPOINT: Statement = { sql: 'PRAGMA wal_checkpoint(TRUNCATE)' };
/** Another process that keeps it busy for longer does this when it stops. */
const CHECKPOINT_MS_MAX = 500;

const DAMAGED = /SQLITE_(NOTADB|CORRUPT)/;
const DAMAGED_TEXT =
  'DATABASE_URL: the file is damaged or no database; nothing was changed. Restore it from a backup, or move it away to start empty';

export async function openEmbedded(path: string) {
  const db = embeddedDatabase(path);
  try {
    await inspect(db); // before WAL, which writes to the file
    await checkPages(db);
    unwrap(await db.write({ sql: 'PRAGMA journal_mode = WAL' }));
    await migrate(db);
  } catch (error) {
    // A damaged file is left open until the process ends, which is now: closing it would move the write-ahead log into it.
    if (DAMAGED.test(String(error))) throw new UnusableDatabase(DAMAGED_TEXT);
    db.close();
    if (error instanceof UnusableDatabase) throw error;
    throw new Error(
      `DATABASE_URL: expected a file that can be opened and written, but ${errorReason(error)}, got ${JSON.stringify(path)}`,
    );
  }
  return {
    store: createKeyStore({ primary: db, usesPerWrite: USES_PER_WRITE }),
    mode: 'embedded' as const,
    async close() {
      await db.read(CHECKPOINT, CHECKPOINT_MS_MAX);
      db.close();
    },
  };
}

/**
 * Damage in a page is met only by whoever needs that page: half the keys would work, and the rest be "out of reach". So
 * the whole file is read, unless that would hold up the start. In a larger one SQLite still checks header and length, we
 * check the way into every table and index, and the rest is met in use.
 */
async function checkPages(db: Database): Promise<void> {
  const [size] = unwrap(await db.read(SIZE));
  if (Number(size?.bytes) > READ_WHOLE_BYTES_MAX) {
    unwrap(await db.read(NEWEST_ENDS));
    return;
  }
  const [row] = unwrap(await db.read({ sql: 'PRAGMA quick_check(1)' }));
  if (row?.quick_check !== 'ok') throw new Error(`SQLITE_CORRUPT: ${row?.quick_check}`);
}
