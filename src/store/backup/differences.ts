// Finds what differs between a backup and the database, in pieces along the primary key, without delaying anybody.

import { pagesOf, putRows } from '../copying.ts';
import { type Database, firstOf, type Row, type Statement } from '../database.ts';
import { type Backup, letSignalsIn } from './file.ts';
import { pauseAfter } from './pieces.ts';

/** Rows compared at once, in some 30 ms. */
const COMPARED_ROWS = 10_000;
/** The most keys that differ. With more, filling new tables is quicker. */
const DIFFERENT_MAX = 10_000;
/** Rows inserted at once, for which other writers wait 10 ms. */
const PUT_ROWS = 2000;
const PAGE_ROWS = 500;

/** Takes the progress: rows compared so far, and in total. */
export type Progress = (done: number, total: number) => void;
/** Takes the number of rows compared since the last call. */
export type Compared = (rows: number) => void;

/** Creates the function that adds up compared rows for the progress. */
export function comparedOf(total: number, progress: Progress): Compared {
  let done = 0;
  return (rows) => {
    done = Math.min(done + rows, total);
    progress(done, total);
  };
}

export const KEYS_OF_BACKUP = 'backup.api_keys';

/** Runs `use` while the backup is attached to a file as `backup`. */
export async function attached<T>(db: Database, { path }: Backup, use: () => Promise<T>): Promise<T> {
  await db.read({ sql: 'ATTACH ? AS backup', args: [path] }); // SQLite refuses it in a transaction
  try {
    return await use();
  } finally {
    await db.read({ sql: 'DETACH backup' });
  }
}

/**
 * Returns the row numbers of `api_keys` that differ in `source`, or exist in only one of them; null: too many. A last use
 * alone is no difference, because the upkeep updates it in the row of each key in use.
 */
export async function differentKeys(
  db: Database,
  source: string,
  compared: Compared,
): Promise<readonly number[] | null> {
  const columns = await db.read({ sql: COLUMNS });
  const of = (table: string) => `(${columns.map(({ name }) => `${table}.${name}`)})`;
  const sql = `SELECT b.row FROM ${source} b LEFT JOIN api_keys k ON k.row = b.row
WHERE b.row > ?1 AND b.row <= ?2 AND ${of('b')} IS NOT ${of('k')}
UNION ALL SELECT k.row FROM api_keys k WHERE k.row > ?1 AND k.row <= ?2
AND NOT EXISTS (SELECT 1 FROM ${source} b WHERE b.row = k.row) LIMIT ${DIFFERENT_MAX + 1}`;
  const rows: number[] = [];
  for await (const args of rangesOf(db, source, 'row')) {
    rows.push(...(await db.read({ sql, args })).map(({ row }) => Number(row)));
    compared(COMPARED_ROWS);
    if (rows.length > DIFFERENT_MAX) return null;
  }
  return rows;
}

const COLUMNS = "SELECT name FROM pragma_table_info('api_keys') WHERE name NOT IN ('row', 'last_used_at_ms')";

/** Yields ranges, each after the first number up to the second, that cover all integers: so many rows of `table` each. */
async function* rangesOf(db: Database, table: string, key: string): AsyncGenerator<readonly [number, number]> {
  const sql = `SELECT max(${key}) AS last FROM (SELECT ${key} FROM ${table} WHERE ${key} > ? ORDER BY ${key} LIMIT ${COMPARED_ROWS})`;
  for (let after = Number.MIN_SAFE_INTEGER; ; ) {
    const { last = null } = firstOf(await db.read({ sql, args: [after] }));
    yield [after, Number(last ?? Number.MAX_SAFE_INTEGER)];
    if (last === null) return;
    after = Number(last);
    await letSignalsIn();
  }
}

const IDENTITY = ['at_ms', 'owner', 'key_id', 'kind'];
const isOther = (columns: (name: string) => string) =>
  `(${IDENTITY.map((name) => `e.${name}`)}) IS NOT (${IDENTITY.map(columns)})`;

const MISSING_IN_FILE = `SELECT b.seq FROM backup.key_events b LEFT JOIN key_events e ON e.seq = b.seq
WHERE b.seq > ?1 AND b.seq <= ?2 AND ${isOther((name) => `b.${name}`)}`;

/** Copies the events that the attached `backup` has and the database lacks into a table. */
export async function copyMissingEvents(
  db: Database,
  into: string,
  put: (piece: Statement) => Promise<unknown>,
  compared: Compared,
) {
  const sql = `INSERT INTO ${into} SELECT * FROM backup.key_events WHERE seq IN (SELECT value FROM json_each(?))`;
  for await (const args of rangesOf(db, 'backup.key_events', 'seq')) {
    const missing = (await db.read({ sql: MISSING_IN_FILE, args })).map(({ seq }) => Number(seq));
    compared(COMPARED_ROWS);
    for (let at = 0; at < missing.length; at += PUT_ROWS) {
      const beganMs = performance.now();
      await put({ sql, args: [JSON.stringify(missing.slice(at, at + PUT_ROWS))] });
      await pauseAfter(beganMs);
    }
  }
}

const MISSING = `SELECT p.key AS at FROM json_each(?) p LEFT JOIN key_events e ON e.seq = p.value ->> 'seq'
WHERE ${isOther((name) => `p.value ->> '${name}'`)}`;

/** Sends the events that the backup has and the database lacks to a table. */
export async function sendMissingEvents(
  db: Database,
  { read }: Backup,
  into: string,
  compared: Compared,
): Promise<void> {
  const asked = ({ seq = null, at_ms = null, owner = null, key_id = null, kind = null }: Row) => ({
    seq,
    at_ms,
    owner,
    key_id,
    kind,
  });
  for await (const rows of pagesOf(read, 'key_events', PAGE_ROWS)) {
    const missing = await db.read({ sql: MISSING, args: [JSON.stringify(rows.map(asked))] });
    const statements = putRows(
      'IGNORE',
      into,
      missing.map(({ at }) => rows[Number(at)] ?? {}),
    );
    if (statements.length > 0) await db.writeAll(statements);
    compared(rows.length);
  }
}
