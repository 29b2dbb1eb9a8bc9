// One SQLite database, wherever it is, as the queries see it. embedded/ and remote/ implement it.

import { StoreOutage } from '../ground/result.ts';

export type Value = string | number | bigint | ArrayBuffer | null;

/** A row's values by the names of their columns. */
export type Row = Readonly<Record<string, Value>>;

export interface Statement {
  readonly sql: string;
  /** Values for its `?`, if it has any. */
  readonly args?: readonly Value[];
  /** Owner, address or purpose: a remote database serves these in turn. Statements without it share one. */
  readonly fairnessKey?: string | undefined;
  /** Anybody may cause it, without a credential: at a remote database all of these share one turn. */
  readonly stranger?: true;
  /** Never waits for a turn: for what keeps memory current. */
  readonly urgent?: true;
  /** A power cut may undo it: spares a local file the wait for its disk. */
  readonly unsynced?: true;
  /** Belongs to a batch that nobody awaits and that takes long in a large file, where a thread runs it. */
  readonly background?: true;
}

export interface Written {
  /** Rows of the RETURNING clause, from the last try. */
  readonly rows: readonly Row[];
  /** Rows that the last try changed, without those of triggers; only of a statement without RETURNING clause. */
  readonly changed: number;
  /** True when an earlier try may have been carried out as well; `rows` does not tell what that one changed. */
  readonly repeated: boolean;
}

/** Every statement fails with a StoreOutage when the database is out of reach. */
export interface Database {
  /** Reads from the primary. Gives up after `withinMs`; without it, each database has a limit of its own. */
  read(statement: Statement, withinMs?: number): Promise<readonly Row[]>;
  /**
   * Runs one writing statement, durably unless it is `unsynced`. It may be sent again when the outcome of a try is
   * unknown, so it must be harmless when repeated. Only a remote database heeds `withinMs`.
   */
  write(statement: Statement, withinMs?: number): Promise<Written>;
  /** Runs statements in one transaction, all or none. May be sent more than once, like `write`. */
  writeAll(statements: readonly Statement[]): Promise<readonly Written[]>;
  close(): void;
}

/** A database this program must not touch: not ours, newer, or damaged. Starting again does not help. */
export class UnusableDatabase extends Error {
  override name = 'UnusableDatabase';

  constructor(
    message: string,
    /** What it is, for a file that is not that of DATABASE_URL. */
    readonly what = message,
  ) {
    super(message);
  }
}

/** Returns the first row of a statement that always has one. Throws a StoreOutage where the database sent none. */
export function firstOf([row]: readonly Row[]): Row {
  if (row === undefined) throw wrong('no row where there is always one');
  return row;
}

/** Returns the columns of a table's primary key, in their order. */
export async function primaryKeyOf(db: Database, table: string, schema = 'main'): Promise<string[]> {
  const sql = 'SELECT name FROM pragma_table_info(?1, ?2) WHERE pk > 0 ORDER BY pk';
  return (await db.read({ sql, args: [table, schema] })).map(({ name }) => String(name));
}

/** Returns a whole number of a row. Throws a StoreOutage for anything else: the database sent something else. */
export function wholeIn(row: Row, column: string): number {
  const value = row[column];
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw wrong(`no whole number as ${column}`);
}

/** Returns a text of a row, as `wholeIn` does. */
export function textIn(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === 'string') return value;
  throw wrong(`no text as ${column}`);
}

/** Returns a list that is in JSON, as `wholeIn` does. */
export function listIn(json: Value | undefined) {
  const list = parsed(json);
  if (Array.isArray(list)) return list;
  throw wrong('no list where there is always one');
}

function parsed(json: Value | undefined): unknown {
  try {
    return JSON.parse(String(json));
  } catch {
    return null;
  }
}

const wrong = (what: string) => new StoreOutage(`the database sent ${what}`);

/** Clamps a number that was typed by hand to what JavaScript holds exactly: beyond it the driver throws. */
export const held = (column: string) => `max(min(${column}, ${Number.MAX_SAFE_INTEGER}), ${Number.MIN_SAFE_INTEGER})`;

/** Returns whether our tables or columns are missing. No statement of ours fails with SQLite's message otherwise. */
export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)|has no column named/i.test(String(error));

/** Returns what a driver's error says, in one line, for the log. Never includes the statement's arguments. */
export function errorReason(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = String(message ?? error).split('\n', 1)[0] ?? '';
  return typeof code === 'string' && !text.includes(code) ? `${code}: ${text}` : text;
}
