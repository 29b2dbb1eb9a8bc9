// The rows of a table, page by page, and how they are put into the same table of another database.

import type { Row, Statement } from './database.ts';

export type Read = (statement: Statement) => Promise<readonly Row[]>;

const PRIMARY_KEY = 'SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk';

/** Along the primary key; from the first row on, or after the one that is given. */
export async function* pagesOf(read: Read, table: string, rows: number, after?: Row): AsyncGenerator<readonly Row[]> {
  const key = (await read({ sql: PRIMARY_KEY, args: [table] })).map(({ name }) => String(name));
  const isAfter = `WHERE (${key}) > (${key.map(() => '?')})`;
  for (let last = after; ; ) {
    const page = await read({
      sql: `SELECT * FROM ${table} ${last === undefined ? '' : isAfter} ORDER BY ${key} LIMIT ${rows}`,
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
