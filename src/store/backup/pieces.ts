// Copies a table within one SQLite connection, in pieces along its primary key, with a pause after each as long as it
// took, in which the disk and the file serve others.

import { sleep } from '../../ground/runtime.ts';
import { type Database, primaryKeyOf, type Row, type Statement } from '../database.ts';

const PAUSE_MS_MAX = 100;

export interface Piecewise {
  readonly table: string;
  /** The attached database that has the table. */
  readonly from: string;
  /** An empty table with the same columns. */
  readonly into: string;
  /** Rows per piece: 1,000 take some 5 ms of SQLite's time. */
  readonly rows: number;
  /** Runs one piece, and whatever must follow it. */
  put(piece: Statement): Promise<unknown>;
}

export async function copyInPieces(db: Database, { table, from, into, rows, put }: Piecewise): Promise<void> {
  const key = await primaryKeyOf(db, table, from);
  const places = key.join();
  const isAfter = key.length === 0 ? '' : `WHERE (${places}) > (${key.map(() => '?')})`;
  const first = `INSERT INTO ${into} SELECT * FROM ${from}.${table}`;
  const inOrder = key.length === 0 ? '' : `ORDER BY ${places} LIMIT ${rows}`;
  const lastOf = `SELECT ${places} FROM ${into} ORDER BY ${key.map((name) => `${name} DESC`)} LIMIT 1`;
  let last: Row | undefined;
  for (;;) {
    const beganMs = performance.now();
    await put(
      last === undefined
        ? { sql: `${first} ${inOrder}` }
        : { sql: `${first} ${isAfter} ${inOrder}`, args: key.map((name) => last?.[name] ?? null) },
    );
    if (key.length === 0) return;
    const before = last;
    [last] = await db.read({ sql: lastOf });
    if (last === undefined || isSame(key, last, before)) return;
    await pauseAfter(beganMs);
  }
}

/** Pauses for as long as a piece took that began then (`performance.now`). */
export const pauseAfter = (beganMs: number): Promise<void> =>
  sleep(Math.min(performance.now() - beganMs, PAUSE_MS_MAX));

const isSame = (key: readonly string[], row: Row, before: Row | undefined): boolean =>
  before !== undefined && key.every((name) => row[name] === before[name]);
