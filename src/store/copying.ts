// How rows get from one database into the same table of another: page by page, and again once the feed says that a key
// has changed.

import { held, type Row, type Statement } from './database.ts';

export type Read = (statement: Statement) => Promise<readonly Row[]>;

const COLUMNS = 'SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk';

/**
 * Along the primary key; from the first row on, or after the one that is given. Numbers that were typed by hand, and that
 * JavaScript doesn't hold, are cut (db/README.md).
 */
export async function* pagesOf(read: Read, table: string, rows: number, after?: Row): AsyncGenerator<readonly Row[]> {
  const columns = await read({ sql: COLUMNS, args: [table] });
  const key = columns.filter(({ pk }) => Number(pk) > 0).map(({ name }) => String(name));
  const selected = columns.map(({ name, type }) =>
    type === 'INTEGER' ? `${held(`t.${name}`)} AS ${name}` : `t.${name}`,
  );
  const places = key.map((name) => `t.${name}`);
  const isAfter = `WHERE (${places}) > (${key.map(() => '?')})`;
  for (let last = after; ; ) {
    const page = await read({
      sql: `SELECT ${selected} FROM ${table} t ${last === undefined ? '' : isAfter} ORDER BY ${places} LIMIT ${rows}`,
      args: last === undefined ? [] : key.map((name) => last?.[name] ?? null),
    });
    last = page.at(-1);
    if (last === undefined) return;
    yield page;
  }
}

/** Those after the last row of the copy, along its primary key. */
export async function* newerPagesOf(from: Read, copy: Read, table: string, key: string, rows: number) {
  const [last] = await copy({ sql: `SELECT max(${key}) AS ${key} FROM ${table}` });
  yield* pagesOf(from, table, rows, last?.[key] == null ? undefined : last);
}

/** `OR REPLACE`, or `OR IGNORE`: it may be sent twice. */
export function putRows(or: 'REPLACE' | 'IGNORE', table: string, rows: readonly Row[]): Statement[] {
  if (rows.length === 0) return [];
  const columns = Object.keys(rows[0] ?? {});
  const sql = `INSERT OR ${or} INTO ${table} (${columns}) SELECT ${columns.map((_, at) => `value ->> ${at}`)} FROM json_each(?)`;
  return [{ sql, args: [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))] }];
}

const IDS_OF = `SELECT id FROM api_keys WHERE key_hash IN (SELECT value FROM json_each(?1))
UNION SELECT id FROM api_keys WHERE second_hash IN (SELECT value FROM json_each(?1))`;
const KEYS = 'SELECT * FROM api_keys t WHERE t.id IN (SELECT value FROM json_each(?))';
const REMOVE_KEYS = 'DELETE FROM api_keys WHERE id IN (SELECT value FROM json_each(?))';

/** Brings the keys of a copy that have secrets of these hashes to what they are now. */
export async function putChanged(from: Read, copy: Read, hashes: readonly string[]): Promise<Statement[]> {
  const found = await copy({ sql: IDS_OF, args: [JSON.stringify(hashes)] });
  if (found.length === 0) return [];
  const args = [JSON.stringify(found.map(({ id }) => id))];
  const keys = await from({ sql: KEYS, args });
  return [{ sql: REMOVE_KEYS, args }, ...putRows('REPLACE', 'api_keys', keys)];
}

/** Makes the owners who are blocked in a copy those who are blocked now. */
export async function putBlocked(from: Read): Promise<Statement[]> {
  const blocked = await from({ sql: 'SELECT * FROM blocked_owners' });
  return [{ sql: 'DELETE FROM blocked_owners' }, ...putRows('REPLACE', 'blocked_owners', blocked)];
}
