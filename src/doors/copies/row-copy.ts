// Copies rows from one database into the same table of another: page by page, and again when the feed reports a changed
// key.

import { changesOf, RULES_CHANGED } from '../../ground/change-feed.ts';
import { type Database, type Row, type Statement, safeInteger } from '../../store/database.ts';
import type { TableFacts } from '../../store/tables.ts';

/** Matches the error of a transaction whose first statement has found another id in `feed` than expected. */
export const IS_ELSEWHERE = /NOT NULL constraint failed: feed/;

export type Read = (statement: Statement) => Promise<readonly Row[]>;

/** Quotes the name of a table or column, which may have been added by hand. */
export const quoted = (name: unknown): string => `"${String(name).replaceAll('"', '""')}"`;

const COLUMNS = 'SELECT name, type, pk FROM pragma_table_info(?) ORDER BY pk';
/** The key of a table without a primary key: one that was made by hand. */
const ROWID: Row = { name: 'rowid', type: 'INTEGER', pk: 1 };

const isOfKey = ({ pk }: Row): boolean => Number(pk) > 0;

/** Returns the expression for a column of a type, as it is read. */
type ReadColumn = (column: string, type: string) => string;

/** Clamps numbers typed by hand that JavaScript can't represent (db/README.md). */
const clamped: ReadColumn = (column, type) => (type === 'INTEGER' ? safeInteger(column) : column);

/**
 * Takes numbers of a table that was made by hand as texts, of which the columns of the copy make numbers again: beyond what
 * JavaScript can represent there may be ids.
 */
const asText: ReadColumn = (column, type) => (/INT/i.test(type) ? `CAST(${column} AS TEXT)` : column);

/** Selects columns of table `t`. */
const selected = (columns: readonly Row[], read: ReadColumn): string =>
  columns.map(({ name, type }) => `${read(`t.${quoted(name)}`, String(type))} AS ${quoted(name)}`).join(', ');

interface PagesOptions {
  /** The row before the first page. */
  readonly after?: Row | undefined;
  /** Reads which columns there are: by default from the same database. */
  readonly columnsFrom?: Read;
  /** Whether the table was made by hand. */
  readonly isByHand?: boolean;
}

