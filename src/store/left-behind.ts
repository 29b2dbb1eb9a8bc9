// The tables that a restore (backup/restore.ts) makes for itself, and what one that was killed leaves behind of them.

import { type Database, primaryKeyOf, type Statement } from './database.ts';

// The underscore: they are not taken for ours (schema.ts), and are in no backup.

/** The names of tables that are sent ahead begin so. The one of this very name says since when. */
export const RESTORING = '_restoring';
/** The names of tables that were in use before begin so. */
export const EMPTIED = '_emptied';

/** Far longer than a restore takes: one that is under way must not lose what it has sent ahead. */
const LEFT_BEHIND_S = 24 * 3600;

/** How a table is emptied before it is dropped: at once, others could not write for seconds. */
export interface Emptying {
  /** Rows of one transaction. */
  readonly rows: number;
  /** Waits after a transaction that began then (`performance.now`). */
  after(beganMs: number): Promise<unknown>;
}

const LEFT: Statement = {
  sql: `SELECT name FROM sqlite_master WHERE type = 'table' AND (name GLOB '${RESTORING}*' OR name GLOB '${EMPTIED}_*')
ORDER BY name = '${RESTORING}'`,
};

/** Drops all tables of a restore, the one that says since when at last. */
export async function dropLeft(db: Database, emptying: Emptying): Promise<void> {
  for (const { name } of await db.read(LEFT)) await dropTable(db, String(name), emptying);
}

async function dropTable(db: Database, table: string, { rows, after }: Emptying): Promise<void> {
  const key = (await primaryKeyOf(db, table)).join();
  if (key !== '') {
    const sql = `DELETE FROM ${table} WHERE (${key}) IN (SELECT ${key} FROM ${table} ORDER BY ${key} LIMIT ${rows})`;
    for (let isMore = true; isMore; ) {
      const beganMs = performance.now();
      const { changed, repeated } = await db.write({ sql, unsynced: true });
      await after(beganMs);
      isMore = changed >= rows || repeated;
    }
  }
  await db.write({ sql: `DROP TABLE IF EXISTS ${table}`, unsynced: true });
}

/**
 * Drops what a restore that was killed has left behind, a day after it began: it takes as much room as the keys. What it
 * would have dropped at its end goes as well if a server of the version before has dropped the rest.
 */
export async function dropLeftBehind(db: Database, emptying: Emptying): Promise<void> {
  const left = (await db.read(LEFT)).map(({ name }) => String(name));
  const isMarked = left.includes(RESTORING);
  const isOld = async () =>
    (await db.read({ sql: `SELECT 1 FROM ${RESTORING} WHERE begun_s < unixepoch() - ${LEFT_BEHIND_S}` })).length > 0;
  if (isMarked ? await isOld() : left.some((name) => name.startsWith(EMPTIED))) await dropLeft(db, emptying);
}
