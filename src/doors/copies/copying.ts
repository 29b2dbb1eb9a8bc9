// Copies rows from one database into the same table of another: page by page, and again when the feed reports a changed
// key.

import { changesOf } from '../../ground/change-feed.ts';
import { type Clock, MS_PER_DAY } from '../../ground/runtime.ts';
import { held, type Row, type Statement } from '../../store/database.ts';

export type Read = (statement: Statement) => Promise<readonly Row[]>;

const COLUMNS = 'SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk';

/**
 * Yields a table's rows along its primary key, after the row `after` if given. `columnsFrom` says which columns it has.
 * Clamps numbers typed by hand that JavaScript can't represent (db/README.md).
 */
export async function* pagesOf(
  read: Read,
  table: string,
  rows: number,
  { after, columnsFrom = read }: { readonly after?: Row | undefined; readonly columnsFrom?: Read } = {},
): AsyncGenerator<readonly Row[]> {
  const columns = await columnsFrom({ sql: COLUMNS, args: [table] });
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
    if (page.length > 0) yield page;
    if (page.length < rows) return; // a writer that adds rows all the time can't keep it here
    last = page.at(-1);
  }
}

/** Yields the rows after the copy's last one, along the primary key. The copy says which columns there are. */
export async function* newerPagesOf(from: Read, copy: Read, table: string, key: string, rows: number) {
  const [last] = await copy({ sql: `SELECT max(${key}) AS ${key} FROM ${table}` });
  yield* pagesOf(from, table, rows, { after: last?.[key] == null ? undefined : last, columnsFrom: copy });
}

/** Returns statements that insert the rows, with `OR REPLACE` or `OR IGNORE`, and so are idempotent. */
export function putRows(or: 'REPLACE' | 'IGNORE', table: string, rows: readonly Row[]): Statement[] {
  if (rows.length === 0) return [];
  const columns = Object.keys(rows[0] ?? {});
  const sql = `INSERT OR ${or} INTO ${table} (${columns}) SELECT ${columns.map((_, at) => `value ->> ${at}`)} FROM json_each(?)`;
  return [{ sql, args: [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))] }];
}

/** Selects the row numbers of keys that have secrets with these hashes. */
const ROWS_OF = `SELECT row FROM api_keys WHERE key_hash IN (SELECT value FROM json_each(?1))
UNION SELECT row FROM api_keys WHERE second_hash IN (SELECT value FROM json_each(?1))`;
const IDS_OF = `SELECT id FROM api_keys WHERE row IN (${ROWS_OF})`;
const KEYS = 'SELECT * FROM api_keys t WHERE t.id IN (SELECT value FROM json_each(?))';
const REMOVE_KEYS = `DELETE FROM api_keys WHERE row IN (${ROWS_OF})`;
/** A child that was changed on its own has ended, or is then missing. */
const REMOVE_CHILDREN = 'DELETE FROM children WHERE key_hash IN (SELECT value FROM json_each(?))';
const THESE_OWNERS = 'WHERE owner IN (SELECT value FROM json_each(?))';
/** The tables about owners. */
export const OF_OWNERS = ['blocked_owners', 'owners'];

/**
 * Returns statements that update the keys and owners named by changes in a copy. Whatever has one of these hashes when
 * they run is deleted, even if it wasn't there before, because another process may have inserted an old row meanwhile.
 * A key that is deleted and not inserted again is missing, which costs a read of the primary.
 */
export async function putChanged(from: Read, copy: Read, changed: readonly string[]): Promise<Statement[]> {
  const { keyHashes, owners } = changesOf(changed);
  return [
    ...(keyHashes.length === 0 ? [] : await putKeys(from, copy, keyHashes)),
    ...(owners.length === 0 ? [] : await putOwners(from, owners)),
  ];
}

async function putKeys(from: Read, copy: Read, keyHashes: readonly string[]): Promise<Statement[]> {
  const args = [JSON.stringify(keyHashes)];
  const found = await copy({ sql: IDS_OF, args });
  const ids = JSON.stringify(found.map(({ id }) => id));
  const keys = found.length === 0 ? [] : await from({ sql: KEYS, args: [ids] });
  return [{ sql: REMOVE_KEYS, args }, { sql: REMOVE_CHILDREN, args }, ...putRows('REPLACE', 'api_keys', keys)];
}

/** Deletes children a day after their end, like the primary, which doesn't report it. */
export const removeOldChildren = (clock: Clock): Statement => ({
  sql: 'DELETE FROM children WHERE expires_at_ms < ?',
  args: [clock.nowMs() - MS_PER_DAY],
});

async function putOwners(from: Read, owners: readonly string[]): Promise<Statement[]> {
  const args = [JSON.stringify(owners)];
  const statements: Statement[] = [];
  for (const table of OF_OWNERS) {
    const rows = await from({ sql: `SELECT * FROM ${table} ${THESE_OWNERS}`, args });
    statements.push({ sql: `DELETE FROM ${table} ${THESE_OWNERS}`, args }, ...putRows('REPLACE', table, rows));
  }
  return statements;
}
