// Drops the temporary tables of a restore (backup/restore.ts), also those that a killed one left behind.

import { type Database, primaryKeyOf, type Statement } from './database.ts';

// With the underscore they don't count as ours (schema.ts), and are in no backup.

/** The prefix of tables that are filled in advance. The table with just this name says since when. */
export const RESTORING = '_restoring';
/** The prefix of tables that were in use before. */
export const EMPTIED = '_emptied';

/** Far longer than a restore takes, so that one under way does not lose its tables. */
const LEFT_BEHIND_S = 24 * 3600;

/** How a table is emptied before it is dropped. In one step, others could not write for seconds. */
export interface Emptying {
  /** Rows per transaction. */
  readonly rows: number;
  /** Waits after a transaction that began then (`performance.now`). */
  after(beganMs: number): Promise<unknown>;
}

const LEFT: Statement = {
  sql: `SELECT name FROM sqlite_master WHERE type = 'table' AND (name GLOB '${RESTORING}*' OR name GLOB '${EMPTIED}_*')
ORDER BY name = '${RESTORING}'`,
};

/** Drops all tables of a restore, last the one that says since when. */
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
 * Drops what a killed restore has left, a day after it began: it takes as much space as the keys. If a server of the
 * previous version has already dropped the marker, also drops what remains.
 */
export async function dropLeftBehind(db: Database, emptying: Emptying): Promise<void> {
  const left = (await db.read(LEFT)).map(({ name }) => String(name));
  const isMarked = left.includes(RESTORING);
  const isOld = async () =>
    (await db.read({ sql: `SELECT 1 FROM ${RESTORING} WHERE begun_s < unixepoch() - ${LEFT_BEHIND_S}` })).length > 0;
  if (isMarked ? await isOld() : left.some((name) => name.startsWith(EMPTIED))) await dropLeft(db, emptying);
}
