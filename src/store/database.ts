// Declares the interface of one SQLite database, which embedded/ and remote/ implement, and validates values it returns.

import { StoreOutage } from '../ground/result.ts';
import { reasonOf } from '../ground/text.ts';

export type Value = string | number | bigint | ArrayBuffer | null;

export type Row = Readonly<Record<string, Value>>;

export interface Statement {
  readonly sql: string;
  readonly args?: readonly Value[];
  /** An owner, address or purpose: a remote database serves these in turn. Statements without it share one turn. */
  readonly fairnessKey?: string | undefined;
  /** Anybody may cause it, without a credential: at a remote database all of these share one turn. */
  readonly stranger?: true;
  /** Never waits for a turn, because it keeps memory current. */
  readonly urgent?: true;
  /** A power cut may undo it, which saves a local file the wait for its disk. */
  readonly unsynced?: true;
  /** Is slow in a large file, so a thread runs it: a read, or what belongs to a batch that nobody awaits. */
  readonly background?: boolean;
}

export interface Written {
  /** Rows of the RETURNING clause, from the last try. */
  readonly rows: readonly Row[];
  /** Rows that the last try changed, without those of triggers; only for statements without a RETURNING clause. */
  readonly changed: number;
  /** Whether an earlier try may also have run; `rows` doesn't show what that one changed. */
  readonly repeated: boolean;
}

/** Every statement fails with a StoreOutage when the database is out of reach. */
export interface Database {
  /** Reads from the primary. Times out after `withinMs`, or after the database's default. */
  read(statement: Statement, withinMs?: number): Promise<readonly Row[]>;
  /**
   * Runs one writing statement, durably unless it is `unsynced`. It may be sent again when the outcome of a try is
   * unknown, so it must be idempotent.
   */
  write(statement: Statement): Promise<Written>;
  /** Runs statements in one transaction, all or none. May be sent again, like `write`. */
  writeAll(statements: readonly Statement[]): Promise<readonly Written[]>;
  close(): Promise<void>;
}

/** Creates what reads and writes some tables of the server's database; where there are metrics, they time it. */
export type StoreOf = <S extends object>(create: (db: Database) => S) => S;

/** A database that this program must not touch: not ours, newer, or damaged. Restarting does not help. */
export class UnusableDatabase extends Error {
  override name = 'UnusableDatabase';

  constructor(
    message: string,
    /** What it is, for a file other than DATABASE_URL's. */
    readonly what = message,
  ) {
    super(message);
  }
}

/** Returns the first row of a statement that always has one. Throws a StoreOutage if it has none. */
export function firstOf([row]: readonly Row[]): Row {
  if (row === undefined) throw wrong('no row where there is always one');
  return row;
}

const NOW: Statement = { sql: "SELECT (julianday('now') - 2440587.5) * 86400000 AS now_ms" };

export const nowMsOf = async (db: Database): Promise<number> => Number(firstOf(await db.read(NOW)).now_ms);

/**
 * Fails if the database is read-only, can't sync, or has no room for what one change of a key writes. It writes a code that
 * nobody has and that has ended, which the upkeep deletes. A row that stays the same would write no page.
 */
export const WRITE_PROBE: Statement = {
  sql: `INSERT INTO codes (hash, ends_at_ms, content) VALUES ('probe', 0, hex(randomblob(32768)))
ON CONFLICT (hash) DO UPDATE SET content = excluded.content`,
};

/** Returns an integer of a row. Throws a StoreOutage if the database sent anything else. */
export function wholeIn(row: Row, column: string): number {
  const value = row[column];
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw wrong(`no whole number as ${column}`);
}

/** Returns a text of a row, like `wholeIn`. */
export function textIn(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === 'string') return value;
  throw wrong(`no text as ${column}`);
}

/** Returns a JSON list, like `wholeIn`. `List`: what its statement has put there, which isn't checked. */
export function listIn<List extends readonly unknown[]>(json: Value | undefined): List {
  const list = parsed(json);
  if (Array.isArray(list)) return list as readonly unknown[] as List;
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

/** Clamps a number typed by hand, or a sum with one, to JavaScript's safe integers, beyond which the driver throws. */
export const safeInteger = (column: string) =>
  `max(min(${column}, ${Number.MAX_SAFE_INTEGER}), ${Number.MIN_SAFE_INTEGER})`;

/** Returns whether our tables or columns are missing. Our statements cause SQLite's message for no other reason. */
export const isSchemaMissing = (error: unknown): boolean =>
  /no such (table|column)|has no column named/i.test(String(error));

/** Returns whether stored text is damaged: constraints let no other in, and what we send is JSON. */
export const isTextDamaged = (error: unknown): boolean => /malformed JSON/.test(String(error));

/** Returns a driver's error in one line, for the log. Never includes the statement's arguments. */
export function errorReason(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = reasonOf(error instanceof Error ? error : (message ?? error)).split('\n', 1)[0] ?? '';
  return typeof code === 'string' && !text.includes(code) ? `${code}: ${text}` : text;
}

// Where the keys are: in a file, or in a remote database with or without a replica.

export interface RemoteConfig {
  readonly mode: 'remote';
  readonly url: string;
  readonly authToken: string | null;
  readonly replicaFile: string | null;
}

export interface EmbeddedConfig {
  readonly mode: 'embedded';
  readonly path: string;
}

export type DatabaseConfig = EmbeddedConfig | RemoteConfig;
