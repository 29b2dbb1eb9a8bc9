// The rows of a table, page by page, and how they are put into the same table of another database.

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

/** `OR REPLACE`, or `OR IGNORE`: it may be sent twice. `where`, with `?2`: unless it is true nothing is put in. */
export function putRows(
  or: 'REPLACE' | 'IGNORE',
  table: string,
  rows: readonly Row[],
  condition?: { readonly where: string; readonly arg: string },
): Statement {
  const columns = Object.keys(rows[0] ?? {});
  const values = columns.map((_, at) => `value ->> ${at}`);
  const where = condition === undefined ? '' : ` WHERE ${condition.where}`;
  return {
    sql: `INSERT OR ${or} INTO ${table} (${columns}) SELECT ${values} FROM json_each(?1)${where}`,
    args: [
      JSON.stringify(rows.map((row) => columns.map((column) => row[column]))),
      ...(condition === undefined ? [] : [condition.arg]),
    ],
  };
}