/** Yields a table's rows along its key. */
export async function* pagesOf(
  read: Read,
  table: string,
  rows: number,
  { after, columnsFrom = read, isByHand = false }: PagesOptions = {},
): AsyncGenerator<readonly Row[]> {
  const named = await columnsFrom({ sql: COLUMNS, args: [table] });
  const columns = named.some(isOfKey) ? named : [ROWID, ...named];
  const key = columns.filter(isOfKey).map(({ name }) => String(name));
  const places = key.map((name) => `t.${quoted(name)}`);
  const isAfter = `WHERE (${places}) > (${key.map(() => '?')})`;
  const what = selected(columns, isByHand ? asText : clamped);
  for (let last = after; ; ) {
    const page = await read({
      sql: `SELECT ${what} FROM ${quoted(table)} t
${last === undefined ? '' : isAfter} ORDER BY ${places} LIMIT ${rows}`,
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

/**
 * Returns statements that insert the rows, with `OR REPLACE` or `OR IGNORE`, and so are idempotent. `where`: a clause with
 * the condition on which they do.
 */
export function putRows(or: 'REPLACE' | 'IGNORE', table: string, rows: readonly Row[], where = ''): Statement[] {
  if (rows.length === 0) return [];
  const columns = Object.keys(rows[0] ?? {});
  const values = columns.map((_, at) => `value ->> ${at}`);
  const sql = `INSERT OR ${or} INTO ${quoted(table)} (${columns.map(quoted)})
SELECT ${values} FROM json_each(?) ${where}`;
  return [{ sql, args: [JSON.stringify(rows.map((row) => columns.map((column) => row[column])))] }];
}

/** Selects all triggers, and how each is dropped: `%w` quotes the name, which may be another program's. */
const TRIGGERS = `SELECT format('DROP TRIGGER "%w"', name) AS dropping, sql FROM sqlite_master WHERE type = 'trigger'`;

/** Returns the statements for one transaction in which no trigger runs. */
export async function withoutTriggers(
  { read }: Pick<Database, 'read'>,
  statements: readonly (string | Statement)[],
): Promise<Statement[]> {
  const triggers = await read({ sql: TRIGGERS });
  return [
    ...triggers.map(({ dropping }) => String(dropping)),
    ...statements,
    ...triggers.map(({ sql }) => String(sql)),
  ].map((statement) => (typeof statement === 'string' ? { sql: statement } : statement));
}

/** Selects the row numbers of keys that have secrets with these hashes. */
const ROWS_OF = `SELECT row FROM api_keys WHERE key_hash IN (SELECT value FROM json_each(?1))
UNION SELECT row FROM api_keys WHERE second_hash IN (SELECT value FROM json_each(?1))`;
const IDS_OF = `SELECT id FROM api_keys WHERE row IN (${ROWS_OF})`;
const THESE_KEYS = 'WHERE id IN (SELECT value FROM json_each(?))';
const REMOVE_KEYS = `DELETE FROM api_keys WHERE row IN (${ROWS_OF})`;
const THESE_HASHES = 'WHERE key_hash IN (SELECT value FROM json_each(?))';
const THESE_OWNERS = 'WHERE owner IN (SELECT value FROM json_each(?))';

/** The databases, and the tables that the copy has. */
interface Copying {
  readonly from: Read;
  readonly copy: Read;
  readonly tables: readonly TableFacts[];
}

/**
 * Returns statements that update in a copy what changes name. Whatever has one of these hashes when they run is deleted,
 * even if it wasn't there before, because another process may have inserted an old row meanwhile. A key that is deleted and
 * not inserted again is missing, which costs a read of the primary; so is any other row with such a hash.
 */
export async function putChanged(copying: Copying, changed: readonly string[]): Promise<Statement[]> {
  const { keyHashes, owners } = changesOf(changed);
  return [
    ...(keyHashes.length === 0 ? [] : await putKeys(copying, keyHashes)),
    ...(owners.length === 0 ? [] : await putAnew(copying, 'owner', THESE_OWNERS, [JSON.stringify(owners)])),
    // The feed names rules as a whole, of which there are few.
    ...(keyHashes.includes(RULES_CHANGED) ? await putAnew(copying, 'rules', '', []) : []),
  ];
}

async function putKeys(copying: Copying, keyHashes: readonly string[]): Promise<Statement[]> {
  const args = [JSON.stringify(keyHashes)];
  const found = await copying.copy({ sql: IDS_OF, args });
  const ids = [JSON.stringify(found.map(({ id }) => id))];
  const keys = found.length === 0 ? [] : await rowsOf(copying, 'api_keys', THESE_KEYS, ids);
  const named = copying.tables.filter(({ announcedBy }) => announcedBy === 'key_hash');
  return [
    { sql: REMOVE_KEYS, args },
    ...named.map(({ name }) => ({ sql: `DELETE FROM ${name} ${THESE_HASHES}`, args })),
    ...putRows('REPLACE', 'api_keys', keys),
  ];
}

/** Puts the rows anew that fit a condition, in all tables whose changes are announced so. */
async function putAnew(copying: Copying, announcedBy: 'owner' | 'rules', where: string, args: readonly string[]) {
  const statements: Statement[] = [];
  for (const { name } of copying.tables.filter((table) => table.announcedBy === announcedBy)) {
    const rows = await rowsOf(copying, name, where, args);
    statements.push({ sql: `DELETE FROM ${name} ${where}`, args }, ...putRows('REPLACE', name, rows));
  }
  return statements;
}

/** Reads rows, with the columns that the copy has: a newer version may have added some to the database. */
async function rowsOf({ from, copy }: Copying, table: string, where: string, args: readonly string[]) {
  const columns = await copy({ sql: COLUMNS, args: [table] });
  return from({ sql: `SELECT ${selected(columns, clamped)} FROM ${quoted(table)} t ${where}`, args });
}
